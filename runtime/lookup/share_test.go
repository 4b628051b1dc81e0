package lookup

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rateOf returns what Share maximizes: tokens per time of a call.
func rateOf(chains []Chain, share []int, c *Cost) float64 {
	tokens, rows := 0.0, len(chains)
	for i, chain := range chains {
		tokens += chain.Weight
		for _, h := range chain.Accept[:share[i]] {
			tokens += chain.Weight * h
			rows++
		}
	}
	return tokens / c.Curve(rows)[rows-1]
}

// each calls f with every way to distribute guesses among chains.
func each(chains []Chain, most int, f func(share []int)) {
	share := make([]int, len(chains))
	var try func(i, left int)
	try = func(i, left int) {
		if i == len(chains) {
			f(share)
			return
		}
		for share[i] = 0; share[i] <= min(left, len(chains[i].Accept)); share[i]++ {
			try(i+1, left-share[i])
		}
		share[i] = 0
	}
	try(0, most)
}

// FuzzShare: no other distribution of rows gives more tokens per time, and no guesses are made for a negligible gain.
func FuzzShare(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint8(seed%9))
	}
	f.Fuzz(func(t *testing.T, seed uint64, most uint8) {
		r := rand.New(rand.NewPCG(seed, 5))
		var c Cost
		slope := r.Float64() * r.Float64()
		learn(&c, 100, slope, exact)
		chains := make([]Chain, 1+r.IntN(3))
		for i := range chains {
			chains[i].Weight = []float64{1, r.Float64()}[r.IntN(2)]
			for p, n := 1.0, r.IntN(8); len(chains[i].Accept) < n; {
				p *= r.Float64()
				chains[i].Accept = append(chains[i].Accept, p)
			}
		}
		spare := int(most % 9)
		got := Share(chains, spare, &c)
		require.Len(t, got, len(chains))
		sum, none := 0, make([]int, len(chains))
		for i, n := range got {
			require.LessOrEqual(t, n, len(chains[i].Accept))
			sum += n
		}
		require.LessOrEqual(t, sum, spare)
		best, least := rateOf(chains, got, &c), rateOf(chains, none, &c)
		require.True(t, sum == 0 || best > least*gain)
		each(chains, spare, func(share []int) {
			rate := rateOf(chains, share, &c)
			fits := rate <= best*(1+1e-9) || sum == 0 && rate <= least*gain*(1+1e-9)
			require.True(t, fits, "%v: %v, %v: %v", got, best, share, rate)
		})
	})
}

// TestGuessingComesAndGoes: a text without repeats loses almost no time, at any cost of rows; when it begins to repeat,
// guessing resumes.
func TestGuessingComesAndGoes(t *testing.T) {
	for _, slope := range []float64{0.02, 0.1, 0.3, 1} {
		r := rand.New(rand.NewPCG(1, 2))
		x, rate, cost := new(Index), new(Rate), new(Cost)
		took, left := 0.0, 0 // accepted guesses still to come
		token := func(next int32) (rows int) {
			length, guess := x.Find(nil, 7)
			if left--; left < 0 {
				if length > 0 {
					rows = Share([]Chain{{1, rate.Chances(length, 7)}}, min(7, cost.Reach(1)-1), cost)[0]
				}
				time := 1 + slope*float64(rows)
				cost.Learn(1+rows, time)
				took, left = took+time, 0
				if rows > 0 && guess[0] == next {
					left = 1 // more would not be accepted here
				}
			}
			if length > 0 {
				rate.Learn(length, guess[0] == next)
			}
			x.Append(next)
			return rows
		}
		for range 4000 {
			token(int32(r.IntN(25)))
		}
		assert.Less(t, took, 4000/0.98, "a row for %v", slope)
		rows := 0
		for _, next := range x.text[3000:3100] {
			left = 0
			rows += token(next)
		}
		if slope < 0.5 {
			assert.Greater(t, rows, 400, "a row for %v", slope)
		} else {
			assert.Less(t, rows, 50)
		}
	}
}
