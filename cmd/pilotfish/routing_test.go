package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench"
)

// TestRoutingFlagsRefused: no value out of range, and no flag without an effect, and each is named with what to do.
func TestRoutingFlagsRefused(t *testing.T) {
	dir := t.TempDir()
	up := filepath.Join(dir, "a.up")
	require.NoError(t, os.WriteFile(up, []byte("1\n2\n"), 0o644))
	questions := filepath.Join(dir, "q.jsonl")
	require.NoError(t, os.WriteFile(questions, []byte(`{"question":"a"}`+"\n"), 0o644))
	for _, c := range []struct {
		args  string
		parts string // of the message, separated by |
	}{
		{"demo --rtt 1000h", "--rtt|give 0 to 10s"},
		{"demo --rtt -1s", "--rtt|give"},
		{"demo --loss NaN", "--loss NaN|give a share"},
		{"demo --loss 1", "--loss 1|give a share"},
		{"demo --loss -Inf", "--loss|give"},
		{"demo --cloud-ms NaN", "--cloud-ms NaN|give"},
		{"demo --cloud-ms +Inf", "--cloud-ms +Inf|give"},
		{"demo --cloud-ms 1e300", "--cloud-ms|give"},
		{"demo --edge-tps NaN", "--edge-tps NaN|give"},
		{"demo --edge-tps Inf", "--edge-tps|give"},
		{"demo --edge-tps 1e-300", "--edge-tps|give"},
		{"demo --threshold NaN", "threshold|NaN"},
		{"demo --budget NaN", "budget|NaN"},
		{"demo --parallel 0", "--parallel 0|give 1 to 64"},
		{"demo --parallel 65", "--parallel 65|give 1 to 64"},
		{"demo --questions 0", "--questions 0|give 1"},
		{"demo --questions 500", "--questions 500|the demo has 400"},
		{"demo --branches 3", "--branches|--modes pipelined-3"},
		{"demo --branches 3 --modes local", "--branches|--modes pipelined-3"},
		{"demo --modes local,serial,local", "local twice|give each mode once"},
		{"demo --modes fast", "--modes|is not a mode: choose"},
		{"demo --modes serial --window 3", "--window|add a mode"},
		{"demo --modes paper,serial --inflight 3", "--inflight|pipelined-N"},
		{"demo --modes paper --loss 0.1", "--loss|serial and pipelined-N"},
		{"demo --modes paper --no-audit", "--no-audit|serial and pipelined-N"},
		{"demo --modes cloud --trace " + up, "--trace|serial and pipelined-N"},
		{"demo --modes local,cloud --policy entropy", "--policy|paper, serial"},
		{"demo --modes local,cloud --threshold 0.3", "--threshold|paper, serial"},
		{"demo --modes local,cloud --budget 0.3", "--budget|paper, serial"},
		{"demo --modes local,cloud --router x.gguf", "--router|paper, serial"},
		{"demo --modes local,cloud --deadline 1s", "--deadline|paper, serial"},
		{"demo --modes local --rtt 1s", "--rtt|all but local"},
		{"demo --modes local --cloud-ms 1", "--cloud-ms|all but local"},
		{"demo --modes cloud --edge-tps 9", "--edge-tps|all but cloud"},
		{"demo --seed 3", "--seed|--loss"},
		{"demo --trace " + up + " --trace " + up, "--trace|give only one"},
		{"bench routing -m M", "--model|--workload FILE"},
		{"bench routing --large M", "--large|--workload FILE"},
		{"bench routing --workload " + questions + " -m M", "--large"},
		{"bench routing --workload " + questions + " -m M --large M --questions 2", "--questions 2|has 1"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := call(t, strings.Fields(c.args)...)
			assert.Equal(t, exitUsage, code, stderr)
			assert.Empty(t, stdout)
			for part := range strings.SplitSeq(c.parts, "|") {
				assert.Contains(t, stderr, part)
			}
		})
	}
	for _, name := range []string{"none", "none.up", "none.rtt.csv"} {
		code, _, stderr := call(t, "demo", "--trace", filepath.Join(dir, name))
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, "--trace "+filepath.Join(dir, name))
		assert.Contains(t, stderr, "no such")
	}
}

// TestEveryRoutingFlagIsUsed: each flag of the demo is known to be used by every mode, or is refused where no mode uses
// it.
func TestEveryRoutingFlagIsUsed(t *testing.T) {
	always := []string{"modes", "questions", "parallel", "json", "help"}
	trace := filepath.Join(t.TempDir(), "x.up")
	require.NoError(t, os.WriteFile(trace, []byte("1\n"), 0o644))
	named := map[string]string{"trace": trace, "edge-tps": "5000", "lookup": "4", "branches": "3"}
	typed := map[string]string{"time": "1s", "duration": "1s", "bool": "true", "string": "x", "int": "2",
		"uint64": "2", "float64": "0.5"}
	newDemoCommand(&app{}).Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(always, f.Name) {
			return
		}
		value := cmp.Or(named[f.Name], typed[f.Value.Type()])
		refused := 0
		for _, mode := range []string{"local", "cloud"} { // no other flag is for both
			code, _, stderr := call(t, "demo", "--modes", mode, "--questions", "1", "--"+f.Name+"="+value)
			if code == exitUsage {
				refused++
				assert.Contains(t, stderr, "--"+f.Name+" has no effect")
			}
		}
		assert.Positive(t, refused, f.Name)
	})
}

// TestRoutingTable: counts of what timed out stand where tokens differ from serial, and nothing where no answer came.
func TestRoutingTable(t *testing.T) {
	yes, no := true, false
	count := func(n int) *int { return &n }
	share := func(x float64) *float64 { return &x }
	row := func(serialTimeouts int, r bench.ModeReport) string {
		var out strings.Builder
		serial := bench.ModeReport{Mode: "serial", Timeouts: count(serialTimeouts), EqualToSerial: &yes}
		require.NoError(t, printRouting(&out, []bench.ModeReport{serial, r}))
		return strings.Split(out.String(), "\n")[2]
	}
	assert.Regexp(t, `pipelined-2 .* no: 7 timed out *$`,
		row(2, bench.ModeReport{Mode: "pipelined-2", Timeouts: count(5), EqualToSerial: &no}))
	assert.Regexp(t, `pipelined-2 .* no: 2 timed out *$`,
		row(2, bench.ModeReport{Mode: "pipelined-2", Timeouts: count(0), EqualToSerial: &no}))
	assert.Regexp(t, `pipelined-2 .* NO *$`,
		row(0, bench.ModeReport{Mode: "pipelined-2", Timeouts: count(0), EqualToSerial: &no}))
	assert.Regexp(t, `pipelined-2 .* yes *$`,
		row(0, bench.ModeReport{Mode: "pipelined-2", Timeouts: count(0), EqualToSerial: &yes}))
	assert.Regexp(t, `^ *local +0 +0 *$`, row(0, bench.ModeReport{Mode: "local"}))
	assert.Regexp(t, `^ *paper +3.1% +0 +1.2 +0 +0 +40.0 +10.0 *$`, row(0, bench.ModeReport{
		Mode: "paper", EscalatedShare: share(0.031), Timeouts: count(0), Asks: share(1.2), BytesUp: share(40),
		BytesDown: share(10),
	}))
}

// TestDemoCounts: with the policy always, all tokens are the large model's, and after a deadline none is.
func TestDemoCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("what the demo counts: not with -short")
	}
	demo := func(args ...string) []bench.ModeReport {
		code, stdout, stderr := call(t, append([]string{"demo", "--json", "--questions", "3", "--edge-tps", "0",
			"--modes", "paper,serial,pipelined-4"}, args...)...)
		require.Equal(t, exitDone, code, stderr)
		return lines[bench.ModeReport](t, stdout)
	}
	for _, r := range demo("--rtt", "1ms", "--cloud-ms", "0", "--policy", "always", "--deadline", "off") {
		assert.Equal(t, 1.0, *r.EscalatedShare, r.Mode)
		assert.Zero(t, *r.Timeouts)
	}
	for _, r := range demo("--rtt", "300ms", "--deadline", "5ms") {
		assert.Zero(t, *r.EscalatedShare, r.Mode)
		assert.Positive(t, *r.Timeouts)
		for _, of := range []*float64{r.HiddenShare, r.HitRate, r.BytesUp, r.BytesDown, r.MissedShare} {
			assert.Nil(t, of, r.Mode)
		}
	}
}
