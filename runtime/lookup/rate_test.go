package lookup

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRateAssumes: initially a longer match has a higher rate, and no rate is ever 0 or 1.
func TestRateAssumes(t *testing.T) {
	var r Rate
	for length := 2; length < 40; length++ {
		require.GreaterOrEqual(t, r.Of(length+1), r.Of(length))
		require.Positive(t, r.Of(length))
		require.Less(t, r.Of(length), 1.0)
	}
	assert.InDelta(t, 1./3, r.Of(2), 1e-9)
	for range 10_000 {
		r.Learn(2, false)
		r.Learn(3, true)
	}
	assert.Positive(t, r.Of(2))
	assert.Less(t, r.Of(3), 1.0)
}

// TestRateLearns: the rate approaches the share of accepted guesses, forgets old ones, and is separate for each length.
func TestRateLearns(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	for _, share := range []float64{0.9, 0.1, 0.5} {
		var r Rate
		r.Learn(5, share < 0.5)
		before := r.Of(6)
		sum, n := 0.0, 0
		for i := range 4000 {
			r.Learn(5, draw.Float64() < share)
			if i > 100 {
				sum, n = sum+r.Of(5), n+1
			}
		}
		assert.InDelta(t, share, sum/float64(n), 0.05)
		assert.Equal(t, before, r.Of(6))
	}
	var r Rate
	for range 100_000 {
		r.Learn(30, true)
	}
	require.Equal(t, surest, r.Of(16))
	for range 100 {
		r.Learn(17, false)
	}
	assert.Less(t, r.Of(40), 0.3, "old guesses no longer count, and long matches share one rate")
	for range 1000 {
		r.Learn(17, false)
	}
	assert.Equal(t, rarest, r.Of(17))
}
