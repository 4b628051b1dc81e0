package speed

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// tinyFile writes a small model of random weights.
func tinyFile(t *testing.T, tied bool) (path string) {
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	s := synth.Tiny(recipe, 1)
	s.Tied = tied
	path = filepath.Join(t.TempDir(), "m.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, s.Write(f, nil))
	require.NoError(t, f.Close())
	return path
}

// single returns a matrix with one combination.
func single(prompt, decode, depth, repeat int) *Matrix {
	return &Matrix{
		Model: "none.gguf", Prompts: []int{prompt}, Decodes: []int{decode}, Depths: []int{depth}, Repeat: repeat,
	}
}

func TestEngine(t *testing.T) {
	racing.Spare(t)
	for _, tied := range []bool{true, false} {
		path := tinyFile(t, tied)

		var progress []int
		m := single(30, 5, 40, 3)
		m.Model, m.Engine.Context, m.Engine.Threads = path, 400, 2
		m.OnSample = func(_ Cell, n, of int) {
			progress = append(progress, n)
			assert.Equal(t, 3, of)
		}
		all, err := m.Run(t.Context())
		require.NoError(t, err)
		r := all[0]
		assert.Equal(t, []int{1, 2, 3}, progress)
		assert.Len(t, r.Samples, 3)
		layers := int64(2 * (2*256*256 + 2*128*256 + 3*512*256) / 32 * 34)
		vectors := int64(4 * (2*(256+128+128+256+256) + 256))
		head := int64(512 * 256 / 32 * 34)
		if tied {
			assert.Equal(t, layers+vectors+head, r.TokenBytes)
		} else {
			assert.Equal(t, layers+vectors+head+256/32*34, r.TokenBytes, "one row of the embedding")
		}
		for _, s := range r.Samples {
			assert.Positive(t, s.PromptTPS)
			share := s.GenerationTPS * float64(r.TokenBytes+r.DepthBytes) / 1e9 / s.Bandwidth
			if want := shareOfBound(share, true); assert.Equal(t, want == nil, s.Share == nil) && want != nil {
				assert.InEpsilon(t, *want, *s.Share, 1e-9)
			}
		}
		assert.Equal(t, int64(2*2*128*2*42), r.DepthBytes, "keys and values of 42 tokens in F16")
		assert.EqualValues(t, 2*2*128*2*400, r.KVBytes, "for a context that is longer than needed")
		if r.PeakRSS > 0 {
			assert.Greater(t, r.PeakRSS, int64(8<<20), "a Go program with two models needs megabytes")
		}
		macs := 30*2*(2*256*256+2*128*256+3*512*256) + 512*256
		assert.Positive(t, r.PromptBound)
		e, err := engine.Open(path, engine.Options{Threads: 1})
		require.NoError(t, err)
		r.setPromptBound(e, 1e9, 1)
		assert.InEpsilon(t, 30*1e9/float64(macs), r.PromptBound, 1e-9, "all weights are bytes")
		require.NoError(t, e.Close())
		assert.Greater(t, r.FirstTokenMS, r.LoadMS)
		assert.True(t, r.FitsCache, "less than a megabyte")
	}
}

// TestGenerationOneByOne: each generated token has its own pass, also in a repetitive text.
func TestGenerationOneByOne(t *testing.T) {
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, synth.Tiny(recipe, 3).Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	e, err := engine.New(f, "tiny", engine.Options{Threads: 1})
	require.NoError(t, err)
	defer e.Close()
	m := newMeasurement(e)
	sum, err := m.generateTokens(t.Context(), 0, m.prefixTokens(8), 200)
	require.NoError(t, err)
	assert.Equal(t, 199, sum.Passes)
	assert.Zero(t, sum.Proposed)
}

func TestEngineStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := single(1, 0, 0, 1).Run(ctx)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestSameMemory: the bandwidth is measured with weights that exceed the cache.
func TestSameMemory(t *testing.T) {
	e, err := engine.Open(tinyFile(t, true), engine.Options{Threads: 1})
	require.NoError(t, err)
	defer e.Close()
	for _, huge := range []bool{false, true} {
		memory, free := bandwidthMemory(e, huge)
		require.Len(t, memory, 1)
		assert.Len(t, memory[0], record.FarBytes())
		require.NoError(t, free())
	}
}

// TestFitsCache: models that fit into the cache are marked, and no share is above 1.
func TestFitsCache(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name         string
		bytes, cache int64
		share        float64
		fits         bool
	}{
		{"a small model, bound by computing", 1 * mib, 32 * mib, 0.6, true},
		{"a small fast model, unknown cache", 1 * mib, 0, 4.14, true},
		{"a small slow model, unknown cache", 1 * mib, 0, 0.6, true},
		{"a large cache", 30 * mib, 480 * mib, 1.7, true},
		{"a large cache that other data fill", 30 * mib, 480 * mib, 0.9, false},
		{"a fast model, unknown cache", 30 * mib, 0, 1.7, true},
		{"an error of measurement", 500 * mib, 32 * mib, 1.03, false},
		{"an error of measurement, unknown cache", 500 * mib, 0, 1.03, false},
		{"a small cache", 2 * mib, 1 * mib, 0.9, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.fits, fitsCache(c.bytes, c.cache, c.share))
			if share := shareOfBound(c.share, c.fits); share != nil {
				assert.LessOrEqual(t, *share, 1.0)
				assert.InDelta(t, c.share, *share, 0.031)
			} else {
				assert.True(t, c.fits && c.share > 1)
			}
		})
	}
	assert.Nil(t, shareOfBound(0, false), "without a generation")
}

// TestMicrokernels: the lines are those of the table of kernels, with no maximum where there is none.
func TestMicrokernels(t *testing.T) {
	for i, m := range cpu.Microkernels() {
		line := Microkernels()[i]
		assert.Equal(t, m.To > 0, line.To != nil && *line.To == m.To)
		line.To, line.File, line.PackFile = nil, "", ""
		assert.Equal(t, Microkernel{Set: m.Set, InUse: m.Set == cpu.Features(), Type: m.Type.String(), From: m.From,
			Kernel: m.Kernel, Pack: m.Pack}, line)
	}
}

func TestMedian(t *testing.T) {
	of := func(s Sample) float64 { return s.PromptTPS }
	assert.Equal(t, 2.0, sampleMedian([]Sample{{PromptTPS: 9}, {PromptTPS: 1}, {PromptTPS: 2}}, of))
	assert.Equal(t, 1.5, sampleMedian([]Sample{{PromptTPS: 1}, {PromptTPS: 2}}, of))
}

// TestSummarise: the medians of scripted samples, and the bound from the bandwidth.
func TestSummarise(t *testing.T) {
	r := Report{
		TokenBytes: 900e6, DepthBytes: 100e6,
		Samples: []Sample{
			{PromptTPS: 30, GenerationTPS: 5, Bandwidth: 10}, {PromptTPS: 10, GenerationTPS: 8, Bandwidth: 20},
			{PromptTPS: 20, GenerationTPS: 30, Bandwidth: 20},
		},
	}
	r.summarizeSamples()
	assert.Equal(t, 20., r.PromptTPS)
	assert.Equal(t, 8., r.GenerationTPS)
	assert.Equal(t, 20., r.Bandwidth)
	assert.Equal(t, 20., r.Bound(), "1 GB per token")
	assert.False(t, r.FitsCache)
	assert.Zero(t, r.RowsTPS)
	assert.InDelta(t, 0.5, *r.Share, 1e-12, "the median of 0.5, 0.4 and 1.5")
	for i, want := range []float64{0.5, 0.4, 1} {
		assert.InDelta(t, want, *r.Samples[i].Share, 1e-12)
	}
}

// TestEngineOptions: the context that a measurement needs.
func TestEngineOptions(t *testing.T) {
	for _, c := range []struct {
		prompt, decode, depth, need int
	}{{100, 0, 0, 101}, {0, 10, 0, 19}, {0, 10, 8, 19}, {0, 10, 50, 61}, {100, 10, 5, 106}, {60, 10, 50, 111}} {
		assert.Equal(t, c.need, Cell{Prompt: c.prompt, Decode: c.decode, Depth: c.depth}.neededContext(), "%+v", c)
	}
	assert.Equal(t, 58, Cell{Rows: 8, Depth: 50}.neededContext())
}
