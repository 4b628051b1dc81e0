package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
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

	Span   string // the minimum and, if there is one, the maximum
	Values string // values for shell completion
	files  string // file endings for shell completion
	Needs  string // the flag has no effect if this flag is not set
	Unless string // a setting is ignored if one of these flags is set with higher priority
}

// DeclarationOf returns the declaration of a flag.
func DeclarationOf(name string) FlagDecl {
	d, ok := declared(name)
	if !ok {
		panic("flag " + name + " is not declared") // unreachable: a test adds every flag of every command
	}
	d.Name = d.Name[strings.LastIndexByte(d.Name, '.')+1:]
	return d
}

// Declarations returns the declarations of all flags.
func Declarations() []FlagDecl { return append(slices.Clone(flagTable), numberDecls()...) }

// declared looks a flag up, in the table and among the numeric settings of an answer.
func declared(name string) (FlagDecl, bool) {
	for i := range flagTable { // without copies: every flag of every command is looked up at the start of the program
		if flagTable[i].Name == name {
			return flagTable[i], true
		}
	}
	for _, d := range numberDecls() {
		if d.Name == name {
			return d, true
		}
	}
	return FlagDecl{}, false
}

// numberDecls declares the flags for the numeric settings of an answer.
func numberDecls() (all []FlagDecl) {
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
	d.annotate(p)
}

// annotate stores the parts of the declaration that checks and help need in the flag.
func (d FlagDecl) annotate(p *pflag.FlagSet) {
	if d.Span != "" {
		cobra.CheckErr(p.SetAnnotation(d.Name, spanOf, strings.Fields(d.Span)))
	}
	if d.often {
		cobra.CheckErr(p.SetAnnotation(d.Name, oftenUsed, nil))
	}
}

// AddList adds a flag of the table with a list of values, separated by commas.
func AddList(p *pflag.FlagSet, name string, to *[]string, usual []string) {
	d := DeclarationOf(name)
	p.StringSliceVarP(to, d.Name, d.short, usual, d.Help)
	d.annotate(p)
}

// AddValue adds a flag of the table that has its own type. The default is the current value.
func AddValue(p *pflag.FlagSet, name string, v pflag.Value) {
	d := DeclarationOf(name)
	p.VarP(v, d.Name, d.short, d.Help)
	d.annotate(p)
}

// CheckSpans returns an error if values are out of range.
func CheckSpans(set *pflag.FlagSet) (err error) {
	set.VisitAll(func(f *pflag.Flag) {
		if o, ok := f.Value.(*OptionsFlag); ok && err == nil {
			o.VisitAll(func(option *pflag.Flag) {
				if err == nil && option.Changed {
					err = checkSpan("--"+f.Name+" "+option.Name+"=", option)
				}
			})
		} else if err == nil && f.Changed {
			err = checkSpan("--"+f.Name+" ", f)
		}
	})
	return err
}

// checkSpan returns an error if a value is out of the range in the table. The error begins with said, the flag.
func checkSpan(said string, f *pflag.Flag) error {
	bounds := f.Annotations[spanOf]
	v, err := quantity(f.Value.String())
	if len(bounds) == 0 || err != nil { // lists are checked where they are used
		return nil
	}
	low, _ := quantity(bounds[0])
	high, want := math.MaxFloat64, bounds[0]+" or more"
	if len(bounds) > 1 {
		high, _ = quantity(bounds[1])
		want = bounds[0] + " to " + bounds[1]
	}
	if !(v >= low && v <= high) { // false for NaN, too
		return Usagef("%s%v is out of range: give %s", said, f.Value, want)
	}
	return nil
}

// quantity parses a number, or a duration as nanoseconds.
func quantity(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		var d time.Duration
		d, err = time.ParseDuration(text)
		v = float64(d)
	}
	return v, err
}

// Annotations of flags.
const (
	spanOf    = "span"  // range
	oftenUsed = "often" // shown by --help
)

// CheckNeeds returns an error if a flag has no effect because another flag of the command is not set. Flags that need
// one of allowed are accepted: that flag may be set later.
func CheckNeeds(set *pflag.FlagSet, allowed ...string) (err error) {
	set.VisitAll(func(f *pflag.Flag) {
		if err != nil || !f.Changed || f.Name == "mode" && f.Value.String() == "local" {
			return
		}
		needs := missing(set, f.Name)
		if needs == "" || slices.Contains(allowed, needs) {
			return
		}
		err = Usagef("--%s has no effect without %s", f.Name, cmp.Or(map[string]string{
			"cloud":  "a gateway: give one with --cloud host:port",
			"verify": "verification: give --verify with a margin, such as --verify 0",
			"temp":   "a temperature: give --temp, such as --temp 0.7",
		}[needs], "--"+needs+": give that as well, or leave it out"))
	})
	return err
}

// missing returns the flag that a flag needs and that is not set, directly or indirectly; "" if there is none.
func missing(set *pflag.FlagSet, name string) (needs string) {
	for n := neededBy(name); n != "" && set.Lookup(n) != nil && !isOn(set, n); n = neededBy(n) {
		needs = n
	}
	return needs
}

// neededBy returns the flag that another flag needs, or "".
func neededBy(name string) string {
	d, _ := declared(name)
	return d.Needs
}

// isOn reports whether a flag has a value with an effect.
func isOn(set *pflag.FlagSet, name string) bool {
	f := set.Lookup(name)
	off := []string{"", "off", "false"}
	if name != "verify" { // 0 is the strictest value of verify
		off = append(off, "0")
	}
	return f.Changed && !slices.Contains(off, f.Value.String())
}

// CheckMode returns an error for flags that have no effect in a mode of decoding.
func CheckMode(set *pflag.FlagSet, mode string) (err error) {
	set.VisitAll(func(f *pflag.Flag) {
		switch {
		case err != nil || !f.Changed || f.Name == "mode":
		case mode == "local" && (f.Name == "cloud" || neededBy(f.Name) == "cloud"):
			err = Usagef("--%s has no effect with --mode local: leave one of them out", f.Name)
		case mode == "serial" && slices.Contains([]string{"branches", "window", "inflight"}, f.Name):
			err = Usagef("--%s has no effect with --mode serial, which does not draft: leave it out, or give "+
				"--mode pipelined", f.Name)
		}
	})
	return err
}
