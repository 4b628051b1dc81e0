package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// flagTests names, for each flag of each command, a test that checks its effect; "" is for flags without a line. A new
// flag needs such a test: one that fails if the flag is read and then ignored, or set in place of another.
func flagTests() map[string]map[string]string {
	model := map[string]string{
		"model": "TestModelFlags", "threads": "TestModelFlags", "kv": "TestModelFlags", "backend": "TestModelFlags",
		"exact": "TestModelFlags",
	}
	route := map[string]string{
		"policy": "TestRoutingOptions", "threshold": "TestRoutingOptions", "budget": "TestRoutingOptions",
		"router": "TestRoutingOptions", "branches": "TestRoutingOptions", "window": "TestRoutingOptions",
		"inflight": "TestRoutingOptions", "deadline": "TestRoutingOptions", "no-audit": "TestRoutingOptions",
		"edge-tps": "TestRoutingOptions", "modes": "TestRoutingOptions", "rtt": "TestRoutingOptions",
		"loss": "TestRoutingOptions", "trace": "TestRoutingOptions", "cloud-ms": "TestRoutingOptions",
		"ahead": "TestRoutingOptions", "verify-every": "TestRoutingOptions",
		"edge-row-cost": "TestRoutingOptions", "no-warm": "TestRoutingOptions",
		"timeline": "TestRoutingTimeline", "with": "TestRoutingTimeline", "qlog": "TestRoutingQlog",
		"seed": "TestRoutingOptions", "lookup": "TestRoutingOptions", "parallel": "TestRoutingOptions",
		"questions": "TestDemo", "json": "TestDemo",
	}
	all := map[string]map[string]string{
		"pilotfish":         {"version": "TestExitCodes"},
		"pilotfish version": {"json": "TestVersionJSON"},
		"pilotfish pull":    {"dir": "TestPullDefaultFolder", "json": "TestPullCommand"},
		"pilotfish inspect": {"json": "TestInspect", "with": "TestInspectElements"},
		"pilotfish tokenize": {
			"model": "TestTokenize", "no-special": "TestTokenizeSpecial", "json": "TestTokenize",
		},
		"pilotfish logits": joined(model, map[string]string{
			"tokens": "TestRunAgreesWithLogits", "json": "TestRunAgreesWithLogits",
		}),
		"pilotfish bench synth": {"shape": "TestSynthFlags", "type": "TestSynthFlags", "seed": "TestSynthSeed"},
		"pilotfish bench engine": {
			"model": "TestBenchEngine", "prompt": "TestBenchEngineFlags", "generate": "TestBenchEngineFlags",
			"depth": "TestBenchEngineFlags", "threads": "TestBenchEngineFlags",
			"repeat": "TestBenchEngineFlags", "kv": "TestBenchEngineFlags", "backend": "TestBenchEngineFlags",
			"huge-pages": "TestHugePagesFlag", "json": "TestBenchEngine", "rows": "TestBenchEngineFlags",
			"output": "TestBenchEngineColumns",
		},
		"pilotfish bench gateway": {
			"": "TestGatewayEffects", "json": "TestBenchGateway",
		},
		"pilotfish bench capacity": {
			"": "TestCapacityEffects", "json": "TestCapacityMeasured",
		},
		"pilotfish bench link": {
			"": "TestLinkEffects", "json": "TestBenchLink", "qlog": "TestRoutingQlog",
		},
		"pilotfish bench metal-plan": {
			"shape": "TestBenchMetalPlan", "type": "TestBenchMetalPlan",
			"json": "TestBenchMetalPlan",
		},
		"pilotfish bench kernels": {"type": "TestBenchKernels", "json": "TestBenchKernels"},
		"pilotfish bench compare": {
			"by": "TestBenchCompare", "json": "TestBenchCompare",
		},
		"pilotfish cloud check": {
			"tokenizer": "TestCloudCheck", "json": "TestCloudCheck", "engine": "TestCheckFlags",
		},
		"pilotfish bench routing": joined(route, map[string]string{
			"upstream": "TestBenchRoutingUpstream", "engine": "TestBenchRoutingUpstream",
			"tokenizer": "TestBenchRoutingUpstream",
			"traces":    "TestRoutingOptions", "repeat": "TestRoutingOptions",
			"raw": "TestRoutingOptions", "max-tokens": "TestRoutingOptions",
			"record": "TestRecordReplay", "replay": "TestRecordReplay",
			"workload": "TestBenchRoutingOwn", "model": "TestBenchRoutingOwn", "large": "TestBenchRoutingOwn",
		}),
		"pilotfish demo":         joined(route, map[string]string{"html": "TestDemoReport"}),
		"pilotfish bench report": {"out": "TestBenchReport"},
		"pilotfish list":         {"dir": "TestListCommand", "json": "TestListCommand"},
		"pilotfish rm":           {"dir": "TestRemoveCommand", "force": "TestRemoveCommand"},
		"pilotfish config":       {"config": "TestConfigCommand", "json": "TestConfigCommand"},
		"pilotfish chat": joined(numberFlags("TestChatNumberFlags"), map[string]string{
			"":       "TestChatEffects",
			"system": "TestChatFlags", "load": "TestChatSaveLoad", "local": "TestServeLocalFlag",
			"no-history": "TestChatTerminal", "config": "TestSettings",
		}),
		"pilotfish run": joined(numberFlags("TestNumberFlags"), map[string]string{
			"":       "TestRunEffects",
			"config": "TestSettings", "large": "TestRunLarge", "timeline": "TestTimeline", "qlog": "TestQlog",
			"require-cloud": "TestClosedPort", "system": "TestSystemMessage",
			"tokens": "TestRunJSON", "raw": "TestRunPrompts",
			"json": "TestRunJSON",
		}),
		"pilotfish router calibrate": joined(pairTests(), map[string]string{
			"": "TestCalibrateEffects", "json": "TestCalibrateDemo", "run-code": "TestRunCode",
		}),
		"pilotfish router":       {},
		"pilotfish router train": {"": "TestTrainEffects", "json": "TestTrainCommand"},
		"pilotfish router show":  {"label": "TestShowCommand", "svg": "TestShowCommand", "json": "TestShowCommand"},
		"pilotfish router collect": joined(pairTests(), map[string]string{
			"": "TestCollectEffects", "json": "TestCollectJSON", "run-code": "TestRunCode",
		}),
		"pilotfish cloud ready": {"admin": "TestCloudReady"},
		"pilotfish eval": joined(pairTests(), map[string]string{
			"":      "TestEvalEffects",
			"cloud": "eval/eval.txtar", "kv": "eval/eval.txtar", "out": "eval/eval.txtar", "html": "eval/eval.txtar",
			"json": "eval/eval.txtar", "run-code": "TestRunCode",
		}),
		"pilotfish serve": {
			"":       "TestServeEffects",
			"config": "TestSettingsRefused", "model": "TestServe", "local": "TestServeLocalFlag",
			"log":  "TestServeLimits",
			"cert": "TestServeTLS", "key": "TestServeTLS",
		},
		"pilotfish cloud": {
			"":     "TestCloudEffects",
			"qlog": "TestQlog", "log": "cloud/flags.txtar", "config": "TestConfigRefused", "check-config": "cloud/check.txtar",
			"ticket-key-file": "TestTicketsOutliveRestart", "log-level": "cloud/flags.txtar",
			"cert": "cloud/check.txtar", "key": "cloud/check.txtar",
		},
	}
	for _, command := range cli.ProfiledCommands() {
		profiles := map[string]string{"profile": "TestProfiledCommands"}
		all["pilotfish "+command] = joined(all["pilotfish "+command], profiles)
	}
	return all
}

func joined(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

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

// testSources returns the source of the tests and scripts of all commands by name, and that of the lines that some of them share.
func testSources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	rooms, err := filepath.Glob("internal/*/*_test.go")
	require.NoError(t, err)
	names = append(append(names, rooms...), "internal/clitest/effects.go")
	for _, name := range names {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, source, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "WithCloud") {
				all[f.Name.Name] = string(source[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset])
			}
		}
	}
	scripts, err := filepath.Glob("internal/*/testdata/script/*.txtar")
	require.NoError(t, err)
	for _, name := range scripts {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		command := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(name))))
		all[command+"/"+filepath.Base(name)] = string(source)
	}
	return all
}

// maxFlags is the max number of different flags. It is only ever lowered.
const maxFlags = 130

// TestEveryFlagHasATest: every flag has a test of its effect in the table, the table names only existing flags and
// tests, and each test uses the flag by its name.
func TestEveryFlagHasATest(t *testing.T) {
	table, tests := flagTests(), testSources(t)
	sources := strings.Join(slices.Collect(maps.Values(tests)), "")
	require.Contains(t, tests, "TestEveryFlagHasATest", "the sources are parsed")
	known := map[string][]string{}
	flagsOfCommands(func(c *cobra.Command, flags []*pflag.Flag) {
		path := c.CommandPath()
		for _, f := range flags {
			known[path] = append(known[path], f.Name)
			test := cmp.Or(table[path][f.Name], table[path][""])
			if !assert.NotEmpty(t, test, "%s --%s has no line in the table of flags and their tests", path, f.Name) {
				continue
			}
			source, ok := tests[test]
			if !assert.True(t, ok, "%s --%s: there is no test %s", path, f.Name, test) {
				continue
			}
			if test == "TestNumberFlags" || test == "TestChatNumberFlags" {
				continue // it uses all declared flags
			}
			if strings.Contains(source, "clitest.WithCloud(") {
				source += tests["WithCloud"]
			}
			called := `--` + f.Name + `\b`
			if f.Shorthand != "" {
				called += `|"-` + f.Shorthand + `\b| -` + f.Shorthand + `\b`
			}
			assert.Regexp(t, called, source, "%s does not call --%s", test, f.Name)
			if o, ok := f.Value.(*cli.OptionsFlag); ok {
				for _, option := range o.Names() {
					assert.Regexp(t, f.Name+`"?[ =,]+"?`+option+`\b`, sources, "no test calls --%s %s", f.Name, option)
				}
			}
		}
	})
	for path, flags := range table {
		for name := range flags {
			assert.True(t, name == "" || slices.Contains(known[path], name), "the table names %s --%s, no flag", path,
				name)
		}
	}
	assert.Contains(t, known, "pilotfish bench routing", "subcommands count")
	different := map[string]bool{}
	for _, names := range known {
		for _, name := range names {
			different[name] = true
		}
	}
	assert.LessOrEqual(t, len(different), maxFlags, "different flags")
	assert.Greater(t, len(known["pilotfish run"]), 30)
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
