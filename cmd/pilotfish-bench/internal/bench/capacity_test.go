package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/capacity"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestCapacityFigures: each figure is printed in its place.
func TestCapacityFigures(t *testing.T) {
	at := capacity.Point{Mode: capacity.Routed, Devices: 40, Answers: 10, PerSecond: 6.25,
		Time: result.Times{P50: 1000, P90: 2000, P99: 3000}, BytesUp: 3000, BytesDown: 600}
	var out strings.Builder
	costs := capacity.Costs{Threads: 2, AskMS: 1.5, Passes: []capacity.Pass{{Rows: 1, MS: 3, HeadsMS: 3},
		{Rows: 8, MS: 4, HeadsMS: 5}}}
	w := capacity.Workload{Prompt: 9, Tokens: 8, RTT: time.Second, EdgeTPS: 60}
	require.NoError(t, printCapacity(&out, &capacity.Report{Workload: w, Costs: costs, Points: []capacity.Point{at}}))
	assert.Equal(t, `
large model  2 threads; an ask 1.50 ms; passes that predict for each row, 1 rows 3.0 ms, 8 rows 5.0 ms
devices      prompts of 9 tokens, answers of 8, round trip 1s, 60 passes/s

mode    devices  p50 ms  p90 ms  p99 ms  answers/s  tokens/s  bytes/answer up  down
routed  40       1000    2000    3000    6.25       50.0      300              60

`+strings.TrimSpace(capacityTerms)+"\n", "\n"+out.String())
}

// TestCapacityMeasured: the costs of a model are measured, and then each number of devices in each mode.
func TestCapacityMeasured(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	args := "capacity --json -p 100 -n 6 --rtt 4ms --budget 0.5 --threads 1 -m " +
		clitest.TinyModel(t, "q8_0")
	code, stdout, stderr := clitest.Call(t, strings.Fields(args+" --answers 5 --devices 2,1")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^routed: 2 devices, 5 answers$`, stderr)
	r := clitest.Lines[capacity.Report](t, stdout)[0]
	assert.Equal(t, 1, r.Costs.Threads)
	assert.Len(t, r.Costs.Passes, 8)
	assert.Equal(t, 100, r.Costs.Depth)
	assert.Positive(t, r.Costs.AskMS, "the link has the round trip")
	require.Len(t, r.Points, 6)
	for i, p := range r.Points {
		assert.Equal(t, capacity.Modes()[i/2], p.Mode)
		assert.Equal(t, 2-i%2, p.Devices)
		assert.Equal(t, 5, p.Answers)
		assert.GreaterOrEqual(t, p.Time.P50, 4.)
		assert.Equal(t, p.Mode != capacity.Cloud, p.BytesUp > 0)
	}
	code, stdout, stderr = clitest.Call(t, strings.Fields(args+" --answers 0")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, `"points":[]`)
	assert.NotContains(t, stderr, "answers")
}

// TestMeasureAsk: the cost of an ask is without the round trip of the link.
func TestMeasureAsk(t *testing.T) {
	racing.Spare(t)
	e, err := engine.Open(clitest.TinyModel(t, "q8_0"), engine.Options{})
	require.NoError(t, err)
	defer e.Close()
	f := benchCapacityFlags{w: capacity.Workload{RTT: 800 * time.Millisecond}}
	stage, err := remote.NewStage(e, e, remote.StageOptions{RTT: f.w.RTT})
	require.NoError(t, err)
	defer stage.Close()
	ms, err := f.measureAsk(t.Context(), stage)
	require.NoError(t, err)
	assert.Positive(t, ms)
	assert.Less(t, ms, 800.)
}
