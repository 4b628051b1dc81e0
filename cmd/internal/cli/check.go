package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CheckFlags returns an error if the value of a flag is not one of those that its declaration allows, or if flags
// contradict each other. What only has no effect is accepted: see [App.warnIdleFlags].
func CheckFlags(set *pflag.FlagSet) (err error) {
	visitGivenFlags(set, func(said string, f *pflag.Flag, d FlagDecl) {
		if err == nil {
			err = d.checkFlag(set, said, f)
		}
	})
	return err
}

// visitGivenFlags calls do for each flag and each option of a flag that has a value, with how it is written on the
// command line.
func visitGivenFlags(set *pflag.FlagSet, do func(said string, f *pflag.Flag, d FlagDecl)) {
	set.VisitAll(func(f *pflag.Flag) {
		o, options := f.Value.(*OptionsFlag)
		switch {
		case options:
			o.VisitAll(func(option *pflag.Flag) {
				if option.Changed {
					do("--"+f.Name+" "+option.Name+"=", option, DeclarationOf(option))
				}
			})
		case f.Changed:
			do("--"+f.Name+" ", f, DeclarationOf(f))
		}
	})
}

func (d FlagDecl) checkFlag(set *pflag.FlagSet, said string, f *pflag.Flag) error {
	switch {
	case isEmptyFlag(f) && !d.Empty:
		_, usage := pflag.UnquoteUsage(f)
		return Usagef("%s is empty: give a value, or leave it out (%s)", strings.TrimRight(said, " ="), usage)
	case d.With != "" && !set.Changed(d.With):
		return Usagef("--%s and --%s belong together: give both or none", f.Name, d.With)
	case f.Value.String() == f.DefValue:
		return nil
	}
	for one := range strings.SplitSeq(f.Value.String(), ",") { // it may be a list
		if err := d.checkRange(said, strings.TrimSpace(one)); err != nil {
			return err
		}
	}
	for other := range strings.FieldsSeq(d.Excludes) {
		if isFlagOn(f) && matchesCondition(set, other) {
			return Usagef("--%s and --%s exclude each other: leave one of them out", f.Name,
				strings.ReplaceAll(other, "=", " "))
		}
	}
	return d.checkChoices(said, f)
}

// checkChoices also refuses a value that a list has twice.
func (d FlagDecl) checkChoices(said string, f *pflag.Flag) error {
	values := []string{f.Value.String()}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values = list.GetSlice()
	}
	for i, v := range values {
		switch {
		case d.Choices == "":
		case !slices.Contains(strings.Fields(d.Choices), v):
			return Usagef("%s%.40q is not known: choose %s", said, v, strings.ReplaceAll(d.Choices, " ", ", "))
		case slices.Contains(values[:i], v):
			return Usagef("%s%s is given twice: leave one of them out", said, v)
		}
	}
	return nil
}

// isEmptyFlag is also true if one of several values is the empty text.
func isEmptyFlag(f *pflag.Flag) bool {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return slices.Contains(list.GetSlice(), "")
	}
	return f.Value.Type() == "string" && f.Value.String() == ""
}

func (d FlagDecl) checkRange(said, text string) error {
	bounds := strings.Fields(d.Span)
	v, err := parseQuantity(text)
	if len(bounds) == 0 || err != nil {
		return nil
	}
	least, above := strings.CutPrefix(bounds[0], ">")
	low, _ := parseQuantity(least)
	high, below, want := math.MaxFloat64, false, least+" or more"
	if above {
		want = "more than " + least
	}
	if len(bounds) > 1 {
		var most string
		most, below = strings.CutPrefix(bounds[1], "<")
		high, _ = parseQuantity(most)
		switch {
		case below:
			want = "more than " + least + ", less than " + most
		case above:
			want = "more than " + least + ", up to " + most
		default:
			want = least + " to " + most
		}
	}
	if v >= low && v <= high && !(above && v == low) && !(below && v == high) { // false for NaN, too
		return nil
	}
	return Usagef("%s%v is out of range: give %s", said, text, want)
}

// parseQuantity parses a number, or a duration as nanoseconds.
func parseQuantity(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		var d time.Duration
		d, err = time.ParseDuration(text)
		v = float64(d)
	}
	return v, err
}

func (a *App) warnIdleFlags(c *cobra.Command) {
	set := c.Flags()
	visitGivenFlags(set, func(said string, f *pflag.Flag, d FlagDecl) {
		if why := idleReason(c, d); why != "" && isFlagOn(f) && a.Settled[f.Name] == "" {
			fmt.Fprintf(a.Stderr, "%s: no effect %s\n", strings.TrimRight(said, " ="), why)
		}
	})
}

// idleReason returns why a flag has no effect, or "". Without --cloud, chat may still connect to a gateway, and
// commands that measure have other large models.
func idleReason(c *cobra.Command, d FlagDecl) string {
	needs := unmetNeed(c.Flags(), d)
	if needs != "" && (needs != "cloud" || c.Name() == "run" || c.Name() == "serve") {
		return cmp.Or(map[string]string{"temp": "at temperature 0"}[needs], "without --"+needs)
	}
	for other := range strings.FieldsSeq(d.Unless) {
		if matchesCondition(c.Flags(), other) {
			return "with --" + strings.ReplaceAll(other, "=", " ")
		}
	}
	return ""
}

// unmetNeed returns the flag that a flag needs and that is off, directly or indirectly; "" if there is none.
func unmetNeed(set *pflag.FlagSet, d FlagDecl) (needs string) {
	for name := d.Needs; name != ""; {
		f := set.Lookup(name)
		if f == nil {
			break
		}
		if !isFlagOn(f) {
			needs = name
		}
		name = DeclarationOf(f).Needs
	}
	return needs
}

// matchesCondition reports whether a flag of a set is on, or has the value in NAME=VALUE, also with more after a colon.
func matchesCondition(set *pflag.FlagSet, condition string) bool {
	name, value, valued := strings.Cut(condition, "=")
	f := set.Lookup(name)
	if f == nil || !valued {
		return f != nil && isFlagOn(f)
	}
	kind, _, _ := strings.Cut(f.Value.String(), ":")
	return kind == value
}

func isFlagOn(f *pflag.Flag) bool {
	off := []string{"", "off", "false", f.DefValue}
	switch f.Name {
	case "temp":
		return f.Value.String() != "0" // its default may be another
	case "threshold":
		return f.Changed // 0 is not what is used without it
	}
	return f.Changed && !slices.Contains(off, f.Value.String())
}
