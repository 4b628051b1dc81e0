package gpu_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

var update = flag.Bool("update", false, "write testdata/budget anew")

// isWeight reports whether a parameter of a kernel is a matrix.
func isWeight(b soft.Binding) bool {
	op, _, _ := strings.Cut(b.Pipeline, "_")
	last := map[string]int{"qkv": 2, "add": 0, "gateup": 1, "head": 0}
	n, ok := last[op]
	return ok && b.Index <= n
}

// TestBudgetQwen3: with norms of heads, too, every byte of every weight is fetched once, for one row, a few and many.
func TestBudgetQwen3(t *testing.T) {
	racing.Spare(t)
	f := file(t, "q4_0", func(s *synth.Spec) {
		qwen3(256, 5, 1, 128)(s)
		s.Layers = 1
	})
	for _, rows := range []int{1, 4, 9} {
		dev := gpu.OpenMetal(t, soft.Options{Variant: soft.Check}).(*soft.Device)
		m, d := load(t, f, dev, gpu.Options{})
		run(t, m, make([]int32, rows), gguf.F16, rows)
		fetched := int64(0)
		for b, n := range dev.Counts().Bindings {
			if isWeight(b) {
				assert.Equal(t, n.ReadUnique, n.Fetched, "%v, %d rows", b, rows)
				fetched += n.Fetched
			}
		}
		assert.Equal(t, d.LastPass().WeightBytes, fetched, "%d rows", rows)
	}
}

// TestBudget counts the bytes that decoding after 64 tokens fetches, in a layer with the shape of Qwen2.5-0.5B and in a
// head with a part of its vocabulary, and logs the total for a token of the whole model.
//
// Every byte of every weight is fetched once, for one row and for four: a byte that several lanes need in one load,
// like the scale of a block, counts once. All other bytes together (activations, keys and values, biases) are under 5 %
// of that for one row, where bytes that many threadgroups of a dispatch fetch count once, because memory serves them
// once and a cache the rest.
//
// The splits of attention, which use all cores, add under 1 % to that: for 7 splits the queries and the results of 6,
// and their sums. Caches serve under 15 %, and 10 % for the splits: the threadgroups of a mat-vec, 56 where attention
// is joined, fetch the same activations. The loads of a simdgroup are close enough together to touch less than four
// times the lines of 128 bytes of the weights: lanes of one load leave gaps that those of the next one fill. The number
// of lines that each kernel touches, and all other counts, are in testdata/budget.
func TestBudget(t *testing.T) {
	racing.Spare(t)
	const heads = 32 // the number of parts of the vocabulary: 4,748 rows, whole tiles
	recipes := []string{"q4_0", "q8_0"}
	if testing.Short() {
		recipes = recipes[:1]
	}
	for _, recipe := range recipes {
		f := file(t, recipe, func(s *synth.Spec) {
			r := s.Recipe
			*s = synth.Half(r, 1)
			s.Layers, s.Vocab = 1, 151936/heads
		})
		for _, rows := range []int{1, 4} {
			if rows > 1 && (testing.Short() || recipe != recipes[0]) {
				continue // a row of activations costs the same with any weights
			}
			t.Run(fmt.Sprintf("%s_%d", recipe, rows), func(t *testing.T) {
				dev := gpu.OpenMetal(t, soft.Options{Variant: soft.Check}).(*soft.Device)
				m, d := load(t, f, dev, gpu.Options{})
				decodeAfter64(t, m, rows)
				sameCounts(t, fmt.Sprintf("testdata/budget/%s_%d.txt", recipe, rows), dev.Counts())
				b := budgetOf(t, dev.Counts())
				assert.Equal(t, d.LastPass().WeightBytes, b.weights, "all weights, once")
				assert.Less(t, float64(b.lines)*128, 4*float64(b.weights), "lines")
				b.checkShares(t, heads, joins(t, dev.Counts(), d, rows), rows == 1)
			})
		}
	}
}

// decodeAfter64 runs a pass for tokens that see 64 earlier ones.
func decodeAfter64(t *testing.T, m *transformer.Model, rows int) {
	c, err := m.NewCache(64+rows, gguf.F16)
	require.NoError(t, err)
	next := make([]backend.Row, rows) // the keys before them are zeros
	want := backend.Want{K: 4}
	for i := range next {
		at := int32(64 + i)
		next[i] = backend.Row{Pos: at, Slot: at, See: []backend.Span{{From: 0, To: at + 1}}}
		want.Rows = append(want.Rows, i)
	}
	require.NoError(t, m.Forward(t.Context(), c.KV(), next, make([]backend.Output, rows), want))
}

// budget holds the bytes that a pass of one layer and a head fetches.
type budget struct {
	weights, headWeights int64
	lines                int64 // of the weights
	layer, head          rest
}

// budgetOf adds up the counts, and checks that each byte of a weight is fetched once, and that arguments are small.
func budgetOf(t *testing.T, c soft.Counts) (sum budget) {
	last := map[string]int{}
	for b := range c.Bindings {
		last[b.Pipeline] = max(last[b.Pipeline], b.Index)
	}
	for b, n := range c.Bindings {
		op, _, _ := strings.Cut(b.Pipeline, "_")
		switch {
		case isWeight(b):
			assert.Equal(t, n.ReadUnique, n.Fetched, "%v", b)
			sum.weights += n.Fetched
			sum.lines += n.Lines
			if op == "head" {
				sum.headWeights = n.Fetched
			}
		case b.Index == last[b.Pipeline]: // arguments, in constant memory: the same for all threads
			assert.LessOrEqual(t, n.ReadUnique, int64(n.Dispatches)*256, "%v", b)
		case op == "head" || op == "merge" || op == "embed":
			sum.head.add(n)
		default:
			sum.layer.add(n)
		}
	}
	return sum
}

// checkShares compares the bytes besides weights, with what the splits of attention add to them, with the weights of a
// whole token: 24 of these layers, and all the parts of the head.
func (b budget) checkShares(t *testing.T, heads int64, joined rest, oneRow bool) {
	whole := float64(24*(b.weights-b.headWeights) + heads*b.headWeights)
	share := func(layer, head int64) float64 { return float64(24*layer+heads*head) / whole }
	memory := share(b.layer.memory-joined.memory, b.head.memory)
	cache := share(b.layer.cache-joined.cache, b.head.cache)
	joinedMemory, joinedCache := share(joined.memory, 0), share(joined.cache, 0)
	t.Logf("weights %.1f MB; from memory: splits %.2f %%, the rest %.2f %%; from caches: splits %.1f %%, the rest "+
		"%.1f %%; lines × 128 / bytes %.3f", whole/1e6, 100*joinedMemory, 100*memory, 100*joinedCache, 100*cache,
		float64(b.lines)*128/float64(b.weights))
	if oneRow {
		assert.Less(t, memory, 0.05)
		assert.Less(t, joinedMemory, 0.01)
		assert.Less(t, cache, 0.15)
		assert.Less(t, joinedCache, 0.1)
	}
}

// sameCounts compares the counts of each binding with those in a file.
func sameCounts(t *testing.T, path string, c soft.Counts) {
	t.Helper()
	var lines []string
	for b, n := range c.Bindings {
		lines = append(lines, fmt.Sprintf("%s [[buffer(%d)]]: %d dispatches, fetched %d, of these once %d, "+
			"lines %d, written %d\n", b.Pipeline, b.Index, n.Dispatches, n.Fetched, n.ReadUnique, n.Lines, n.Written))
	}
	slices.Sort(lines)
	have := strings.Join(lines, "")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(have), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	if runtime.GOARCH != "amd64" {
		t.Logf("%s is for code on amd64: clang's code for another processor may load in other pieces", path)
		return
	}
	assert.Equal(t, string(want), have,
		"to accept the change, run go test ./runtime/backend/gpu -run TestBudget -update")
}

// joins returns what the splits of attention add to its layer: 7 for 65 keys, instead of one.
func joins(t *testing.T, c soft.Counts, d *gpu.Device, rows int) rest {
	const splits = 7
	parts, ml := d.Parts()
	results, sums := c.Buffers[parts], c.Buffers[ml]
	require.Equal(t, int64(rows*splits*896*4), results.WrittenUnique, "%d rows", rows)
	queries := c.Bindings[soft.Binding{Pipeline: "attend_8_64", Index: 0}]
	require.NotZero(t, queries.Fetched)
	var r rest
	r.add(results)
	r.cache += queries.Fetched // memory serves them once for all splits
	r.memory, r.cache = r.memory/splits*(splits-1), r.cache/splits*(splits-1)
	r.add(sums)
	return r
}

// rest holds the bytes that dispatches fetch and write besides weights: those served once per dispatch, and those
// fetched again.
type rest struct{ memory, cache int64 }

func (r *rest) add(n soft.Count) {
	r.memory += n.ReadUnique + n.Written
	r.cache += n.Fetched - n.ReadUnique
}
