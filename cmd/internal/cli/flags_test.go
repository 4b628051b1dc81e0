package cli

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// someFlags returns a set of declared flags with the values of a command line.
func someFlags(t *testing.T, line string) *pflag.FlagSet {
	t.Helper()
	p := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"cloud", "pin", "json-schema", "system", "cert", "key"} {
		Add(p, name, new(string), "")
	}
	Add(p, "log", new(string), "text")
	Add(p, "kv", new(string), "auto")
	FlagDecl{Name: "label", Choices: "disagreement citer consequence mismatch"}.AddList(p, new([]string), nil)
	AddDeclared(p, FlagDecl{Name: "confidence", Span: ">0 <1"}, new(float64), 0.5)
	Add(p, "backend", new(string), "cpu")
	Add(p, "stop", new([]string), nil)
	for _, name := range []string{"threads", "parallel", "top-k", "logprobs"} {
		Add(p, name, new(int), 0)
	}
	for _, name := range []string{"temp", "budget"} {
		Add(p, name, new(float64), 0)
	}
	for _, name := range []string{"json", "show-unverified", "local", "exact"} {
		Add(p, name, new(bool), false)
	}
	Add(p, "verify", new(string), "off")
	with := AddOptions(p, "limit")
	Add(with.FlagSet, "limit.total", new(time.Duration), time.Minute)
	Add(with.FlagSet, "limit.memory", new(int), 1)
	AddDeclared(p, FlagDecl{Name: "hidden", Span: "0 4096"}, new(int), 1)
	AddDeclared(p, FlagDecl{Name: "edge-tps", Span: "0 1000000", Needs: "cloud"}, new(float64), 0)
	require.NoError(t, p.Parse(strings.Fields(line)))
	return p
}

// TestSpansOfFlags: the bounds of a range are in it, in the unit of the flag; a default is always accepted.
func TestSpansOfFlags(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "--threads 1024 --parallel 1 --temp 100": "", "--budget 1 --logprobs 20": "",
		"--logprobs 0 --budget 0":      "",
		"--threads 1025":               "--threads 1025 is out of range: give 0 to 1024",
		"--threads=-1":                 "--threads -1 is out of range: give 0 to 1024",
		"--parallel=-1":                "--parallel -1 is out of range: give 1 or more",
		"--budget NaN":                 "--budget NaN is out of range: give more than 0, up to 1",
		"--budget=-1":                  "--budget -1 is out of range: give more than 0, up to 1",
		"--edge-tps Inf":               "--edge-tps +Inf is out of range: give 0 to 1000000",
		"--logprobs 21 --threads 2000": "--logprobs 21 is out of range: give 1 to 20",
		"--limit total=24h,memory=1":   "",
		"--limit total=1us":            "--limit total=1µs is out of range: give 1ms or more",
		"--limit memory=0":             "--limit memory=0 is out of range: give 1 to 1000000000",
		"--hidden 4097":                "--hidden 4097 is out of range: give 0 to 4096",
	} {
		err := CheckFlags(someFlags(t, line))
		if want == "" {
			assert.NoError(t, err, line)
		} else if assert.EqualError(t, err, want, line) {
			assert.ErrorAs(t, err, new(*UsageError))
		}
	}
}

// TestFlagsTogether: flags that contradict each other, and values that are none, are refused; what has no effect only
// gets a line.
func TestFlagsTogether(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "--cloud h:1 --pin x --parallel 3": "", "--local=false --cloud h:1": "",
		"--kv f32 --exact": "", "--cert a --key b": "", "--exact=false --kv f16": "", "--system=": "",
		"--cloud h:1 --local":      "--cloud and --local exclude each other: leave one of them out",
		"--exact --kv f16":         "--exact and --kv f16 exclude each other: leave one of them out",
		"--exact --backend soft:a": "--exact and --backend soft exclude each other: leave one of them out",
		"--cert a":                 "--cert and --key belong together: give both or none",
		"--key b":                  "--key and --cert belong together: give both or none",
		"--log xml":                `--log "xml" is not known: choose text, json, off`,
		"--pin=": "--pin is empty: give a value, or leave it out (fingerprint of the gateway's " +
			"certificate, as `pilotfish cloud`",
		"--stop a --stop=": "--stop is empty", "--label citer,disagreement": "", "--label=": "", "--confidence 0.9": "",
		"--label citer,x":     `--label "x" is not known: choose disagreement, citer`,
		"--label citer,citer": "--label citer is given twice",
		"--confidence 1":      "--confidence 1 is out of range: give more than 0, less than 1",
	} {
		err := CheckFlags(someFlags(t, line))
		if want == "" {
			assert.NoError(t, err, line)
		} else if assert.ErrorContains(t, err, want, line) {
			assert.ErrorAs(t, err, new(*UsageError))
		}
	}
	for line, want := range map[string]string{
		"--cloud h:1 --pin x --parallel 3": "", "--threads 2 --temp 1 --top-k 4": "", "--logprobs 3 --json": "",
		"--pin x": "--pin: no effect without --cloud\n", "--verify off --show-unverified=false": "",
		"--temp 0 --top-k 4": "--top-k: no effect at temperature 0\n",
		"--verify 0 --show-unverified": "--show-unverified: no effect without --cloud\n--verify: no effect " +
			"without --cloud\n",
		"--logprobs 3 --json=false":         "--logprobs: no effect without --json\n",
		"--cloud h:1 --budget 1 --verify 3": "--budget: no effect with --verify\n",
	} {
		for name, needs := range map[string]bool{"run": true, "chat": false} {
			var said strings.Builder
			c := &cobra.Command{Use: name}
			c.Flags().AddFlagSet(someFlags(t, line))
			(&App{Stderr: &said}).warnIdleFlags(c)
			if needs || !strings.Contains(want, "--cloud") {
				assert.Equal(t, want, said.String(), line)
			} else {
				assert.Empty(t, said.String(), "chat may connect later")
			}
		}
	}
	var said strings.Builder
	c := &cobra.Command{Use: "run"}
	c.Flags().AddFlagSet(someFlags(t, "--top-k 4"))
	(&App{Stderr: &said, Settled: map[string]string{"top-k": "a file"}}).warnIdleFlags(c)
	assert.Empty(t, said.String(), "a setting applies where it can")
}

// TestNewLog: the forms and levels of the log.
func TestNewLog(t *testing.T) {
	for level, want := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo,
		"warn": slog.LevelWarn, "error": slog.LevelError} {
		for form, line := range map[string]string{"text": `level=ERROR msg=m`, "json": `"level":"ERROR","msg":"m"`,
			"off": ""} {
			var out strings.Builder
			log, changing := (&App{Stderr: &out}).NewLog(form, level)
			assert.Equal(t, want, changing.Level())
			log.Log(t.Context(), want-1, "left out")
			assert.Empty(t, out.String(), form)
			log.Error("m")
			assert.Contains(t, out.String(), line)
			assert.Equal(t, form == "off", out.Len() == 0)
			out.Reset()
			changing.Set(slog.LevelError + 1)
			log.Error("m")
			assert.Empty(t, out.String())
		}
	}
}
