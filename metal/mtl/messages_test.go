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
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// maxMessages is the max number of Objective-C messages for a token of Qwen2.5-0.5B, from the start of its command
// buffer to reading its result.
const maxMessages = 900

// TestMessages counts the messages for a token of a model with the shape of Qwen2.5-0.5B, with a fake that does not run
// kernels, in short and long contexts. No pipeline is made after all were.
func TestMessages(t *testing.T) {
	recipes := []string{"q8_0", "q4_0", "q4_k_m", "f16"}
	if testing.Short() {
		recipes = recipes[:1]
	}
	for _, name := range recipes {
		t.Run(name, func(t *testing.T) {
			c := newMessageCounter(t, name)
			made := c.pipelines()
			for _, context := range []int{1, 128, 800, 2500} {
				c.forward(context) // also with rows for the matrices
				c.forward(1)       // buffers have grown
				sent := c.forward(1)
				t.Logf("%d tokens of context: %d messages: %v", context, total(sent), listed(sent))
				assert.LessOrEqual(t, total(sent), maxMessages)
				for _, o := range []terms.Sampling{
					{Temperature: 1, TopK: 40}, {Temperature: 1, TopP: 0.9}, {Temperature: 1},
				} {
					c.fly(backend.Draw{Sampling: o}) // buffers have grown
					sampled := c.fly(backend.Draw{Sampling: o})
					assert.Equal(t, c.fly(backend.Draw{}), sampled, "sampling needs no messages")
				}
			}
			for _, rows := range []int{2, 4, 5, 8, 9, 100} {
				c.forward(rows)
			}
			assert.Equal(t, made, c.pipelines(), "they were made before")
		})
	}
}

// messageCounter counts the messages of passes of a model whose kernels do not run: its results may be not finite.
type messageCounter struct {
	t     *testing.T
	fake  *fake
	model *transformer.Model
	cache *transformer.Cache
}

func newMessageCounter(t *testing.T, recipeName string) *messageCounter {
	f := newFake(t, record.Open())
	recipe, err := synth.ParseRecipe(recipeName)
	require.NoError(t, err)
	file, err := synth.Half(recipe, 1).Blank()
	require.NoError(t, err)
	parsed, err := gguf.Parse(file)
	require.NoError(t, err)
	g, err := gpu.New(f.open(t), gpu.Options{Mapped: [][]byte{file[:cap(file)]}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	m, err := transformer.Load(parsed, g)
	require.NoError(t, err)
	c, err := m.NewCache(4096, gguf.F16)
	require.NoError(t, err)
	require.NoError(t, g.CompileKernels())
	return &messageCounter{t, f, m, c}
}

// pipelines returns the number of pipelines that were made.
func (c *messageCounter) pipelines() int {
	return c.fake.counts["newComputePipelineStateWithFunction:error:"]
}

// fly returns the number of messages for a token in flight, which is sampled if draw is not zero.
func (c *messageCounter) fly(draw backend.Draw) int {
	at := c.cache.Len()
	defer c.cache.Truncate(at) // all have the same number of tokens
	row, err := c.cache.Extend(make([]int32, 1))
	require.NoError(c.t, err)
	before := maps.Clone(c.fake.counts)
	flight, err := c.model.Start(c.cache.KV(), row[0], backend.Want{K: 2, Draw: draw}, nil)
	require.NoError(c.t, err)
	if _, err = flight.Wait(c.t.Context()); !errors.Is(err, transformer.ErrNotFinite) {
		require.NoError(c.t, err)
	}
	return total(since(before, c.fake.counts))
}

// forward returns the messages for a forward pass of zeros.
func (c *messageCounter) forward(rows int) map[string]int {
	r, err := c.cache.Extend(make([]int32, rows))
	require.NoError(c.t, err)
	before := maps.Clone(c.fake.counts)
	err = c.model.Forward(c.t.Context(), c.cache.KV(), r, make([]backend.Output, 1),
		backend.Want{Rows: []int{rows - 1}, K: 2})
	if !errors.Is(err, transformer.ErrNotFinite) {
		require.NoError(c.t, err)
	}
	return since(before, c.fake.counts)
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
