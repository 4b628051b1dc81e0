package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/spf13/pflag"
)

// FlagDecl declares a flag once, for all commands that have it. A command adds it with [Add], by its name, with a
// variable and a default; a flag that is declared elsewhere than in this package, with [AddDeclared].
type FlagDecl struct {
	Name  string // with the command after a dot, if the flag means something else there
	Short string
	Often bool   // shown by --help of commands with many flags; others only by --help --all
	Env   bool   // also set by an environment variable and the configuration file
	Help  string // the word in back quotes is the placeholder of the value

	Span    string // the minimum and the maximum, if there is one; > and < exclude the value itself
	Choices string // the only values, also of each element of a list
	Values  string // some of the values, for shell completion
	Files   string // file endings for shell completion
	Empty   bool   // the empty text is a value

	// Other flags, each as NAME or NAME=VALUE.
	Needs    string // without this flag, the flag has no effect
	Unless   string // beside one of these, the flag has no effect
	Excludes string // these contradict the flag
	With     string // this one is given together with the flag
}

// Declaration returns the declaration of a flag in this package.
func Declaration(name string) FlagDecl {
	for i := range flagTable { // without copies: every flag of every command is looked up at the start of the program
		if flagTable[i].Name == name {
			return flagTable[i]
		}
	}
	for _, d := range numericFlagDecls() {
		if d.Name == name {
			return d
		}
	}
	panic("flag " + name + " is not declared") // unreachable: a test adds every flag of every command
}

// Declarations returns the declarations of this package: the flags that a command of the program pilotfish has.
func Declarations() []FlagDecl { return append(slices.Clone(flagTable), numericFlagDecls()...) }

func numericFlagDecls() (all []FlagDecl) {
	for _, n := range new(terms.Settings).Numbers() {
		d := FlagDecl{Name: n.Flag, Help: n.Help + " (" + n.Range() + ")", Span: fmt.Sprintf("%v %.0f", n.Low, n.High)}
		d.Often = n.Flag == "temp"
		d.Env = n.Flag == "temp" || n.Flag == "top-k" || n.Flag == "top-p"
		if n.Drawn {
			d.Needs, d.Help = "temp", "with --temp: "+d.Help
		}
		all = append(all, d)
	}
	return all
}

// Add adds a flag of this package to a command, with its default.
func Add[T any](p *pflag.FlagSet, name string, to *T, usual T) {
	AddDeclared(p, Declaration(name), to, usual)
}

// AddDeclared adds a flag to a command, with its default.
func AddDeclared[T any](p *pflag.FlagSet, d FlagDecl, to *T, usual T) {
	switch name := d.flagName(); to := any(to).(type) {
	case *string:
		p.StringVarP(to, name, d.Short, any(usual).(string), d.Help)
	case *bool:
		p.BoolVarP(to, name, d.Short, any(usual).(bool), d.Help)
	case *int:
		p.IntVarP(to, name, d.Short, any(usual).(int), d.Help)
	case *int64:
		p.Int64VarP(to, name, d.Short, any(usual).(int64), d.Help)
	case *uint64:
		p.Uint64VarP(to, name, d.Short, any(usual).(uint64), d.Help)
	case *float64:
		p.Float64VarP(to, name, d.Short, any(usual).(float64), d.Help)
	case *time.Duration:
		p.DurationVarP(to, name, d.Short, any(usual).(time.Duration), d.Help)
	case *[]string:
		p.StringArrayVarP(to, name, d.Short, any(usual).([]string), d.Help)
	default:
		panic(fmt.Sprintf("flag %s is of type %T", name, to))
	}
	d.annotateFlag(p)
}

// AddList adds a flag with a list of values, separated by commas.
func (d FlagDecl) AddList(p *pflag.FlagSet, to *[]string, usual []string) {
	p.StringSliceVarP(to, d.flagName(), d.Short, usual, d.Help)
	d.annotateFlag(p)
}

// AddValue adds a flag of this package that has its own type. The default is the current value.
func AddValue(p *pflag.FlagSet, name string, v pflag.Value) { Declaration(name).AddValue(p, v) }

// AddValue adds a flag that has its own type. The default is the current value.
func (d FlagDecl) AddValue(p *pflag.FlagSet, v pflag.Value) {
	p.VarP(v, d.flagName(), d.Short, d.Help)
	d.annotateFlag(p)
}

// flagName returns the name of the flag without the command before it.
func (d *FlagDecl) flagName() string { return d.Name[strings.LastIndexByte(d.Name, '.')+1:] }

// The annotations of a flag with its declaration: the texts of [FlagDecl.texts], and whether the others are set.
const (
	declaredTexts = "declared"
	declaredOften = "often"
	declaredEmpty = "empty"
)

// texts returns the texts of a declaration that matter after the flag was added.
func (d *FlagDecl) texts() []*string {
	return []*string{
		&d.Name, &d.Span, &d.Choices, &d.Values, &d.Files, &d.Needs, &d.Unless, &d.Excludes, &d.With,
	}
}

func (d FlagDecl) annotateFlag(p *pflag.FlagSet) {
	d.Name = d.flagName()
	var texts []string
	for _, text := range d.texts() {
		texts = append(texts, *text)
	}
	all := map[string][]string{declaredTexts: texts}
	if d.Often {
		all[declaredOften] = nil
	}
	if d.Empty {
		all[declaredEmpty] = nil
	}
	p.Lookup(d.Name).Annotations = all
}

// DeclarationOf returns the declaration that a flag was added with, as far as it matters later; a zero one if there is
// none.
func DeclarationOf(f *pflag.Flag) (d FlagDecl) {
	texts := f.Annotations[declaredTexts]
	for i, to := range d.texts()[:len(texts)] {
		*to = texts[i]
	}
	_, d.Often = f.Annotations[declaredOften]
	_, d.Empty = f.Annotations[declaredEmpty]
	return d
}
