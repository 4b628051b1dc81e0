package lookup

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestText: a text learns from each appended token whether the index would have found it, whatever else was searched
// meanwhile. It learns nothing from tokens that are only added, nor without a match.
func TestText(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var text Text
	var index Index
	var rate Rate
	text.Append(1, 2, 3, 1, 2)
	index.Append(1, 2, 3, 1, 2)
	held := 0
	for range 2000 {
		for range r.IntN(3) { // these find other things
			text.Find([]int32{int32(r.IntN(4))}, 3)
			text.Find(nil, r.IntN(3))
		}
		token, guessable := int32(r.IntN(4)), r.IntN(5) > 0
		if length, next := index.Find(nil, 1); length > 0 {
			rate.Learn(length, guessable && next[0] == token)
			if guessable && next[0] == token {
				held++
			}
		}
		text.Grow(token, guessable)
		index.Append(token)
		require.Equal(t, index.Len(), text.Len())
		require.Equal(t, rate, *text.Rate())
	}
	assert.Greater(t, held, 300)
	before := *text.Rate()
	text.Append(1, 2, 3)
	assert.Equal(t, before, *text.Rate())
}
