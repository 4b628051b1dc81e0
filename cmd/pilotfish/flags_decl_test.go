package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/bench/capacity"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

// TestFlagTable: each flag is declared once, a command has it, and what it needs or gives way to is a flag.
func TestFlagTable(t *testing.T) {
	used := map[string]bool{"all": true}
	flagsOfCommands(func(_ *cobra.Command, flags []*pflag.Flag) {
		for _, f := range flags {
			used[f.Name] = true
			if o, ok := f.Value.(*optionsFlag); ok {
				for _, name := range o.names() {
					used[f.Name+"."+name] = true
				}
			}
		}
	})
	for name, most := range map[string]int{
		"threads": engine.MostThreads, "temp": terms.MaxTemperature, "logprobs": terms.MaxTop, "ahead": maxAhead,
		"shots": task.MostShots, "gateways": capacity.MaxDevices, "model-ms": 60_000,
	} {
		assert.Equal(t, fmt.Sprint(most), strings.Fields(declarationOf(name).span)[1], name)
	}
	declared := map[string]bool{}
	for _, d := range append(flagTable, numberDecls()...) {
		assert.False(t, declared[d.name], "%s is declared twice", d.name)
		declared[d.name] = true
		_, name, variant := strings.Cut(d.name, ".")
		assert.True(t, used[d.name] || variant && used[name], "no command has --%s", d.name)
		assert.NotEmpty(t, d.help, d.name)
		assert.False(t, strings.HasSuffix(d.help, "."), d.name)
		for _, other := range strings.Fields(d.needs + " " + d.unless) {
			assert.True(t, used[other], "%s names %s, which is no flag", d.name, other)
		}
	}
}

// TestCheckNeeds: a flag has no effect without what it needs, or what this needs in turn, unless that can come later.
func TestCheckNeeds(t *testing.T) {
	for line, want := range map[string]string{
		"--cloud x:1 --verify 0 --show-unverified":   "",
		"--cloud x:1 --show-unverified":              "--show-unverified has no effect without verification",
		"--cloud x:1 --verify off --show-unverified": "--show-unverified has no effect without verification",
		"--show-unverified":                          "--show-unverified has no effect without a gateway",
		"--pin ab":                                   "--pin has no effect without a gateway",
		"--top-k 3":                                  "--top-k has no effect without a temperature",
		"--temp 0 --top-k 3":                         "--top-k has no effect without a temperature",
		"--temp 0.5 --top-k 3":                       "",
		"--mode local":                               "",
		"--mode serial":                              "--mode has no effect without a gateway",
		"--logprobs 2":                               "--logprobs has no effect without --json",
	} {
		set := newRunCommand(&app{}).Flags()
		assert.NoError(t, set.Parse(strings.Fields(line)), line)
		err := checkNeeds(set)
		if want == "" {
			assert.NoError(t, err, line)
		} else {
			assert.ErrorContains(t, err, want, line)
		}
		if strings.Contains(want, "a gateway") {
			assert.NoError(t, checkNeeds(set, "cloud"), line)
		}
	}
}

// TestOptionsFlag: options are set by name, one or several at a time, and what is wrong is told by name.
func TestOptionsFlag(t *testing.T) {
	var n int
	var yes bool
	p := pflag.NewFlagSet("", pflag.ContinueOnError)
	o := addOptions(p, "limit")
	o.IntVar(&n, "number", 7, "")
	o.BoolVar(&yes, "yes", false, "")
	assert.NoError(t, p.Parse([]string{"--limit", "number=3,yes"}))
	assert.Equal(t, 3, n)
	assert.True(t, yes)
	assert.Equal(t, "number=3,yes=true", o.String())
	assert.Equal(t, []string{"other=1"}, o.without([]string{"number=5", "other=1"}))
	for text, want := range map[string]string{
		"number": "number has no value", "number=x": `number "x" is not a whole number`, "x=1": "choose number, yes",
		"yes=3": `yes "3" is neither true nor false`,
	} {
		assert.ErrorContains(t, o.Set(text), want)
	}
}
