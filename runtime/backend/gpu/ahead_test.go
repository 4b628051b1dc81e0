package gpu

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestAhead runs a model of one layer of attention greedily, each pass over the best token of the one before it, which has
// not ended: the ids and the sums are those of passes that wait for each other.
func TestAhead(t *testing.T) {
	for _, o := range []soft.Options{{Seed: 1}, {Variant: soft.Check, PoisonBuffers: true}} {
		x := &fixture{t: t, r: newRand(11), d: open(t, o)}
		const dim, vocab, steps = 64, 600, 9
		c := backend.KVConfig{Slots: steps, Heads: 4, KVHeads: 2, HeadSize: 16, Type: gguf.F16}
		table, _ := x.weightOf(gguf.Q8_0, vocab, dim)
		wq, _ := x.weightOf(gguf.F16, 64, dim)
		wk, _ := x.weightOf(gguf.F16, 32, dim)
		wv, _ := x.weightOf(gguf.F16, 32, dim)
		wo, _ := x.weightOf(gguf.Q4_0, dim, 64)
		output, _ := x.weightOf(gguf.Q8_0, vocab, dim)
		g, _ := x.normOf(dim)
		h, q, k, v, a := x.tensorOf(1, dim), x.tensorOf(1, 64), x.tensorOf(1, 32), x.tensorOf(1, 32), x.tensorOf(1, 64)
		step := func(s *kv, at int, token int32, out []backend.Output, best int) backend.Ahead {
			p := x.begin(s, []backend.Row{{Token: token, Pos: int32(at), Slot: int32(at), See: []backend.Span{{From: 0, To: int32(at + 1)}}}})
			p.Embed(h, table)
			p.NormProject(q, k, v, h, g, wq, wk, wv)
			p.Attend(a, q, k, v, 0)
			p.ProjectAdd(h, wo, a)
			p.Head(out, h, g, output, backend.Want{Rows: []int{0}, K: best})
			return p
		}
		serial, ahead := make([][]backend.Output, steps), make([][]backend.Output, steps)
		token, s := int32(7), x.kv(c)
		for i := range serial {
			serial[i] = make([]backend.Output, 1)
			require.NoError(t, step(s, i, token, serial[i], 2+i).End(t.Context())) // ever larger results
			token = serial[i][0].Top[0].ID
		}
		var passes []backend.Ahead
		token, s = 7, x.kv(c)
		for i := range ahead {
			ahead[i] = make([]backend.Output, 1)
			p := step(s, i, token, ahead[i], 2+i)
			p.Submit()
			passes = append(passes, p)
			token = backend.Best
			if len(passes) > 3 { // so many are under way
				require.NoError(t, passes[0].End(t.Context()))
				passes = passes[1:]
			}
		}
		for _, p := range passes {
			require.NoError(t, p.End(t.Context()))
		}
		assert.Equal(t, serial, ahead)
		require.ErrorContains(t, step(s, 0, backend.Best, serial[0], 1).End(t.Context()), "token -1", "nothing is under way")
		p := step(s, 0, 1, serial[0], 1)
		p.Submit()
		failed := step(s, 0, vocab, ahead[0], 1)
		failed.Submit()
		require.NoError(t, p.End(t.Context()))
		require.ErrorContains(t, failed.End(t.Context()), "token 600")
	}
}
