package terms

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestPossible: a model that gives all tokens allows all sampling settings, and one that gives fewer allows those that
// need no other token; with more tokens, more is possible.
func TestPossible(t *testing.T) {
	for _, temperature := range []float64{0, 0.7} {
		for topK := range 8 {
			s := Sampling{Temperature: temperature, TopK: topK}
			assert.True(t, s.Possible(0), "%+v", s)
			before := false
			for choices := 1; choices < 8; choices++ {
				drawnFrom := topK
				switch {
				case s.Greedy():
					drawnFrom = 1
				case topK == 0:
					drawnFrom = math.MaxInt
				}
				got := s.Possible(choices)
				assert.Equal(t, drawnFrom <= choices, got, "%+v of %d", s, choices)
				assert.True(t, got || !before, "%+v of %d", s, choices)
				before = got
			}
		}
	}
}

// TestBehind: tokens ahead follow the answer, or the first finding if each choice is verified.
func TestBehind(t *testing.T) {
	context, audit := []int32{1, 2, 3, 4}, []Finding{{Pos: 2, Token: 9}, {Pos: 3, Token: 8}}
	for _, v := range []Verify{AsItComes, EachChoice, EachScore} {
		text, token := Behind(context, 7, v, nil)
		assert.Equal(t, context, text)
		assert.EqualValues(t, 7, token)
		text, token = Behind(context, 7, v, audit)
		if v == EachChoice {
			assert.Equal(t, []int32{1, 2}, text)
			assert.EqualValues(t, 9, token)
		} else {
			assert.Equal(t, context, text)
			assert.EqualValues(t, 7, token)
		}
	}
}
