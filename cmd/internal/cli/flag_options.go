package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// OptionsFlag is a flag that sets options by name: --limit devices=100,memory=9999. It may be repeated.
type OptionsFlag struct {
	name string // of the flag
	*pflag.FlagSet
}

// AddOptions adds a flag for options, and returns it. The options are added to its set.
func AddOptions(p *pflag.FlagSet, name string) *OptionsFlag {
	o := &OptionsFlag{name, pflag.NewFlagSet(name, pflag.ContinueOnError)}
	AddValue(p, name, o)
	return o
}

// Set implements [pflag.Value].
func (o *OptionsFlag) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(one, "=")
		name = strings.TrimSpace(name)
		flag := o.Lookup(name)
		if flag == nil {
			return fmt.Errorf("there is no %.60q: choose %s", name, strings.Join(o.Names(), ", "))
		}
		if !found && flag.Value.Type() != "bool" {
			return fmt.Errorf("%s has no value: write %s=VALUE", name, name)
		}
		if !found {
			value = "true"
		}
		if err := o.FlagSet.Set(name, value); err != nil {
			return errors.New(strings.TrimPrefix(FlagFault(err).Error(), "--"))
		}
	}
	return nil
}

// String implements [pflag.Value].
func (o *OptionsFlag) String() string {
	if o == nil || o.FlagSet == nil {
		return ""
	}
	return strings.Join(o.GetSlice(), ",")
}

// Type implements [pflag.Value].
func (*OptionsFlag) Type() string { return "NAME=VALUE" }

// Names returns the names of the options, sorted.
func (o *OptionsFlag) Names() (all []string) {
	o.VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	return all
}

// GetSlice implements [pflag.SliceValue]. It returns the options that are set, as NAME=VALUE.
func (o *OptionsFlag) GetSlice() (all []string) {
	o.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			all = append(all, f.Name+"="+f.Value.String())
		}
	})
	return all
}

// Append implements [pflag.SliceValue].
func (o *OptionsFlag) Append(text string) error { return o.Set(text) }

// Replace implements [pflag.SliceValue]. Options that are not in the list keep their values.
func (o *OptionsFlag) Replace(all []string) error { return o.Set(strings.Join(all, ",")) }

// Without drops the options that are set from a list of NAME=VALUE.
func (o *OptionsFlag) Without(all []string) (rest []string) {
	for _, one := range all {
		name, _, _ := strings.Cut(one, "=")
		if flag := o.Lookup(name); flag == nil || !flag.Changed {
			rest = append(rest, one)
		}
	}
	return rest
}
