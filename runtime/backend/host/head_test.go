package host

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// tied returns an output matrix with the rows of kinds, selected by pick for each token: tokens of one kind have equal
// logits.
func (x *fixture) tied(t gguf.Type, kinds, dim int, pick []int) backend.Weight {
	elems, size := t.Block()
	bytes := dim / elems * size
	all := make([]byte, kinds*bytes)
	require.NoError(x.t, t.Quantize(all, x.floats(kinds*dim)))
	var data []byte
	for _, k := range pick {
		data = append(data, all[k*bytes:(k+1)*bytes]...)
	}
	w, err := x.d.LoadWeight(gguf.Tensor{Name: "t", Type: t, Shape: []int{dim, len(pick)}, Data: data}, nil)
	require.NoError(x.t, err)
	return w
}

// head runs a head alone.
func (x *fixture) head(h backend.Tensor, g backend.Norm, w backend.Weight, want backend.Want) []backend.Output {
	rows, _ := h.Shape()
	out := make([]backend.Output, len(want.Rows))
	p := x.d.Begin(x.kv(rows, gguf.F32), rowsAt(rows))
	p.Head(out, h, g, w, want)
	require.NoError(x.t, p.End(x.t.Context()))
	return out
}

// TestTies: with few different logits, any number of best tokens is sorted by logit and then by id, for one row and
// several, with and without all logits, and for any division of the vocabulary into chunks and of the chunks among
// workers.
func TestTies(t *testing.T) {
	racing.Spare(t)
	each(t, func(x *fixture, _ float64) {
		const dim, kinds = 32, 5
		g, _ := x.normOf(dim)
		h := x.tensorOf(3, dim)
		vocabs, ks := []int{1, 2, 300, chunk - 1, chunk, chunk + 1, 3*chunk + 77}, []int{1, 2, 64, 256, chunk + 5}
		if testing.Short() {
			vocabs, ks = []int{2, chunk, chunk + 1}, []int{2, chunk + 5}
		}
		for _, vocab := range vocabs {
			pick := make([]int, vocab)
			for i := range pick {
				pick[i] = x.r.IntN(kinds)
			}
			for _, kind := range []gguf.Type{gguf.F32, gguf.Q8_0} {
				w := x.tied(kind, kinds, dim, pick)
				for _, k := range append(slices.Clone(ks), vocab+3) {
					for _, rows := range [][]int{{1}, {0, 1, 2}} {
						out := x.head(h, g, w, backend.Want{Rows: rows, K: k, Logits: true})
						for i, o := range x.head(h, g, w, backend.Want{Rows: rows, K: k}) {
							require.Nil(t, o.Logits)
							require.Nil(t, o.Hidden)
							require.Equal(t, out[i].Top, o.Top, "with and without logits")
						}
						for _, o := range out {
							require.Len(t, o.Logits, vocab)
							checkSums(t, o, min(k, vocab))
						}
					}
				}
			}
		}
	})
}

// TestHeadSums: the sums over several chunks are right for logits of any size: far apart, all equal, all small.
func TestHeadSums(t *testing.T) {
	each(t, func(x *fixture, _ float64) {
		const dim, vocab = 32, 2*chunk + 5
		ones := make([]float32, dim)
		for i := range ones {
			ones[i] = 1
		}
		g, err := x.d.LoadNorm(stored(ones, dim), 0)
		require.NoError(t, err)
		h := holding(t, x.d, 1, dim, ones)
		for name, logit := range map[string]func(i int) float32{
			"far apart":          func(i int) float32 { return float32(i%7) * 100 },
			"one stands out":     func(i int) float32 { return map[bool]float32{true: 90}[i == chunk+3] },
			"the last chunk":     func(i int) float32 { return float32(i / chunk * 40) },
			"the first chunk":    func(i int) float32 { return float32(-i / chunk * 500) },
			"all equal":          func(int) float32 { return 3 },
			"all far below zero": func(i int) float32 { return -2000 - float32(i%3) },
		} {
			f := make([]float32, vocab*dim)
			for i := range vocab {
				f[i*dim] = logit(i)
			}
			w, err := x.d.LoadWeight(stored(f, dim, vocab), nil)
			require.NoError(t, err)
			o := x.head(h, g, w, backend.Want{Rows: []int{0}, K: 2, Logits: true})[0]
			sum, weighted := 0.0, 0.0
			for i, l := range o.Logits {
				require.InDelta(t, logit(i), l, 1e-3, name)
				e := math.Exp(float64(l) - float64(o.Top[0].Logit))
				sum += e
				weighted += e * float64(l)
			}
			lse := float64(o.Top[0].Logit) + math.Log(sum)
			assert.InDelta(t, lse, o.LogSumExp, 1e-3, name)
			assert.InDelta(t, lse-weighted/sum, o.Entropy, 1e-2, name)
			assert.GreaterOrEqual(t, o.Entropy, float32(0), name)
		}
	})
}

// TestHeadOutputs: requested outputs use the memory of the output if that is large enough, and earlier contents are
// cleared.
func TestHeadOutputs(t *testing.T) {
	each(t, func(x *fixture, _ float64) {
		const dim = 32
		g, _ := x.normOf(dim)
		h := x.tensorOf(6, dim)
		w, _ := x.weightOf(50, dim)
		want := backend.Want{Rows: []int{0, 2, 5}, K: 60, Logits: true, Hidden: true}
		first := x.head(h, g, w, want)
		for _, room := range []int{3, 500} {
			out := make([]backend.Output, 3)
			for i := range out {
				out[i] = backend.Output{
					Top: make([]backend.Candidate, room), Logits: x.floats(room), Hidden: x.floats(room),
					LogSumExp: 7, Entropy: 7, Confidence: 0.5,
				}
			}
			logits, hidden, top := &out[1].Logits[0], &out[1].Hidden[0], &out[1].Top[0]
			p := x.d.Begin(x.kv(6, gguf.F32), rowsAt(6))
			p.Head(out, h, g, w, want)
			require.NoError(t, p.End(t.Context()))
			for i := range out {
				assert.EqualValues(t, 0.5, out[i].Confidence, "not requested")
				out[i].Confidence = 0
			}
			assert.Equal(t, first, out)
			kept := []bool{logits == &out[1].Logits[0], hidden == &out[1].Hidden[0], top == &out[1].Top[0]}
			assert.Equal(t, slices.Repeat([]bool{room == 500}, 3), kept, "memory of the caller")
		}
		p := x.d.Begin(x.kv(6, gguf.F32), rowsAt(6))
		p.Head(nil, h, g, w, backend.Want{K: 1})
		require.NoError(t, p.End(t.Context()), "no row is requested")
		for _, r := range want.Rows { // alone
			alone := x.head(h, g, w, backend.Want{Rows: []int{r}, K: 60, Logits: true, Hidden: true})[0]
			assert.Equal(t, first[slices.Index(want.Rows, r)], alone, fmt.Sprint("row ", r))
		}
	})
}

// TestEntropyIsNotNegative: if one token has almost all of the probability, rounding does not make the entropy
// negative.
func TestEntropyIsNotNegative(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	below := 0
	for range 3000 {
		first := float32(r.NormFloat64() * 40000)
		var parts []chunkSums
		for range 2 {
			logits := []float32{first, first - 8 - 40*r.Float32(), first - 8 - 40*r.Float32()}
			p := chunkSums{top: appendBest(nil, logits, 0, 1), max: first}
			p.sum, p.sumX = sumExp(logits, first)
			parts = append(parts, p)
			first -= 20 + 30*r.Float32()
		}
		var o backend.Output
		mergeChunks(&o, parts, 1)
		require.GreaterOrEqual(t, o.Entropy, float32(0))
		if o.Entropy == 0 {
			below++
		}
	}
	assert.Positive(t, below, "some are close")
}
