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

// FlagDecl declares a flag once, for all commands that have it. Commands add it by its name, with where its value goes
// and its default: see [Add].
type FlagDecl struct {
	Name  string // after a dot, if it means something else in one command
	short string
	often bool   // shown by --help of commands with many flags; others by --help --all
	env   bool   // an environment variable and the configuration file set it as well
	Help  string // the word in back quotes stands for the value

	Span   string // the lowest value and, if there is one, the highest
	Values string // what a shell completes
	files  string // or the endings of files
	Needs  string // it has no effect where this flag is not set as well
	Unless string // a setting is left out where one of these is set nearer: on the command line, or in the environment
}

// DeclarationOf returns the declaration of a flag.
func DeclarationOf(name string) FlagDecl {
	d, ok := declared(name)
	if !ok {
		panic("flag " + name + " is not declared") // a test adds every flag of every command
	}
	d.Name = d.Name[strings.LastIndexByte(d.Name, '.')+1:]
	return d
}

// Declarations returns what is declared of all flags.
func Declarations() []FlagDecl { return append(slices.Clone(flagTable), numberDecls()...) }

// declared looks a flag up, in the table and among the numbers of an answer.
func declared(name string) (FlagDecl, bool) {
	for i := range flagTable { // not a copy of each: every flag of every command is looked up when the program starts
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

// numberDecls declares the flags of the numbers of an answer.
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

// annotate notes with a flag what checks and help need of its declaration.
func (d FlagDecl) annotate(p *pflag.FlagSet) {
	if d.Span != "" {
		cobra.CheckErr(p.SetAnnotation(d.Name, spanOf, strings.Fields(d.Span)))
	}
	if d.often {
		cobra.CheckErr(p.SetAnnotation(d.Name, oftenUsed, nil))
	}
}

// AddList adds a flag of the table that takes a list with commas.
func AddList(p *pflag.FlagSet, name string, to *[]string, usual []string) {
	d := DeclarationOf(name)
	p.StringSliceVarP(to, d.Name, d.short, usual, d.Help)
	d.annotate(p)
}

// AddValue adds a flag of the table that has a type of its own. Its default is its value.
func AddValue(p *pflag.FlagSet, name string, v pflag.Value) {
	d := DeclarationOf(name)
	p.VarP(v, d.Name, d.short, d.Help)
	d.annotate(p)
}

// CheckSpans refuses values that are out of range.
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

// checkSpan refuses a value out of the range that the flag has in the table, written as said.
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
	}
	if high < math.MaxInt32 {
		want = bounds[0] + " to " + bounds[1]
	}
	if !(v >= low && v <= high) { // not NaN either
		return Usagef("%s%v is out of range: give %s", said, f.Value, want)
	}
	return nil
}

// quantity is a number, or a time in nanoseconds.
func quantity(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		var d time.Duration
		d, err = time.ParseDuration(text)
		v = float64(d)
	}
	return v, err
}

// The annotations of flags.
const (
	spanOf    = "span"  // the range
	oftenUsed = "often" // --help shows it
)

// CheckNeeds refuses flags that have no effect because another one of the command is not set. Those that need one of
// allowed may be given: what they need can come later.
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

// missing is the flag that a flag needs and that is not set, or the one that this needs; "" if there is none.
func missing(set *pflag.FlagSet, name string) (needs string) {
	for n := neededBy(name); n != "" && set.Lookup(n) != nil && !isOn(set, n); n = neededBy(n) {
		needs = n
	}
	return needs
}

// neededBy is the flag that another one needs, or "".
func neededBy(name string) string {
	d, _ := declared(name)
	return d.Needs
}

// isOn reports whether a flag is set to something that has an effect.
func isOn(set *pflag.FlagSet, name string) bool {
	f := set.Lookup(name)
	off := []string{"", "off", "false"}
	if name != "verify" { // 0 is its strictest value
		off = append(off, "0")
	}
	return f.Changed && !slices.Contains(off, f.Value.String())
}

// CheckMode refuses flags that a mode of decoding has no use for.
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
