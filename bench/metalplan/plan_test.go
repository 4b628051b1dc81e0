package metalplan

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/record"
)

var update = flag.Bool("update", false, "write testdata/plans.txt anew")

func shape(t *testing.T, name, kind string) synth.Spec {
	t.Helper()
	r, err := synth.ParseRecipe(kind)
	require.NoError(t, err)
	s, err := synth.Shape(name, r, 1)
	require.NoError(t, err)
	return s
}

// TestGolden fails on every change of a prediction: of the dispatches, their plans, the constants.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	fmt.Fprintln(&b, "# Predictions for the shapes of Qwen2.5-0.5B, Qwen3-0.6B, Qwen3.5-0.8B and Qwen2.5-1.5B; see",
		"plan_test.go.")
	predict := func(name, kind string, n int, gpus ...GPU) (plans []Plan) {
		all, err := recordToken(t.Context(), shape(t, name, kind), n)
		require.NoError(t, err)
		for _, g := range gpus {
			p, err := predictDispatches(g, all, n)
			require.NoError(t, err)
			plans = append(plans, p)
		}
		return plans
	}
	for _, kind := range []string{"q8_0", "q4_0", "q4_k_m"} {
		for _, n := range []int{100, 4000} {
			for _, p := range predict("0.5b", kind, n, GPUs()[0], GPUs()[5]) {
				fmt.Fprintf(&b, "\n%s, 0.5b, %s\n", p.GPU.Chip, kind)
				require.NoError(t, p.Write(&b))
			}
		}
	}
	fmt.Fprintln(&b, "\ntokens/s in q4_k_m with 100 tokens of context")
	for _, name := range []string{"0.5b", "0.6b", "0.8b", "1.5b"} {
		fmt.Fprintf(&b, "%s:", name)
		for _, p := range predict(name, "q4_k_m", 100, GPUs()...) {
			fmt.Fprintf(&b, " %s %.0f", p.GPU.Name, p.Tokens)
		}
		fmt.Fprintln(&b)
	}
	const path = "testdata/plans.txt"
	if *update {
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), b.String(), "run go test ./bench/metalplan -update to accept the change")
}

// TestBytes: a pass reads all matrices in the file once, and the keys and values. The embedding counts as one row,
// except where the head reads it completely.
func TestBytes(t *testing.T) {
	for name, head := range map[string]int{"0.5b": 64, "0.6b": 128} {
		s := shape(t, name, "q4_0")
		p, err := Predict(t.Context(), GPUs()[0], s, 10)
		require.NoError(t, err)
		blank, err := s.Blank()
		require.NoError(t, err)
		f, err := gguf.Parse(blank)
		require.NoError(t, err)
		want := int64(0)
		for _, tensor := range f.Tensors() {
			if len(tensor.Shape) == 2 {
				want += int64(len(tensor.Data))
			}
		}
		row := int64(s.Dim / 32 * 34)
		keys := int64(s.Layers * 2 * 10 * head * s.KVHeads * 2)
		assert.Equal(t, want+row+keys, p.Bytes, name)
		assert.Equal(t, 1+5*s.Layers+2, p.Levels, name)
	}
}

// TestStateBytes: a recurrent layer has a level more than others, and reads the state before its chunk, and the updates
// of the chunk. The first token of a chunk also reads those of the chunk before and its state, and writes one.
func TestStateBytes(t *testing.T) {
	const state, update = 4 * 16 * 128 * 128, 2 * 2 * 16 * 128
	for n, want := range map[int]int64{
		1: 0, 16: 15 * update, 17: 16*update + 2*state, 18: update + state, 33: 16*update + 3*state,
	} {
		p, err := Predict(t.Context(), GPUs()[0], shape(t, "0.8b", "q4_0"), n)
		require.NoError(t, err)
		for _, w := range p.Dispatches {
			if w.Kernel == "delta" {
				assert.Equal(t, Work{Count: 18, Bytes: want}, Work{Count: w.Count, Bytes: w.Bytes}, "%d tokens", n)
			}
		}
		assert.Equal(t, 1+18*6+6*5+2, p.Levels)
	}
}

// TestIdle: less than 5 % of the lanes are idle in any product of the small models, and as many as a count by hand has.
func TestIdle(t *testing.T) {
	for _, name := range []string{"0.5b", "0.6b", "0.8b", "1.5b"} {
		for _, kind := range []string{"q4_0", "q8_0", "q4_k_m"} {
			p, err := Predict(t.Context(), GPUs()[0], shape(t, name, kind), 100)
			require.NoError(t, err)
			for _, w := range p.Dispatches {
				assert.Less(t, w.Idle, 0.05, "%s %s: %+v", name, kind, w)
				assert.GreaterOrEqual(t, w.Idle, 0.0, "%s %s: %+v", name, kind, w)
			}
		}
	}
	for _, c := range []struct {
		name        string
		p           product
		plain       bool
		simdgroups  int
		trips, idle float64
	}{
		{"whole steps", product{weights: 16 * 1024, rows: 16, cols: 1024, parts: 2, share: 512, abreast: 2},
			false, 8, 1, 0},
		{"half steps of plain numbers", product{weights: 16 * 1024, rows: 16, cols: 1024, parts: 2, share: 512,
			abreast: 2}, true, 8, 2, 0},
		{"a step and a tail", product{weights: 16 * 896, rows: 16, cols: 896, parts: 1, share: 896, abreast: 1},
			false, 4, 2, 0},
		{"unequal parts", product{weights: 16 * 896, rows: 16, cols: 896, parts: 2, share: 512, abreast: 2},
			false, 8, 1, 1.0 / 8},
		{"not a whole tail", product{weights: 16 * 576, rows: 16, cols: 576, parts: 1, share: 640, abreast: 1},
			false, 4, 2, 7.0 / 16},
		{"rows that are not there", product{weights: 12 * 512, rows: 16, cols: 512, parts: 1, share: 512, abreast: 1},
			false, 4, 1, 1.0 / 4},
		{"a part after the other", product{weights: 16 * 1024, rows: 16, cols: 1024, parts: 2, share: 512, abreast: 1},
			false, 4, 2, 0},
		{"more jobs than simdgroups", product{weights: 16 * 512, rows: 16, cols: 512, parts: 1, share: 512, abreast: 1},
			false, 3, 2, 1.0 / 3},
	} {
		w := Work{Groups: 1, Threads: 32 * c.simdgroups}
		w.countTrips(c.p, c.plain)
		assert.EqualValues(t, c.trips, w.Trips, c.name)
		assert.InDelta(t, c.idle, w.Idle, 1e-9, c.name)
	}
}

// TestPromptBound: an M1 starts 1.3·10¹² products a second, and a token of Qwen2.5-0.5B takes 358 million.
func TestPromptBound(t *testing.T) {
	blank, err := shape(t, "0.5b", "q8_0").Blank()
	require.NoError(t, err)
	f, err := gguf.Parse(blank)
	require.NoError(t, err)
	const layer = 896*(896+2*128) + 896*896 + 3*896*4864
	assert.InDelta(t, 128*8*1.278e9/(24*layer), PromptBound(GPUs()[0], f), 1e-6)
}

// TestTime: each limit, computed by hand.
func TestTime(t *testing.T) {
	g := GPU{Cores: 10, GHz: 1, Bandwidth: 100}
	for _, c := range []struct {
		name  string
		w     Work
		limit string
		want  float64
	}{
		{"memory", Work{Groups: 1000, Threads: 256, Bytes: 83e6, fetch: 2048}, "memory", step + 1000},
		{"latency", Work{Groups: 10, Threads: 32, Bytes: 1e6, fetch: 512}, "latency", step + 1e6/(10*512/latency)},
		{"arithmetic", Work{Groups: 11, Threads: 256, Instructions: 11 * 128e3 * 50, fetch: 512}, "arithmetic",
			step + 100},
		{"nothing but a step", Work{Groups: 10, Threads: 256, fetch: 512}, "step", step},
		{"memory and caches", Work{Groups: 1000, Threads: 256, Bytes: 83e6, Cached: 37.5 * 10e3 * 7, fetch: 2048},
			"memory", step + 1007},
		{"caches", Work{Groups: 100, Threads: 256, Cached: 37.5 * 10e3 * 50, fetch: 512}, "caches", step + 50},
		{"few bytes from caches", Work{Groups: 5, Threads: 256, Cached: 37.5 * 5e3 * 2, fetch: 512}, "step", step + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.w.predictTime(g, 16)
			assert.Equal(t, c.limit, c.w.Limit)
			assert.InDelta(t, c.want, c.w.Micros, 1e-6)
		})
	}
	few := Work{Groups: 1000, Threads: 64, fetch: 512}
	few.predictTime(g, 32<<10) // one threadgroup per core
	assert.Equal(t, 2*512, few.InFlight)
	many := Work{Groups: 1000, Threads: 64, fetch: 512}
	many.predictTime(g, 16)
	assert.Equal(t, 8*2*512, many.InFlight, "512 threads")
}

// TestCounted: every type of weights with kernels has counted instructions; a type without counts is refused.
func TestCounted(t *testing.T) {
	one := metal.Size{X: 1, Y: 1, Z: 1}
	for _, name := range kernels.Types() {
		assert.Contains(t, instructionsPerWeight, strings.ToLower(name))
	}
	assert.Len(t, instructionsPerWeight, len(kernels.Types()))
	_, err := workOf(record.Dispatch{Kernel: "add_q9_9_1", Groups: one, Threads: one}, 1)
	assert.ErrorContains(t, err, "weights of type q9_9")
}

// TestFetch: a simdgroup has the bytes of a step of a tile in flight, or half of them if weights are plain numbers.
func TestFetch(t *testing.T) {
	const tile = kernels.TileRows * kernels.StepColumns
	for kind, want := range map[string]int{"f32": tile * 4 / 2, "f16": tile * 2 / 2, "bf16": tile * 2 / 2,
		"q8_0": tile * 34 / 32, "q4_0": tile * 18 / 32} {
		p, err := Predict(t.Context(), GPUs()[0], shape(t, "tiny", kind), 1)
		require.NoError(t, err)
		found := false
		for _, w := range p.Dispatches {
			if strings.HasPrefix(w.Kernel, "gateup_"+kind) {
				found = true
				assert.Equal(t, want, w.fetch, kind)
			}
		}
		assert.True(t, found, kind)
	}
}

// TestPredictFails: a shape that no model has, and a context without a token, are errors.
func TestPredictFails(t *testing.T) {
	_, err := Predict(t.Context(), GPUs()[0], synth.Spec{}, 1)
	assert.ErrorContains(t, err, "every size must be positive")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Predict(ctx, GPUs()[0], shape(t, "tiny", "q8_0"), 5)
	assert.ErrorIs(t, err, context.Canceled)
	p, err := Predict(t.Context(), GPUs()[0], shape(t, "tiny", "q8_0"), 1)
	require.NoError(t, err, "the first token has none before it")
	assert.Equal(t, 1, p.Context)
}
