package gpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// drawing is a head over random logits, from which tokens are sampled.
type drawing struct {
	*fixture
	h     *tensor
	g     *norm
	w     *weight
	store *kv
}

func (x *fixture) drawing(vocab int) *drawing {
	const dim = 64
	g, _ := x.normOf(dim)
	m, _ := x.matrix(gguf.F32, vocab, dim)
	w, err := x.d.LoadWeight(m, nil)
	require.NoError(x.t, err)
	store := x.kv(backend.KVConfig{Slots: 1, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.F16})
	return &drawing{fixture: x, h: x.tensorOf(1, dim), g: g, w: w.(*weight), store: store}
}

// anyDraw returns a draw with or without each of the rules. Logits of these heads have a deviation of 8.
func anyDraw(r *rand.Rand) backend.Draw {
	d := backend.Draw{Sampling: terms.Sampling{Temperature: []float64{0.2, 1, 3, 8, 30}[r.IntN(5)], Seed: r.Uint64()}}
	if r.IntN(2) == 0 {
		d.TopK = []int{2, 5, 20, 40, 64, 65, 200}[r.IntN(7)]
	}
	if r.IntN(2) == 0 {
		d.TopP = []float64{0.1, 0.5, 0.9, 0.99}[r.IntN(4)]
	}
	if r.IntN(3) == 0 {
		d.MinP = []float64{0.01, 0.05, 0.3, 1}[r.IntN(4)]
	}
	return d
}

// round samples a token from new logits at some position, and returns the device's guess and the token of package
// sample.
func (x *drawing) round(d backend.Draw) (guess, drawn int32) {
	copy(x.h.all(), x.floats(len(x.h.all())))
	s, err := sample.New(d.Sampling)
	require.NoError(x.t, err)
	row, out := rowsAt(1), make([]backend.Output, 1)
	row[0].Pos = x.r.Int32N(5000)
	want := s.Want(backend.Want{Rows: []int{0}, K: 1 + x.r.IntN(8), Draw: d})
	p := x.begin(x.store, row)
	p.Head(out, x.h, x.g, x.w, want)
	require.NoError(x.t, p.End(x.t.Context()))
	require.Len(x.t, out[0].Top, min(want.K, x.w.rows))
	return out[0].Next, s.PickBy(int(row[0].Pos)+1, &out[0], &terms.Settings{MinP: d.MinP}, sample.Place{})
}

// held returns how many of n draws a device guesses right, and those that it does not.
func (x *drawing) held(n int, draw func() backend.Draw) (right int, misses []backend.Draw) {
	for range n {
		d := draw()
		if guess, drawn := x.round(d); guess == drawn {
			right++
		} else {
			misses = append(misses, d)
		}
	}
	return right, misses
}

// narrowed reports whether a device has all it needs for a guess: the possible tokens are among the best ones, or are
// the whole vocabulary.
func narrowed(d backend.Draw) bool {
	return d.TopK > 0 && d.TopK <= maxBest || d.TopK == 0 && d.TopP == 0 && d.MinP == 0
}

// TestDraw: the token with which a device continues is the one that package sample draws, for any temperature, top-k,
// top-p, min-p, seed and position: nearly always, except for scores too close for float32. If more tokens are possible
// than the best ones that kernels find, but not all, most guesses are right.
func TestDraw(t *testing.T) {
	racing.Spare(t)
	each(t, func(x *fixture) {
		for _, vocab := range []int{3, 300, 1100} {
			v := x.drawing(vocab)
			rounds := 200
			if x.variant == soft.Check {
				rounds = 20
			}
			right, misses := v.held(rounds, func() backend.Draw {
				d := anyDraw(x.r)
				for !narrowed(d) {
					d = anyDraw(x.r)
				}
				if d.TopK > vocab {
					d.TopK = vocab
				}
				return d
			})
			x.t.Logf("%d tokens: %d of %d guesses hold", vocab, right, rounds)
			assert.GreaterOrEqual(x.t, right, rounds-rounds/200, "%d tokens: %+v", vocab, misses)
			right, misses = v.held(rounds/4, func() backend.Draw {
				d := anyDraw(x.r)
				for narrowed(d) || d.TopK > vocab {
					d = anyDraw(x.r)
				}
				return d
			})
			x.t.Logf("%d tokens: %d of %d guesses hold where more can be drawn", vocab, right, rounds/4)
			assert.GreaterOrEqual(x.t, right, rounds/4*8/10, "%d tokens: %+v", vocab, misses)
		}
	})
}

// TestDrawOf: each setting of a draw reaches the kernels, in their units. They find as many best tokens as the draw may
// need, or draw among all tokens, if nothing limits it to those.
func TestDrawOf(t *testing.T) {
	p := &pass{rows: []backend.Row{{Pos: 3}, {Pos: 9}}}
	tiny := math.Nextafter(0, 1)
	for _, c := range []struct {
		temperature float64
		k           int
		topP, minP  float64
		want        draw
	}{
		{2, 0, 0, 0, draw{k: 1, best: 1, rest: true, sharpness: 0.5, topP: 2, minLogit: -math.MaxFloat32}},
		{2, 0, 1, 0, draw{k: 1, best: 1, rest: true, sharpness: 0.5, topP: 2, minLogit: -math.MaxFloat32}},
		{2, 64, 0, 0, draw{k: 64, best: 64, sharpness: 0.5, topP: 2, minLogit: -math.MaxFloat32}},
		{2, 65, 0, 0, draw{k: 64, best: 64, rest: true, sharpness: 0.5, topP: 2, minLogit: -math.MaxFloat32}},
		{0.5, 0, 0.75, 0, draw{k: 64, best: 64, rest: true, sharpness: 2, topP: 0.75, minLogit: -math.MaxFloat32}},
		{4, 0, 0, math.Exp(-2), draw{k: 64, best: 64, rest: true, sharpness: 0.25, topP: 2, minLogit: -8}},
		{4, 5, 0.5, math.Exp(-2), draw{k: 5, best: 5, sharpness: 0.25, topP: 0.5, minLogit: -8}},
		{tiny, 5, 0, 0, draw{k: 5, best: 5, sharpness: maxSharpness, topP: 2, minLogit: -math.MaxFloat32}},
		{1e300, 5, 0, 0.5, draw{k: 5, best: 5, sharpness: 1e-300, topP: 2, minLogit: -math.MaxFloat32}},
	} {
		of := backend.Draw{MinP: c.minP, Sampling: terms.Sampling{
			Temperature: c.temperature, TopK: c.k, TopP: c.topP, Seed: 5<<32 | 7,
		}}
		c.want.pos, c.want.seed = 10, 5<<32|7 // of the next token
		got := p.planDraw(backend.Want{Rows: []int{1}, Draw: of})
		require.NotNil(t, got)
		assert.InDelta(t, c.want.minLogit, got.minLogit, 1e-6*math.Abs(float64(c.want.minLogit)))
		got.minLogit = c.want.minLogit
		assert.Equal(t, &c.want, got, "%+v", of)
		var head kernels.HeadArgs
		got.setHeadArgs(&head)
		want := kernels.HeadArgs{Draw: 1, Sharpness: got.sharpness, Pos: 10, SeedLow: 7, SeedHigh: 5}
		if !got.rest {
			want = kernels.HeadArgs{}
		}
		assert.Equal(t, want, head)
		merge := kernels.MergeArgs{K: 20}
		got.setMergeArgs(&merge)
		assert.Equal(t, kernels.MergeArgs{
			K: 20, Draw: 1, Best: uint32(min(got.best, 20)), Rest: boolToUint32(got.rest), Sharpness: got.sharpness,
			TopP: got.topP, MinLogit: got.minLogit, Pos: 10, SeedLow: 7, SeedHigh: 5,
		}, merge)
	}
}

// TestDrawOfMany: with several wanted rows none is sampled, and a greedy draw gives the best token.
func TestDrawOfMany(t *testing.T) {
	x := &fixture{t: t, r: newRand(4), d: open(t, fastOptions())}
	v := x.drawing(100)
	v.h = x.tensorOf(2, 64)
	drawn := backend.Draw{Sampling: terms.Sampling{Temperature: 100, TopK: 64}}
	for _, c := range []backend.Want{
		{Rows: []int{0, 1}, K: 3, Draw: drawn}, {Rows: []int{1}, K: 3}, {Rows: []int{1}, K: 70},
		{Rows: []int{1}, K: 3, Draw: backend.Draw{Sampling: terms.Sampling{Temperature: 100, TopK: 1}}},
	} {
		out := make([]backend.Output, len(c.Rows))
		p := x.begin(x.kv(backend.KVConfig{Slots: 2, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.F16}), rowsAt(2))
		p.Head(out, v.h, v.g, v.w, c)
		require.NoError(t, p.End(t.Context()))
		for _, o := range out {
			assert.Equal(t, o.Top[0].ID, o.Next)
		}
	}
}
