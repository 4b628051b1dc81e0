package host

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
)

// ruleSizes are numbers of rows and columns of a state: those of Qwen3.5, and odd ones.
var ruleSizes = [][2]int{{128, 128}, {12, 20}, {1, 1}, {7, 64}, {24, 72}, {64, 192}}

// closeTo compares each sum of products with the exact one, where size is the sum of their absolute values.
func closeTo(t *testing.T, want, got []float32, size float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.InDelta(t, want[i], got[i], 4e-6*size, "element %d", i)
	}
}

// TestDeltaProducts: products with a matrix are close to the exact ones, and have the same bits for any number of
// tokens.
func TestDeltaProducts(t *testing.T) {
	fast, exact := fastDeltaRule(), exactDeltaRule()
	for _, size := range ruleSizes {
		rows, cols := size[0], size[1]
		for tokens := 1; tokens <= chunkTokens; tokens++ {
			t.Run(fmt.Sprint(size, tokens), func(t *testing.T) {
				in := kerneltest.NewInputs(t, uint64(tokens), 0)
				x, m := in.Floats((2*tokens+vector.Queries)*rows), in.Floats(rows*cols)
				want, got := make([]float32, 2*tokens*cols), in.Floats((2*tokens+vector.Queries)*cols)
				exact.products(want, x, m, tokens, cols)
				fast.project(got, x, m, tokens, cols)
				closeTo(t, want, got[:len(want)], math.Sqrt(float64(rows)))
				for i := range tokens {
					one := in.Floats((2 + vector.Queries) * cols)
					fast.products(one, x[2*i*rows:], m, 1, cols)
					require.Equal(t, one[:2*cols], got[2*i*cols:][:2*cols], "token %d", i)
				}
				fast.project(got, x, nil, tokens, cols)
				require.Equal(t, make([]float32, len(want)), got[:len(want)], "of a zero state")
			})
		}
	}
}

// TestDeltaSums compares what the rule computes from decays, scores and errors with the exact results.
func TestDeltaSums(t *testing.T) {
	fast, exact := fastDeltaRule(), exactDeltaRule()
	for _, size := range ruleSizes {
		rows, cols := size[0], size[1]
		for n := 1; n <= chunkTokens; n++ {
			t.Run(fmt.Sprint(size, n), func(t *testing.T) {
				in := kerneltest.NewInputs(t, uint64(n), 0)
				logs := in.Floats(n)
				slices.SortFunc(logs, func(a, b float32) int { return int(math.Copysign(1, float64(b-a))) })
				since, wantSince := make([]float32, n+1), make([]float32, n+1)
				whole, wantWhole := fast.decay(since, logs), exact.decay(wantSince, logs)
				assert.InEpsilon(t, wantWhole, whole, 1e-6)
				closeTo(t, wantSince[:n], since[:n], 1)

				x, state, v := in.Floats(2*rows), in.Floats(rows*cols), in.Floats(cols)
				products := make([]float32, 2*cols)
				exact.products(products, x, state, 1, cols)
				sum := deltaSum{
					state: state, x: x[:rows], product: products[:cols], whole: whole, scores: in.Floats(n),
					since: since[:n], errors: in.Floats(n * cols), weights: make([]float32, n+1),
				}
				for _, terms := range []int{n, 0} {
					sum.scores, sum.since = sum.scores[:terms], sum.since[:terms]
					got, want := make([]float32, cols), make([]float32, cols)
					fast.read(got, sum)
					exact.read(want, sum)
					closeTo(t, want, got, float64(rows+n))
					fast.correct(got, v, 0.3, sum)
					exact.correct(want, v, 0.3, sum)
					closeTo(t, want, got, float64(rows+n))
				}
			})
		}
	}
}

// TestDeltaAdd compares a state after a chunk with the exact one. It may replace the state before.
func TestDeltaAdd(t *testing.T) {
	fast, exact := fastDeltaRule(), exactDeltaRule()
	for _, size := range ruleSizes {
		rows, cols := size[0], size[1]
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			in := kerneltest.NewInputs(t, 9, 0)
			keys, errors, since := in.Floats(rows*chunkTokens), in.Floats(cols*chunkTokens), in.Floats(chunkTokens+1)
			state, scaled := in.Floats(rows*cols), make([]float32, cols*chunkTokens)
			for _, before := range [][]float32{nil, state} {
				want, got := make([]float32, len(state)), in.Floats(len(state))
				exact.add(want, before, 0.7, keys, errors, since, nil)
				fast.add(got, before, 0.7, keys, errors, since, scaled)
				closeTo(t, want, got, chunkTokens)
				if before != nil {
					fast.add(before, before, 0.7, keys, errors, since, scaled)
					require.Equal(t, got, before, "in place")
				}
			}
		})
	}
}
