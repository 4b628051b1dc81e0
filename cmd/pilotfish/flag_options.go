package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// optionsFlag is a flag that sets options by name: --limit max-questions=100,max-sessions=8. It may be repeated.
type optionsFlag struct {
	name string // of the flag
	*pflag.FlagSet
}

// addOptions adds a flag for options, which are added to the set that it returns.
func addOptions(p *pflag.FlagSet, name string) *optionsFlag {
	o := &optionsFlag{name, pflag.NewFlagSet(name, pflag.ContinueOnError)}
	addValue(p, name, o)
	return o
}

// Set implements [pflag.Value].
func (o *optionsFlag) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(one, "=")
		name = strings.TrimSpace(name)
		flag := o.Lookup(name)
		if flag == nil {
			return fmt.Errorf("there is no %s %.60q: choose %s", o.name, name, strings.Join(o.names(), ", "))
		}
		if !found && flag.Value.Type() != "bool" {
			return fmt.Errorf("%s has no value: write %s=VALUE", name, name)
		}
		if !found {
			value = "true"
		}
		if err := o.FlagSet.Set(name, value); err != nil {
			return errors.New(strings.TrimPrefix(flagFault(err).Error(), "--"))
		}
	}
	return nil
}

// String implements [pflag.Value].
func (o *optionsFlag) String() string {
	if o == nil || o.FlagSet == nil {
		return ""
	}
	return strings.Join(o.GetSlice(), ",")
}

// Type implements [pflag.Value].
func (*optionsFlag) Type() string { return "NAME=VALUE" }

func (o *optionsFlag) names() (all []string) {
	o.VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	return all
}

// GetSlice implements [pflag.SliceValue]: what is set, as NAME=VALUE.
func (o *optionsFlag) GetSlice() (all []string) {
	o.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			all = append(all, f.Name+"="+f.Value.String())
		}
	})
	return all
}

// Append implements [pflag.SliceValue].
func (o *optionsFlag) Append(text string) error { return o.Set(text) }

// Replace implements [pflag.SliceValue]. Options that are not named keep their values.
func (o *optionsFlag) Replace(all []string) error { return o.Set(strings.Join(all, ",")) }

// without leaves out the values of options that are set.
func (o *optionsFlag) without(all []string) (rest []string) {
	for _, one := range all {
		name, _, _ := strings.Cut(one, "=")
		if flag := o.Lookup(name); flag == nil || !flag.Changed {
			rest = append(rest, one)
		}
	}
	return rest
}
