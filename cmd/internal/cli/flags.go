package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagDecl declares a flag once, for all commands that have it. A command adds it with [Add], by its name, with a
// variable and a default.
type FlagDecl struct {
	Name  string // with the command after a dot, if the flag means something else there
	short string
	often bool   // shown by --help of commands with many flags; others only by --help --all
	env   bool   // also set by an environment variable and the configuration file
	Help  string // the word in back quotes is the placeholder of the value

	Span    string // the minimum and the maximum, if there is one; > and < exclude the value itself
	Choices string // the only values, also of each element of a list
	Values  string // some of the values, for shell completion
	files   string // file endings for shell completion
	empty   bool   // the empty text is a value

	// Other flags, each as NAME or NAME=VALUE.
	Needs    string // without this flag, the flag has no effect
	Unless   string // beside one of these, the flag has no effect
	Excludes string // these contradict the flag
	With     string // this one is given together with the flag
}

// DeclarationOf returns the declaration of a flag.
func DeclarationOf(name string) FlagDecl {
	d, ok := lookupDeclaration(name)
	if !ok {
		panic("flag " + name + " is not declared") // unreachable: a test adds every flag of every command
	}
	d.Name = d.Name[strings.LastIndexByte(d.Name, '.')+1:]
	return d
}

// Declarations returns the declarations of all flags.
func Declarations() []FlagDecl { return append(slices.Clone(flagTable), numericFlagDecls()...) }

func lookupDeclaration(name string) (FlagDecl, bool) {
	for i := range flagTable { // without copies: every flag of every command is looked up at the start of the program
		if flagTable[i].Name == name {
			return flagTable[i], true
		}
	}
	for _, d := range numericFlagDecls() {
		if d.Name == name {
			return d, true
		}
	}
	return FlagDecl{}, false
}

func numericFlagDecls() (all []FlagDecl) {
	for _, n := range new(terms.Settings).Numbers() {
		d := FlagDecl{Name: n.Flag, Help: n.Help + " (" + n.Range() + ")", Span: fmt.Sprintf("%v %.0f", n.Low, n.High)}
		d.often = n.Flag == "temp"
		d.env = n.Flag == "temp" || n.Flag == "top-k" || n.Flag == "top-p"
		if n.Drawn {
			d.Needs, d.Help = "temp", "with --temp: "+d.Help
		}
		all = append(all, d)
	}
	return all
}

// Add adds a flag of the table to a command, with its default.
func Add[T any](p *pflag.FlagSet, name string, to *T, usual T) {
	d := DeclarationOf(name)
	switch to := any(to).(type) {
	case *string:
		p.StringVarP(to, d.Name, d.short, any(usual).(string), d.Help)
	case *bool:
		p.BoolVarP(to, d.Name, d.short, any(usual).(bool), d.Help)
	case *int:
		p.IntVarP(to, d.Name, d.short, any(usual).(int), d.Help)
	case *int64:
		p.Int64VarP(to, d.Name, d.short, any(usual).(int64), d.Help)
	case *uint64:
		p.Uint64VarP(to, d.Name, d.short, any(usual).(uint64), d.Help)
	case *float64:
		p.Float64VarP(to, d.Name, d.short, any(usual).(float64), d.Help)
	case *time.Duration:
		p.DurationVarP(to, d.Name, d.short, any(usual).(time.Duration), d.Help)
	case *[]string:
		p.StringArrayVarP(to, d.Name, d.short, any(usual).([]string), d.Help)
	default:
		panic(fmt.Sprintf("flag %s is of type %T", name, to))
	}
	d.annotateFlag(p, name)
}

func (d FlagDecl) annotateFlag(p *pflag.FlagSet, name string) {
	cobra.CheckErr(p.SetAnnotation(d.Name, declaredAs, []string{name}))
}

// declaredAs is the annotation of a flag with the name of its declaration.
const declaredAs = "declared"

// declarationOf returns the declaration that a flag was added with; a zero one if there is none.
func declarationOf(f *pflag.Flag) (d FlagDecl) {
	if name := f.Annotations[declaredAs]; len(name) > 0 {
		d, _ = lookupDeclaration(name[0])
	}
	return d
}

// AddList adds a flag of the table with a list of values, separated by commas.
func AddList(p *pflag.FlagSet, name string, to *[]string, usual []string) {
	d := DeclarationOf(name)
	p.StringSliceVarP(to, d.Name, d.short, usual, d.Help)
	d.annotateFlag(p, name)
}

// AddValue adds a flag of the table that has its own type. The default is the current value.
func AddValue(p *pflag.FlagSet, name string, v pflag.Value) {
	d := DeclarationOf(name)
	p.VarP(v, d.Name, d.short, d.Help)
	d.annotateFlag(p, name)
}
