package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// flagsOfCommands calls f with every command of the program except those of cobra, and with its flags, including hidden
// ones but not --help.
func flagsOfCommands(f func(c *cobra.Command, flags []*pflag.Flag)) {
	root := cli.NewRootCommand(&cli.App{Commands: allCommands})
	root.InitDefaultVersionFlag()
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		var flags []*pflag.Flag
		c.Flags().AddFlagSet(c.PersistentFlags())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "all" {
				flags = append(flags, f)
			}
		})
		f(c, flags)
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" && sub.Name() != "help" {
				visit(sub)
			}
		}
	}
	visit(root)
}

// TestNonsenseIsRefused: a flag refuses values of a wrong type, and a declared range what is below it; the message
// names the flag.
func TestNonsenseIsRefused(t *testing.T) {
	flagsOfCommands(func(c *cobra.Command, flags []*pflag.Flag) {
		for _, f := range flags {
			switch f.Value.Type() {
			case "string", "stringArray", "stringSlice", "paths":
				continue
			}
			values := []string{"nonsense"}
			if name := f.Annotations["declared"]; len(name) > 0 && cli.DeclarationOf(name[0]).Span != "" {
				values = append(values, "-3", "-3s") // one of them is of the wrong type
			}
			for _, value := range values {
				err := c.Flags().Set(f.Name, value)
				if err == nil {
					err = cli.CheckFlags(c.Flags())
				} else {
					err = cli.FlagFault(err)
				}
				assert.ErrorContains(t, err, "--"+f.Name, "%s --%s=%s", c.CommandPath(), f.Name, value)
			}
			f.Changed = false
		}
	})
}

// maxFlags is the maximum number of flags and options of flags. It is only ever lowered.
const maxFlags = 143

// TestFlagTable: each flag is declared once, a command has it, and the flags that it depends on or excludes exist.
func TestFlagTable(t *testing.T) {
	used := map[string]bool{"all": true}
	flagsOfCommands(func(_ *cobra.Command, flags []*pflag.Flag) {
		for _, f := range flags {
			used[f.Name] = true
			if o, ok := f.Value.(*cli.OptionsFlag); ok {
				for _, name := range o.Names() {
					used[f.Name+"."+name] = true
				}
			}
		}
	})
	for name, largest := range map[string]int{
		"threads": engine.MostThreads, "temp": terms.MaxTemperature, "logprobs": terms.MaxTop, "ahead": group.MaxAhead,
	} {
		assert.Equal(t, fmt.Sprint(largest), strings.Fields(cli.DeclarationOf(name).Span)[1], name)
	}
	assert.LessOrEqual(t, len(cli.Declarations()), maxFlags, "flags and options of flags")
	declared := map[string]bool{}
	for _, d := range cli.Declarations() {
		assert.False(t, declared[d.Name], "%s is declared twice", d.Name)
		declared[d.Name] = true
		_, name, variant := strings.Cut(d.Name, ".")
		assert.True(t, used[d.Name] || variant && used[name], "no command has --%s", d.Name)
		assert.NotEmpty(t, d.Help, d.Name)
		assert.False(t, strings.HasSuffix(d.Help, "."), d.Name)
		for other := range strings.FieldsSeq(strings.Join([]string{d.Needs, d.Unless, d.Excludes, d.With}, " ")) {
			other, _, _ = strings.Cut(other, "=")
			assert.True(t, used[other], "%s names %s, which is no flag", d.Name, other)
		}
	}
}
