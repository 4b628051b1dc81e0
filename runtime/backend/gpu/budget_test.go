package gpu_test

import (
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
)

// isWeight reports whether a parameter of a kernel is a matrix.
func isWeight(b soft.Binding) bool {
	op, _, _ := strings.Cut(b.Pipeline, "_")
	last := map[string]int{"qkv": 2, "add": 0, "gateup": 1, "head": 0}
	n, ok := last[op]
	return ok && b.Index <= n
}

// TestBudget counts the bytes that decoding after 64 tokens fetches, in a layer of the shape of Qwen2.5-0.5B and a head
// of a part of its vocabulary, and says what a token of the whole model comes to. Every byte of every weight is fetched
// once, for one row and for four alike, in lines of 128 bytes of which nearly all is used; everything else together
// (activations, keys and values, biases) is under 5 % of that for one row. So is what the splits of attention, which
// fill the cores, add to it: of 9 splits the queries and the results of 8, and what they count for. Caches serve all
// but the first fetch of these.
func TestBudget(t *testing.T) {
	racing.Spare(t)
	const heads = 64 // so many parts of the vocabulary
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
				continue // a row of activations costs the same beside any weights
			}
			dev := gpu.OpenMetal(t, soft.Options{Variant: soft.Check}).(*soft.Device)
			m, d := load(t, f, dev, gpu.Options{})
			c, err := m.NewCache(64+rows, gguf.F16)
			require.NoError(t, err)
			next := make([]backend.Row, rows) // the keys before them are zeros
			for i := range next {
				at := int32(64 + i)
				next[i] = backend.Row{Pos: at, Slot: at, See: []backend.Span{{From: 0, To: at + 1}}}
			}
			out := make([]backend.Output, rows)
			want := backend.Want{K: 4}
			for i := range rows {
				want.Rows = append(want.Rows, i)
			}
			require.NoError(t, m.Forward(t.Context(), c.KV(), next, out, want))
			layer, head := 0, 0 // bytes that are no weights
			const splits = 9    // of 65 keys
			parts, ml := d.Parts()
			results, sums := dev.Counts().Buffers[parts], dev.Counts().Buffers[ml]
			require.Equal(t, int64(rows*splits*896*4), results.WrittenUnique, "%d rows", rows)
			queries := dev.Counts().Bindings[soft.Binding{Pipeline: "attend_8_64", Index: 0}]
			joined := int(results.Read+results.Written+queries.Read)/splits*(splits-1) + int(sums.Read+sums.Written)
			weights, lines := int64(0), int64(0)
			headWeights := int64(0)
			for b, n := range dev.Counts().Bindings {
				if isWeight(b) {
					assert.Equal(t, n.ReadUnique, n.Read, "%s: %v, %d rows", recipe, b, rows)
					weights += n.Read
					lines += n.Lines
					if strings.HasPrefix(b.Pipeline, "head") {
						headWeights = n.Read
					}
					continue
				}
				if n.ReadUnique == 0 {
					continue // arguments that lie in the command buffer itself, the same for all threads
				}
				if strings.HasPrefix(b.Pipeline, "head") || strings.HasPrefix(b.Pipeline, "merge") ||
					strings.HasPrefix(b.Pipeline, "embed") {
					head += int(n.Read + n.Written)
				} else {
					layer += int(n.Read + n.Written)
				}
			}
			assert.Equal(t, d.LastPass().WeightBytes, weights, "%s: all weights, once", recipe)
			assert.Less(t, float64(lines)*128, 1.1*float64(weights), "%s: lines, %d rows", recipe, rows)
			// A whole token: 24 such layers and the whole head.
			whole := 24*(weights-headWeights) + heads*headWeights
			rest := 24*(layer-joined) + heads*head
			t.Logf("%s, %d rows: weights %.1f MB, the rest %.2f %%, splits %.2f %%, lines × 128 / bytes %.3f",
				recipe, rows, float64(whole)/1e6, 100*float64(rest)/float64(whole),
				2400*float64(joined)/float64(whole), float64(lines)*128/float64(weights))
			if rows == 1 {
				assert.Less(t, float64(rest), 0.05*float64(whole), recipe)
				assert.Less(t, float64(24*joined), 0.05*float64(whole), recipe)
			}
		}
	}
}
