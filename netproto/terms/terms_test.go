package terms

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSamplingRange: both ends of each range are valid, and values beyond it are named.
func TestSamplingRange(t *testing.T) {
	for _, good := range []Sampling{{}, {Temperature: math.MaxFloat64, TopK: math.MaxInt32, TopP: 1}} {
		assert.NoError(t, good.Validate())
	}
	nan, inf := math.NaN(), math.Inf(1)
	for bad, name := range map[Sampling]string{
		{Temperature: -1}: "temperature", {Temperature: nan}: "temperature", {Temperature: inf}: "temperature",
		{TopK: -1}: "top-k", {TopP: -0.1}: "top-p", {TopP: 1.1}: "top-p", {TopP: nan}: "top-p",
	} {
		assert.ErrorContains(t, bad.Validate(), name)
	}
}

// TestScored: a finding with either score makes a reply one with scores.
func TestScored(t *testing.T) {
	for want, all := range map[bool][][]Finding{
		false: {nil, {{Pos: 1, Token: 2, LogProb: -1}}},
		true:  {{{Score: -1}}, {{Stands: -2}}, {{}, {Score: 3, Stands: 1}}},
	} {
		for _, audit := range all {
			assert.Equal(t, want, Reply{Audit: audit}.Scored(), "%+v", audit)
		}
	}
}

// TestPossible: a model that gives all tokens allows all sampling settings, and one that gives fewer allows those that
// need no other token; with more tokens, more is possible.
func TestPossible(t *testing.T) {
	for _, temperature := range []float64{0, 0.7} {
		for topK := range 8 {
			s := Sampling{Temperature: temperature, TopK: topK}
			assert.Equal(t, temperature == 0 || topK == 1, s.Greedy())
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
