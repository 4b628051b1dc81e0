package speed

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// tinyMatrix measures a tiny model.
func tinyMatrix(t *testing.T) Matrix {
	return Matrix{Model: tinyFile(t, true), Engine: engine.Options{Threads: 1}, Depths: []int{0}, Repeat: 1,
		memory: [][]byte{make([]byte, 1<<20)}}
}

// TestCells: a single prompt and a single generation share a combination; several are measured once each.
func TestCells(t *testing.T) {
	for _, c := range []struct {
		name                           string
		prompts, decodes, rows, depths []int
		want                           []Cell
	}{
		{"one of each", []int{5}, []int{6}, nil, []int{0}, []Cell{{Prompt: 5, Decode: 6}}},
		{"no generation", []int{5}, []int{0}, nil, []int{0}, []Cell{{Prompt: 5}}},
		{"no prompt", nil, []int{6}, nil, []int{0}, []Cell{{Decode: 6}}},
		{"two prompts", []int{5, 7}, []int{6}, nil, []int{0}, []Cell{{Prompt: 5}, {Prompt: 7}, {Decode: 6}}},
		{"two prompts at a depth", []int{5, 7}, []int{6}, nil, []int{9},
			[]Cell{{Depth: 9, Prompt: 5}, {Depth: 9, Prompt: 7}, {Depth: 9, Decode: 6}}},
		{"an empty prompt", []int{0, 5}, []int{6}, nil, []int{0}, []Cell{{Prompt: 5, Decode: 6}}},
		{"two depths", []int{5}, []int{6}, nil, []int{0, 9},
			[]Cell{{Prompt: 5, Decode: 6}, {Depth: 9, Prompt: 5, Decode: 6}}},
		{"rows without one", []int{5}, []int{6}, []int{4}, []int{9},
			[]Cell{{Depth: 9, Rows: 1}, {Depth: 9, Rows: 4}, {Depth: 9, Prompt: 5, Decode: 6}}},
		{"rows alone", nil, nil, []int{8, 1}, []int{0}, []Cell{{Rows: 8}, {Rows: 1}}},
		{"nothing", []int{0}, []int{0}, nil, []int{0}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Matrix{Prompts: c.prompts, Decodes: c.decodes, Rows: c.rows, Depths: c.depths}
			assert.Equal(t, c.want, m.listCells())
		})
	}
}

// TestMatrix: all combinations are measured in turns, and each is reported with its settings.
func TestMatrix(t *testing.T) {
	racing.Spare(t)
	m := tinyMatrix(t)
	m.Prompts, m.Decodes, m.Depths, m.Rows = []int{3, 20}, []int{5}, []int{0, 30}, []int{4}
	m.Engine.KV, m.Repeat = engine.KVF32, 2
	var order []Cell
	type progress struct{ done, of int }
	var samples []progress
	m.OnSample = func(c Cell, done, of int) {
		order, samples = append(order, c), append(samples, progress{done, of})
	}
	all, err := m.Run(t.Context())
	require.NoError(t, err)
	cells := m.listCells()
	require.Len(t, cells, 10)
	assert.Equal(t, append(cells, cells...), order, "order of the samples")
	assert.Equal(t, progress{1, 20}, samples[0])
	assert.Equal(t, progress{20, 20}, samples[19])
	require.Len(t, all, 10)
	for i, r := range all {
		c := cells[i]
		assert.Equal(t, c, Cell{Prompt: r.PromptTokens, Decode: r.DecodedTokens, Depth: r.Depth, Rows: r.Rows})
		assert.Equal(t, "f32", r.KV)
		assert.Len(t, r.Samples, 2)
		checkCell(t, r)
	}
	assert.Equal(t, result.PeakRSS() > 0, all[9].PeakRSS > 0)
}

// TestBandwidth: bandwidths are in 1e9 bytes per second. That of a report is the median of its samples, and the bound
// of a generation follows from it.
func TestBandwidth(t *testing.T) {
	m := tinyMatrix(t)
	m.Decodes, m.Engine.Threads, m.Repeat = []int{5}, 3, 3
	var reads []int
	m.read = func(threads int, memory ...[]byte) float64 {
		assert.Same(t, &m.memory[0][0], &memory[0][0])
		reads = append(reads, threads)
		return float64(len(reads)) * 1e10
	}
	all, err := m.Run(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	r := all[0]
	assert.Equal(t, []int{3, 3, 3}, reads, "after each sample")
	for i, s := range r.Samples {
		assert.Equal(t, 10*float64(i+1), s.Bandwidth)
	}
	assert.Equal(t, 20., r.Bandwidth)
	assert.InEpsilon(t, 20e9/float64(r.TokenBytes+r.DepthBytes), r.Bound(), 0.1)
	m.Decodes, m.Prompts, reads = nil, []int{4}, nil
	all, err = m.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{3}, reads, "nothing is compared with it: once is enough")
	assert.Equal(t, 10., all[0].Bandwidth)
	assert.Nil(t, all[0].Share)
}

// checkCell checks that a combination has the values that it measures and no others, and no share above 1.
func checkCell(t *testing.T, r Report) {
	for _, s := range r.Samples {
		assert.Equal(t, r.PromptTokens > 0, s.PromptTPS > 0)
		assert.Equal(t, r.DecodedTokens > 0, s.GenerationTPS > 0)
		assert.Equal(t, r.Rows > 0, s.RowsTPS > 0)
		assert.Positive(t, s.Bandwidth)
		if s.Share != nil {
			assert.LessOrEqual(t, *s.Share, 1.)
		}
	}
	assert.True(t, r.FitsCache, "a model of a megabyte")
	if r.Share != nil {
		assert.LessOrEqual(t, *r.Share, 1.)
	}
	assert.Positive(t, r.Quiet.Seconds)
	if r.Rows > 0 {
		assert.InEpsilon(t, (r.Samples[0].RowsTPS+r.Samples[1].RowsTPS)/2, r.RowsTPS, 1e-9)
	}
}

// TestRowsCost: the cost of rows is relative to one row of the same depth and repetition, so that a machine that
// becomes slower does not affect it.
func TestRowsCost(t *testing.T) {
	report := func(rows, depth int, times ...time.Duration) (r Report) {
		r.Rows, r.Depth = rows, depth
		for _, took := range times {
			r.Samples = append(r.Samples, Sample{RowsTPS: tokensPerSecond(rows, took)})
		}
		return r
	}
	all := []Report{report(1, 0, 100, 200, 1000), report(4, 0, 150, 300, 1500), report(1, 9, 10, 10, 10),
		report(4, 9, 30, 10, 20)}
	for i, want := range []float64{1, 1.5, 1, 2} {
		assert.InDelta(t, want, all[i].RowsCost(all), 1e-12)
	}
}

// TestSpread: the spread is that of the times of one measurement, relative to their median.
func TestSpread(t *testing.T) {
	of := func(s Sample) float64 { return s.PromptTPS }
	var samples []Sample
	for _, took := range []time.Duration{100, 110, 80, 101, 99} {
		samples = append(samples, Sample{PromptTPS: tokensPerSecond(7, took)})
	}
	s := SpreadOf(samples, of)
	assert.InDelta(t, 0.01, s.MAD, 1e-12, "distances of 0, 10, 20, 1 and 1 from 100")
	assert.InDelta(t, 0.3, s.Range, 1e-12)
	assert.Nil(t, SpreadOf(samples[:1], of), "one sample has no spread")
	assert.Nil(t, SpreadOf(samples, func(s Sample) float64 { return s.RowsTPS }), "not measured")
}

// TestDepthOnce: the context before the measured tokens is evaluated once per depth, for any number of samples.
func TestDepthOnce(t *testing.T) {
	e, err := engine.Open(tinyFile(t, true), engine.Options{Threads: 1, Context: 200})
	require.NoError(t, err)
	defer e.Close()
	m := newMeasurement(e)
	for i := range 3 {
		g, err := m.generateTokens(t.Context(), 100, m.promptTokens(100, 20), 1)
		require.NoError(t, err)
		assert.Equal(t, 120, g.PromptTokens)
		assert.GreaterOrEqual(t, g.ReusedTokens, 100, "sample %d", i)
		assert.Less(t, g.ReusedTokens, 105, "measured tokens are evaluated again")
		g, err = m.generateTokens(t.Context(), 100, m.prefixTokens(100), 6)
		require.NoError(t, err)
		assert.Equal(t, 99, g.ReusedTokens, "the last token is evaluated again, for its head")
	}
	assert.Len(t, m.sessions, 1)
	s := m.sessions[100]
	_, err = m.generateTokens(t.Context(), 100, m.prefixTokens(100), 1)
	require.NoError(t, err)
	assert.Same(t, s, m.sessions[100])
}

// TestSample: only measured tokens are counted, not the warm-up.
func TestSample(t *testing.T) {
	for kv, kind := range map[engine.KVType]gguf.Type{engine.KVF16: gguf.F16, engine.KVF32: gguf.F32} {
		e, err := engine.Open(tinyFile(t, true), engine.Options{Threads: 1, Context: 200, KV: kv})
		require.NoError(t, err)
		m := newMeasurement(e)
		cells := []Cell{{Decode: 5}, {Rows: 3, Depth: 20}, {Prompt: 6}}
		require.NoError(t, m.warmUp(t.Context(), cells))
		begin := time.Now()
		s, err := m.measureCell(t.Context(), cells[1])
		require.NoError(t, err)
		assert.LessOrEqual(t, 3*rowCalls/s.RowsTPS, time.Since(begin).Seconds()*1.001, "time per call")
		assert.Len(t, m.passes, 1)
		assert.Equal(t, kind, m.passes[20].cache.KV().Config().Type)
		assert.Equal(t, 20, m.passes[20].cache.InUse(), "the slots of rows are freed")
		require.NoError(t, e.Close())
	}
}

// TestMatrixStops: a measurement ends with its context.
func TestMatrixStops(t *testing.T) {
	m := tinyMatrix(t)
	m.Decodes = []int{5}
	ctx, stop := context.WithCancel(t.Context())
	m.OnSample = func(Cell, int, int) { stop() }
	m.Repeat = 1000
	_, err := m.Run(ctx)
	assert.ErrorIs(t, err, context.Canceled)
}

// TestMatrixEnds: nothing is left of a measurement, whether it ends or is stopped.
func TestMatrixEnds(t *testing.T) {
	m := tinyMatrix(t)
	m.Decodes = []int{1}
	held.Same(t, func() {
		_, err := m.Run(t.Context())
		require.NoError(t, err)
		over, stop := context.WithCancel(t.Context())
		stop()
		_, err = m.Run(over)
		assert.ErrorIs(t, err, context.Canceled)
		limit, err := ContextLimit(m.Model)
		require.NoError(t, err)
		assert.Equal(t, 512, limit)
		_, err = ContextLimit(m.Model + "x")
		assert.ErrorIs(t, err, os.ErrNotExist)
	})
}
