//go:build linux && (amd64 || arm64)

package mtl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal/record"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen"
)

// maxMessages is the max number of Objective-C messages for a token of Qwen2.5-0.5B, from the start of its command
// buffer to reading its result.
const maxMessages = 900

// TestMessages counts the messages for a token of a model with the shape of Qwen2.5-0.5B, with a fake that does not run
// kernels, in short and long contexts. No pipeline is made while passes are encoded.
func TestMessages(t *testing.T) {
	recipes := []string{"q8_0", "q4_0", "q4_k_m", "f16"}
	if testing.Short() {
		recipes = recipes[:1]
	}
	for _, name := range recipes {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, record.Open())
			recipe, err := synth.ParseRecipe(name)
			require.NoError(t, err)
			file, err := synth.Half(recipe, 1).Blank()
			require.NoError(t, err)
			parsed, err := gguf.Parse(file)
			require.NoError(t, err)
			g, err := gpu.New(f.open(t), gpu.Options{Mapped: [][]byte{file[:cap(file)]}})
			require.NoError(t, err)
			defer func() { require.NoError(t, g.Close()) }()
			m, err := qwen.Load(parsed, g)
			require.NoError(t, err)
			c, err := m.NewCache(4096, gguf.F16)
			require.NoError(t, err)
			made := f.counts["newComputePipelineStateWithFunction:error:"]
			fly := func(draw backend.Draw) int { // a token in flight, sampled if a draw is given
				at := c.Len()
				defer c.Truncate(at) // all have the same number of tokens
				row, err := c.Extend(make([]int32, 1))
				require.NoError(t, err)
				before := maps.Clone(f.counts)
				flight, err := m.Start(c.KV(), row[0], backend.Want{K: 2, Draw: draw}, nil)
				require.NoError(t, err)
				if _, err = flight.Wait(t.Context()); !errors.Is(err, qwen.ErrNotFinite) { // nothing is computed
					require.NoError(t, err)
				}
				return total(since(before, f.counts))
			}
			pass := func(rows int) map[string]int {
				r, err := c.Extend(make([]int32, rows))
				require.NoError(t, err)
				before := maps.Clone(f.counts)
				err = m.Forward(t.Context(), c.KV(), r, make([]backend.Output, 1),
					backend.Want{Rows: []int{rows - 1}, K: 2})
				if !errors.Is(err, qwen.ErrNotFinite) { // nothing is computed
					require.NoError(t, err)
				}
				return since(before, f.counts)
			}
			for _, context := range []int{1, 128, 800, 2500} {
				pass(context) // also with rows for the matrices
				pass(1)       // buffers have grown
				sent := pass(1)
				t.Logf("%d tokens of context: %d messages: %v", context, total(sent), listed(sent))
				assert.LessOrEqual(t, total(sent), maxMessages)
				for _, o := range []terms.Sampling{
					{Temperature: 1, TopK: 40}, {Temperature: 1, TopP: 0.9}, {Temperature: 1},
				} {
					fly(backend.Draw{Sampling: o}) // buffers have grown
					assert.Equal(t, fly(backend.Draw{}), fly(backend.Draw{Sampling: o}), "sampling needs no messages")
				}
			}
			for _, rows := range []int{2, 4, 5, 8, 9, 100} {
				pass(rows)
			}
			assert.Equal(t, made, f.counts["newComputePipelineStateWithFunction:error:"], "pipelines are made at load")
		})
	}
}

// since returns the messages between two counts.
func since(before, after map[string]int) map[string]int {
	sent := map[string]int{}
	for name, n := range after {
		if n > before[name] {
			sent[name] = n - before[name]
		}
	}
	return sent
}

// total returns the number of messages.
func total(sent map[string]int) (all int) {
	for _, n := range sent {
		all += n
	}
	return all
}

// listed formats counts, the largest first.
func listed(counts map[string]int) (lines []string) {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	for _, name := range names {
		lines = append(lines, name+" "+fmt.Sprint(counts[name]))
	}
	return lines
}
