package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// openHalf opens a model of random weights with the shape of Qwen2.5-0.5B in Q8_0, and warms it up.
func openHalf(b *testing.B) *Engine {
	b.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(b, err)
	path := filepath.Join(b.TempDir(), "half.gguf")
	f, err := os.Create(path)
	require.NoError(b, err)
	require.NoError(b, synth.Half(recipe, 1).Write(f, nil))
	require.NoError(b, f.Close())
	e, err := Open(path, Options{Context: 1024})
	require.NoError(b, err)
	b.Cleanup(func() { e.Close() })
	_, err = e.Weights(b.Context())
	require.NoError(b, err)
	return e
}

// decodeAll has n sessions with different prompts decode equal numbers of tokens, and returns the time from when all
// have read their prompts.
func decodeAll(b *testing.B, e *Engine, n, tokens int, seed uint64) time.Duration {
	b.Helper()
	var read, all sync.WaitGroup
	read.Add(n)
	begin := make(chan struct{})
	for i := range n {
		s := session(b, e)
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		prompt := make([]int32, 32)
		for j := range prompt {
			prompt[j] = r.Int32N(100000)
		}
		all.Go(func() {
			defer s.Close()
			got := 0
			r := terms.Settings{MaxTokens: tokens, IgnoreEnd: true, Lookup: -1}
			for _, err := range s.Generate(b.Context(), prompt, r) {
				require.NoError(b, err)
				if got++; got == 1 {
					read.Done()
					<-begin
				}
			}
		})
	}
	read.Wait()
	start := time.Now()
	close(begin)
	all.Wait()
	return time.Since(start)
}

// BenchmarkSessionsTogether measures how much longer n sessions take than one, each for the same number of tokens, in
// turns.
func BenchmarkSessionsTogether(b *testing.B) {
	e := openHalf(b)
	const tokens = 65
	sizes := []int{1, 2, 4, 8}
	times := map[int][]float64{}
	shared := map[int]float64{}
	for round := range 7 {
		for _, n := range sizes {
			passes, calls := e.batcher.passes, e.batcher.calls
			times[n] = append(times[n], decodeAll(b, e, n, tokens, uint64(round)).Seconds()/(tokens-1))
			shared[n] = float64(e.batcher.calls-calls) / float64(e.batcher.passes-passes)
		}
	}
	for _, n := range sizes {
		slices.Sort(times[n])
		median := times[n][len(times[n])/2]
		b.ReportMetric(1e3*median, fmt.Sprintf("ms/token-%d", n))
		b.ReportMetric(median/times[1][len(times[1])/2], fmt.Sprintf("times-one-%d", n))
		b.ReportMetric(shared[n], fmt.Sprintf("in-a-pass-%d", n))
	}
}

// BenchmarkRows measures forward calls by their number of rows.
func BenchmarkRows(b *testing.B) {
	e := openHalf(b)
	cache, err := e.newCache(b.Context(), 1024)
	require.NoError(b, err)
	times := map[int][]float64{}
	sizes := []int{1, 2, 4, 5, 8, 12, 16, 20, 32, 36, 64, 128, 256, 512}
	for range 5 {
		for _, n := range sizes {
			cache.Clear()
			rows, err := cache.Extend(make([]int32, n))
			require.NoError(b, err)
			begin := time.Now()
			out := make([]backend.Output, 1)
			want := backend.Want{Rows: []int{n - 1}, K: 1}
			require.NoError(b, e.model.Forward(b.Context(), cache.KV(), rows, out, want))
			times[n] = append(times[n], 1e3*time.Since(begin).Seconds())
		}
	}
	for _, n := range sizes {
		b.ReportMetric(slices.Min(times[n]), fmt.Sprintf("ms-%d", n))
	}
}

// BenchmarkOneSession measures the time per token of one session, with shared passes enabled and disabled, in turns.
func BenchmarkOneSession(b *testing.B) {
	e := openHalf(b)
	both := map[string]*batcher{"crew": e.batcher, "turns": nil}
	times, allocs := map[string][]float64{}, map[string]uint64{}
	const tokens, rounds = 33, 15
	for round := range rounds {
		for name, c := range both {
			e.batcher = c
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			times[name] = append(times[name], 1e3*decodeAll(b, e, 1, tokens, uint64(round)).Seconds()/(tokens-1))
			runtime.ReadMemStats(&after)
			allocs[name] += after.Mallocs - before.Mallocs
		}
	}
	for name, t := range times {
		slices.Sort(t)
		b.ReportMetric(t[len(t)/2], "ms/token-"+name)
		b.ReportMetric(t[0], "best-ms/token-"+name)
		b.ReportMetric(float64(allocs[name])/rounds/tokens, "allocs/token-"+name)
	}
}
