package cli

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// someFlags returns a set of declared flags with the values of a command line.
func someFlags(t *testing.T, line string) *pflag.FlagSet {
	t.Helper()
	p := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"cloud", "pin", "json-schema"} {
		Add(p, name, new(string), "")
	}
	Add(p, "mode", new(string), "pipelined")
	for _, name := range []string{"threads", "window", "inflight", "top-k", "logprobs", "verify-every"} {
		Add(p, name, new(int), 0)
	}
	for _, name := range []string{"temp", "budget", "verify", "edge-tps"} {
		Add(p, name, new(float64), 0)
	}
	for _, name := range []string{"json", "no-resume", "show-unverified"} {
		Add(p, name, new(bool), false)
	}
	with := AddOptions(p, "with")
	Add(with.FlagSet, "with.loopback", new(time.Duration), time.Minute)
	Add(with.FlagSet, "with.warm-up", new(int), 1)
	require.NoError(t, p.Parse(strings.Fields(line)))
	return p
}

// TestSpansOfFlags: the bounds of a range are in it, in the unit of the flag; defaults are not checked.
func TestSpansOfFlags(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "--threads 1024 --window 1 --budget 0 --temp 100": "", "--budget 1 --logprobs 20": "",
		"--threads 1025":               "--threads 1025 is out of range: give 0 to 1024",
		"--threads=-1":                 "--threads -1 is out of range: give 0 to 1024",
		"--window 0":                   "--window 0 is out of range: give 1 or more",
		"--budget NaN":                 "--budget NaN is out of range: give 0 to 1",
		"--edge-tps Inf":               "--edge-tps +Inf is out of range: give 0 or more",
		"--logprobs 21 --threads 2000": "--logprobs 21 is out of range: give 1 to 20",
		"--with loopback=1h,warm-up=0": "", "--with loopback=0": "",
		"--with loopback=3601s": "--with loopback=1h0m1s is out of range: give 0s to 1h",
		"--with loopback=-1us":  "--with loopback=-1µs is out of range: give 0s to 1h",
		"--with warm-up=1001":   "--with warm-up=1001 is out of range: give 0 to 1000",
	} {
		err := CheckSpans(someFlags(t, line))
		if want == "" {
			assert.NoError(t, err, line)
		} else if assert.EqualError(t, err, want, line) {
			assert.ErrorAs(t, err, new(*UsageError))
		}
	}
}

// TestNeedsOfFlags: a flag that needs another one, which is not set or off, is refused with what is missing.
func TestNeedsOfFlags(t *testing.T) {
	const cloud, verify, temp = "a gateway: give one with --cloud host:port",
		"verification: give --verify with a margin, such as --verify 0",
		"a temperature: give --temp, such as --temp 0.7"
	for line, want := range map[string]string{
		"": "", "--cloud h:1 --pin x --window 3": "", "--threads 2 --temp 1": "", "--temp 1 --top-k 4": "",
		"--pin x": "pin " + cloud, "--no-resume": "no-resume " + cloud, "--verify 0": "verify " + cloud,
		"--top-k 4": "top-k " + temp, "--temp 0 --top-k 4": "top-k " + temp,
		"--cloud h:1 --verify-every 3":            "verify-every " + verify,
		"--cloud h:1 --verify 0 --verify-every 3": "",
		"--verify 1 --verify-every 3":             "verify " + cloud, // in the order of names
		"--logprobs 3":                            "logprobs --json: give that as well, or leave it out",
		"--logprobs 3 --json":                     "", "--logprobs 3 --json=false": "logprobs --json: give that as " +
			"well, or leave it out",
		"--mode serial": "mode " + cloud, "--mode local": "",
	} {
		err := CheckNeeds(someFlags(t, line))
		if name, missing, wrong := strings.Cut(want, " "); !wrong {
			assert.NoError(t, err, line)
		} else {
			assert.EqualError(t, err, "--"+name+" has no effect without "+missing, line)
		}
	}
	assert.NoError(t, CheckNeeds(someFlags(t, "--pin x --verify 0"), "cloud"), "which may come later")
	assert.Error(t, CheckNeeds(someFlags(t, "--pin x --top-k 4"), "cloud"))
}

// TestModesOfFlags: flags without effect in a mode are refused.
func TestModesOfFlags(t *testing.T) {
	for _, c := range []struct{ line, mode, wrong string }{
		{"--mode serial --cloud h:1 --pin x", "serial", ""}, {"--window 3 --inflight 2", "pipelined", ""},
		{"--window 3", "serial", "--window has no effect with --mode serial"},
		{"--inflight 3", "serial", "--inflight has no effect with --mode serial"},
		{"--mode local --threads 3", "local", ""},
		{"--cloud h:1", "local", "--cloud has no effect with --mode local: leave one of them out"},
		{"--pin x", "local", "--pin has no effect with --mode local"},
	} {
		err := CheckMode(someFlags(t, c.line), c.mode)
		if c.wrong == "" {
			assert.NoError(t, err, c.line)
		} else {
			assert.ErrorContains(t, err, c.wrong, c.line)
		}
	}
}

// TestNewLog: the forms and levels of the log.
func TestNewLog(t *testing.T) {
	for level, want := range map[string]slog.Level{"texts": slog.LevelDebug, "debug": slog.LevelDebug,
		"info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError} {
		for form, line := range map[string]string{"text": `level=ERROR msg=m`, "json": `"level":"ERROR","msg":"m"`,
			"off": ""} {
			var out strings.Builder
			log, changing, err := (&App{Stderr: &out}).NewLog(form, level)
			require.NoError(t, err)
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
	_, _, err := new(App).NewLog("xml", "info")
	assert.EqualError(t, err, "--log xml is not a form of log: choose text, json or off")
	_, _, err = new(App).NewLog("text", "loud")
	assert.ErrorContains(t, err, "--log-level loud is not a level")
}
