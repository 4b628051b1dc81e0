package lookup

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everyWay returns the expected number of tokens of a call with n drafts: the sum over all outcomes of the drafts.
func everyWay(accept float64, n int) (tokens float64) {
	for outcome := range 1 << n {
		p, run := 1.0, 0
		for i := range n {
			if outcome>>i&1 == 1 {
				p *= accept
			} else {
				p *= 1 - accept
			}
		}
		for run < n && outcome>>run&1 == 1 {
			run++
		}
		tokens += p * float64(run+1)
	}
	return tokens
}

// FuzzLength: no other number of drafts brings more tokens for the time, by the sum over all outcomes; and there are
// none for less than 15%.
func FuzzLength(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 9))
		accept, draft := r.Float64(), 1.2*r.Float64()*r.Float64()
		curve := []float64{1}
		for n := r.IntN(8); len(curve) <= n; {
			curve = append(curve, curve[len(curve)-1]+r.Float64()*r.Float64())
		}
		n, rate := Length(accept, draft, curve)
		best, at := 0.0, 0
		for k := range curve {
			got := everyWay(accept, k) / (float64(k)*draft + curve[k])
			if k == n {
				require.InDelta(t, got, rate, 1e-9)
			}
			if got > best {
				best, at = got, k
			}
		}
		if best > draftGain+1e-9 {
			assert.Equal(t, at, n)
		} else if best < draftGain-1e-9 {
			assert.Zero(t, n)
		}
	})
}

// TestDraftRates: each level of probability has its own rate, which follows what is observed and forgets.
func TestDraftRates(t *testing.T) {
	var d Drafts
	assert.InDelta(t, assumedDrafts+0.25, d.Next(), 1e-9, "optimistic before the first")
	for _, p := range []float64{0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.96, 0.99, 1} {
		assert.InDelta(t, p, d.Of(p), 0.151)
	}
	assert.Equal(t, rarest, d.Of(math.NaN()))
	var one Drafts
	one.Learn(0.6, true)
	const keep = 1 - 1./draftMemory
	assert.InDelta(t, (priorWeight*0.6*keep+1)/(priorWeight*keep+1), one.Of(0.6), 1e-12, "one more than was assumed")
	for i := range 200 {
		d.Learn(0.99, true)
		d.Learn(0.6, i%2 == 0)
	}
	assert.InDelta(t, 1, d.Of(0.985), 0.01)
	assert.InDelta(t, 0.5, d.Of(0.69), 0.02)
	assert.InDelta(t, 0.75+0.5/math.Sqrt(draftMemory), d.Next(), 0.02)
	assert.InDelta(t, 0.4, d.Of(0.4), 0, "another level")
	assert.Equal(t, d.Of(0.7), d.Of(0.75), "a bound belongs to the level above it")
	for range 150 {
		d.Learn(0.99, false)
	}
	assert.Less(t, d.Of(0.98), 0.1)
	assert.Less(t, d.Next(), 0.15)
	for range 1000 {
		d.Learn(0.99, true)
	}
	assert.Equal(t, surest, d.Next(), "never certain")
	assert.Equal(t, surest, d.Of(0.99), "never certain")
	for range 1000 {
		d.Learn(0.99, false)
	}
	assert.Equal(t, rarest, d.Of(0.99), "never impossible")
}
