package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/metalplan"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
)

// engineReport returns a report with different values for all figures.
func engineReport() speed.Report {
	return speed.Report{
		PromptTPS: 120, GenerationTPS: 30, PromptTokens: 512, DecodedTokens: 64, LoadMS: 7.25,
		FirstTokenMS: 80.5, PeakRSS: 3e9, FileBytes: 500e6, HugeBytes: 490e6, MoveMS: 130,
		KVBytes: 12e6, TokenBytes: 400e6, DepthBytes: 2e6, Bandwidth: 20,
		ByThreads: []float64{11, 20}, Bound: 49.75, Share: new(0.603), PromptMACs: 41, PeakBytes: 200, PeakFloats: 90,
		PromptBound: 480, Device: "a device", Threads: 2,
	}
}

// TestEngineReport: each figure is printed in its place.
func TestEngineReport(t *testing.T) {
	said := func(r speed.Report) string {
		var out strings.Builder
		printEngineReport(&cli.App{Stdout: &out}, r)
		return out.String()
	}
	r := engineReport()
	assert.Equal(t, `a device
prompt          120.0 tokens/s, 512 at once: 25% of the 480 that multiplying allows
                 41.0 billion multiplications with weights per second; this CPU can do 200 of bytes or 90 of float32
generation       30.0 tokens/s, 64 one by one: 60% of the 49.8 that reading memory allows
memory           20.0 GB/s can be read; a token reads 400 MB of weights and 2.0 MB of keys and values
by threads       11.0     20.0 GB/s, with 1 to 2
weights        490 MB of 500 MB in huge pages, 130 ms after the first token
load              7.2 ms, first token after 80.5 ms
peak memory    3.0 GB (file 500 MB, keys and values of a full context 12 MB)
`, said(r))

	r.Dispatches, r.Levels, r.PromptBound, r.ByThreads, r.DepthBytes, r.PeakRSS = 77, 33, 0, []float64{20}, 0, 0
	r.FitsCache, r.Share, r.HugeBytes, r.WeightsStay = true, nil, 20e6, "there is no room"
	assert.Equal(t, `a device
prompt          120.0 tokens/s, 512 at once
generation       30.0 tokens/s, 64 one by one: the model fits in the CPU's cache, so memory bandwidth does not bound it
encoded            77 dispatches a token, in 33 levels: those of one level need not wait for each other
memory           20.0 GB/s can be read; a token reads 400 MB of weights
weights         20 MB of 500 MB in huge pages: there is no room
load              7.2 ms, first token after 80.5 ms
`, said(r))
	r = engineReport()
	g, known := metalplan.Called("Apple M2")
	require.True(t, known)
	r.Predicted = &speed.Prediction{GenerationTPS: 20, TokenUS: 50000, MeasuredUS: 75000, Context: 40, GPU: &g,
		Assumed: &metalplan.Constants{Streaming: 0.83, Latency: 0.6, Step: 5.2}}
	assert.Contains(t, said(r), `
predicted        20.0 tokens/s, 50000 µs a token with 40 tokens of context; measured 75000 µs: 1.50 times that
             of an M2 with 10 cores at 1.40 GHz and 100 GB/s, 83% of it reached; 0.6 µs until a read has its data, `+
		"5.2 µs a dispatch\n")
	r.Predicted = &speed.Prediction{MeasuredUS: 9, Why: "it is no GPU"}
	assert.Contains(t, said(r), "\npredicted    nothing: it is no GPU\n")
	r = engineReport()
	r.PromptTPS = 500
	assert.Contains(t, said(r), ": 100% of the 480 ", "the measured bound has an error")
	r.PromptTokens, r.DecodedTokens = 0, 0
	assert.NotRegexp(t, "prompt|generation", said(r))
}

// TestSummaryOfRun: the figures of --json are consistent.
func TestSummaryOfRun(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	for _, n := range []string{"1", "20"} {
		ids, _, s, _ := clitest.RoutedTokens(t, "-m", m, "--tokens", "1,2,3,4,5", "-n", n)
		assert.Equal(t, ids, s.Tokens)
		assert.InEpsilon(t, 5/s.PromptMS*1000, s.PromptTPS, 1e-9)
		if n == "1" {
			assert.Zero(t, s.GenerationTPS, "the first token comes with the prompt")
		} else {
			assert.InEpsilon(t, 19/s.DecodeMS*1000, s.GenerationTPS, 1e-9)
		}
		assert.Positive(t, s.LoadMS)
		assert.Nil(t, s.Routed, "without a cloud")
		assert.Nil(t, s.Error)
	}
	assert.Equal(t, 2.5, cli.Ms(2500*time.Microsecond))
	assert.Equal(t, 4.0, cli.PerSecond(2, time.Second/2))
	assert.Zero(t, cli.PerSecond(0, time.Second))
	assert.Zero(t, cli.PerSecond(2, 0))
}
