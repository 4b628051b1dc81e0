package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// flagsOfCommands calls f with every command of the program except those of cobra, and with its flags, including hidden
// ones but not --help.
func flagsOfCommands(f func(c *cobra.Command, flags []*pflag.Flag)) {
	root := cli.NewRootCommand(&cli.App{Commands: commands})
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

// calls returns command lines that are valid except for the flag that must be refused.
func calls(m string) map[string][]string {
	return map[string][]string{
		"pilotfish": {}, "pilotfish version": {}, "pilotfish bench": {}, "pilotfish pull": {"o/n"},
		"pilotfish inspect":  {m},
		"pilotfish tokenize": {"-m", m, "text"}, "pilotfish logits": {"-m", m, "--tokens", "1"},
		"pilotfish bench synth": {"/nowhere/new.gguf"}, "pilotfish bench engine": {"-m", m},
		"pilotfish bench report":  {"/nowhere/results.jsonl"},
		"pilotfish bench routing": {"--modes", "pipelined-2"}, "pilotfish bench gateway": {"--devices", "1"},
		"pilotfish bench capacity": {"-m", m},
		"pilotfish bench link":     {}, "pilotfish bench kernels": {}, "pilotfish bench metal-plan": {},
		"pilotfish bench compare": {"/nowhere/a.jsonl"},
		"pilotfish demo":          {"--modes", "pipelined-2"},
		"pilotfish run":           {"-m", m, "--cloud", clitest.ClosedPort, "--tokens", "1"},
		"pilotfish cloud":         {"-m", m, "--listen", "127.0.0.1:0"},
		"pilotfish serve":         {"-m", m, "--listen", "127.0.0.1:0", "--cloud", clitest.ClosedPort},
		"pilotfish cloud check":   {"http://127.0.0.1:1", "--tokenizer", m},
		"pilotfish cloud ready":   {}, "pilotfish router": {},
		"pilotfish list": {}, "pilotfish rm": {"o/n", "-f"}, "pilotfish config": {}, "pilotfish chat": {"-m", m},
		"pilotfish router calibrate": {"-o", "/nowhere/new.gguf", "--questions", "20"},
		"pilotfish eval":             {"demo", "--questions", "1"}, "pilotfish eval fetch": {"csqa"},
		"pilotfish router train": {"/nowhere/traces", "-o", "/nowhere/r.gguf", "--data", "demo-train",
			"--training", "rounds=2,on-policy=/nowhere/more"},
		"pilotfish router show": {"/nowhere/r.gguf", "/nowhere/traces"},
		"pilotfish router collect": {
			"--data", "demo", "-o", "/nowhere/traces", "--reference", "routed", "--router", "/nowhere/r.gguf",
		},
	}
}

// TestNonsenseIsRefused: a flag refuses values of a wrong type, and a count or measure refuses negative ones; the
// message names the flag, before anything is done.
func TestNonsenseIsRefused(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	lines := calls(clitest.TinyModel(t, "q8_0"))
	negative := map[string]string{ // the first invalid value if it is not -1
		"pilotfish run --frequency-penalty": "-Inf", "pilotfish run --presence-penalty": "-Inf", // negative ones reward
		"pilotfish chat --frequency-penalty": "-Inf", "pilotfish chat --presence-penalty": "-Inf",
	}
	flagsOfCommands(func(c *cobra.Command, flags []*pflag.Flag) {
		line, ok := lines[c.CommandPath()]
		require.True(t, ok, c.CommandPath())
		for _, f := range flags {
			for _, value := range []string{"nonsense", "-1"} {
				switch kind := f.Value.Type(); {
				case kind == "string" || kind == "stringArray" || kind == "paths":
					continue // any text is valid here; other tests check further conditions
				case kind == "bool" && value == "-1":
					continue
				case kind == "duration" && value == "-1":
					value = "-1s"
				}
				if value == "-1" && negative[c.CommandPath()+" --"+f.Name] != "" {
					value = negative[c.CommandPath()+" --"+f.Name]
				}
				args := append(strings.Fields(c.CommandPath())[1:], line...)
				if f.Name == "seed" {
					args = append(args, map[string][]string{"pilotfish demo": {"--loss", "0.1"}}[c.CommandPath()]...)
				}
				if strings.HasPrefix(f.Usage, "with --temp: ") {
					args = append(args, "--temp", "1")
				}
				code, stdout, stderr := clitest.Call(t, append(args, "--"+f.Name+"="+value)...)
				assert.Equal(t, cli.ExitUsage, code, "%s --%s=%s", c.CommandPath(), f.Name, value)
				assert.Empty(t, stdout)
				first, _, _ := strings.Cut(stderr, "\n")
				named := "--" + f.Name + `\b`
				if f.Shorthand != "" {
					named += "|-" + f.Shorthand + `\b`
				}
				assert.Regexp(t, regexp.MustCompile(named), first, "%s --%s=%s", c.CommandPath(), f.Name, value)
			}
		}
	})
}
