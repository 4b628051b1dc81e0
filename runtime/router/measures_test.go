package router

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// hand returns a set that is small enough for computing by hand.
func hand() []Verdict {
	return []Verdict{{0.95, true}, {0.125, false}, {0.8, true}, {0.8, false}, {1, true}}
}

func TestMeasures(t *testing.T) {
	all := hand()
	assert.InDelta(t, (2+1.5+2)/6.0, AUC(all), 1e-9)
	assert.Equal(t, hand(), all, "unchanged")
	assert.InDelta(t, -(math.Log(0.95)+math.Log(0.875)+math.Log(0.8)+math.Log(0.2)+0)/5, CrossEntropy(all), 1e-6)
	sure := CrossEntropy([]Verdict{{1, false}})
	assert.InDelta(t, -math.Log(1e-7), sure, 1e-9, "a confident error has a large but finite loss")
	b := Reliability(all)
	assert.Len(t, b, 10)
	assert.Equal(t, Bin{Low: 0.2, High: 0.3}, b[2])
	assert.Equal(t, 2, b[9].Tokens, "1 belongs to the last bin")
	assert.InDelta(t, 0.975, b[9].Confidence, 1e-6)
	assert.InDelta(t, 1, b[9].Stand, 1e-9)
	assert.Equal(t, 2, b[8].Tokens)
	assert.InDelta(t, 0.5, b[8].Stand, 1e-9)
	assert.InDelta(t, (2*0.025+2*0.3+0.125)/5, CalibrationError(b), 1e-6)
	assert.True(t, math.IsNaN(AUC(all[:1])), "a single class has no order")
}

func TestRankingAt(t *testing.T) {
	var got []Point
	for _, t := range []float64{0, 0.5, 0.8, 0.85, 1} {
		got = append(got, Rank(hand()).At(t))
	}
	for i, share := range []float64{0, 0.2, 0.2, 0.6, 0.8} {
		assert.InDelta(t, share, got[i].Share, 1e-12, "below the threshold, not at it")
	}
	assert.True(t, math.IsNaN(got[0].Precision))
	assert.InDelta(t, 0, got[0].Recall, 0)
	assert.InDelta(t, 1, got[1].Precision, 0)
	assert.InDelta(t, 0.5, got[1].Recall, 0)
	assert.InDelta(t, 2.0/3, got[3].Precision, 1e-9)
	assert.InDelta(t, 1, got[3].Recall, 0)
	assert.InDelta(t, 0.5, got[4].Threshold/2, 0)
}

// TestThreshold: the threshold for a share never selects more, and selects all but fewer than the ties that it cannot
// separate.
func TestThreshold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]Verdict, 1000)
	for i := range all {
		all[i] = Verdict{r.Float32(), r.Float32() < 0.5}
	}
	rank := Rank(all)
	for _, share := range []float64{0, 0.07, 0.5, 0.999} {
		assert.InDelta(t, share, rank.At(rank.Threshold(share)).Share, 1e-9)
	}
	assert.InDelta(t, 1, rank.Threshold(1), 0)
	hundred := make([]Verdict, 100)
	for i := range hundred {
		hundred[i].Confidence = float32(i) / 100
	}
	rank = Rank(hundred)
	for i := range 100 { // also if rounding makes 100 times 0.29 a little less than 29
		assert.InDelta(t, float64(i)/100, rank.At(rank.Threshold(float64(i)/100)).Share, 1e-12)
	}
	rank = Rank(hand())
	assert.InDelta(t, 0.2, rank.At(rank.Threshold(0.5)).Share, 1e-9, "two that are equal stay together")
}

// TestAUCIsTheChance: the computation by ranks equals the share of pairs in the right order.
func TestAUCIsTheChance(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	all := make([]Verdict, 200)
	for i := range all {
		all[i] = Verdict{float32(r.IntN(20)) / 20, r.Float32() < 0.7}
	}
	won, pairs := 0.0, 0.0
	for _, a := range all {
		for _, b := range all {
			if !a.Stands || b.Stands {
				continue
			}
			pairs++
			switch {
			case a.Confidence > b.Confidence:
				won++
			case a.Confidence == b.Confidence:
				won += 0.5
			}
		}
	}
	assert.InDelta(t, won/pairs, AUC(all), 1e-12)
}
