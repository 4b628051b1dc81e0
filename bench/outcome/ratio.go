package outcome

import (
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// Ratio is the mean time per answer divided by that of another mode, with a bootstrap interval at 95% over questions.
// The bootstrap is paired: each draw has the same questions for both. With fewer than two questions there is no
// interval.
type Ratio struct {
	Mode  string   `json:"mode"` // the other one
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

// ratios sets the ratio of each report to the mode local, or if that was not measured to the first.
func ratios(all []Report) {
	base := max(0, slices.IndexFunc(all, func(r Report) bool { return r.Mode == "local" }))
	byQuestion := make([][]float64, len(all))
	for i, r := range all {
		byQuestion[i] = r.byQuestion()
	}
	intervals := stats.Bootstrap(len(byQuestion[base]), 1, func(weight []int) []float64 {
		sums := make([]float64, len(all))
		for i := range all {
			sums[i] = stats.Weighted(byQuestion[i], weight)
		}
		below := sums[base]
		for i := range sums {
			sums[i] /= below
		}
		return sums
	})
	for i, v := range intervals {
		if i == base {
			continue
		}
		all[i].RatioTo = &Ratio{Mode: all[base].Mode, Value: v.Value}
		if len(byQuestion[base]) > 1 {
			all[i].RatioTo.Low, all[i].RatioTo.High = &v.Low, &v.High
		}
	}
}

// byQuestion returns the mean time of the repetitions of each answered question, in milliseconds, in the order of the
// questions.
func (r *Report) byQuestion() []float64 {
	var sums, counts []float64
	for _, s := range r.Samples {
		for len(sums) <= s.Question {
			sums, counts = append(sums, 0), append(counts, 0)
		}
		sums[s.Question] += s.MS
		counts[s.Question]++
	}
	var means []float64
	for q, n := range counts {
		if n > 0 {
			means = append(means, sums[q]/n)
		}
	}
	return means
}

// bound sets a lower bound of the time, for modes that verify every token and draft meanwhile. It is the time of the
// small model alone for each forward pass that a text of this length needs, if each draft is right, and then verdict,
// the wait for the verification of the last token: a round trip and a token of the large model. With tokens ahead it is
// at most the time of the large model's own text, if the mode cloud was measured. It needs the mode local.
func bound(all []Report, verdict time.Duration) {
	i := slices.IndexFunc(all, func(r Report) bool { return r.Mode == "local" })
	if i < 0 {
		return
	}
	alone, calls := 0.0, 0
	for _, s := range all[i].Samples {
		alone, calls = alone+s.MS, calls+s.Passes
	}
	var streamed []Sample
	if i := slices.IndexFunc(all, func(r Report) bool { return r.Mode == "cloud" }); i >= 0 {
		streamed = all[i].Samples
	}
	for k := range all {
		ahead := strings.HasPrefix(all[k].Mode, "verified")
		if !ahead && !strings.HasPrefix(all[k].Mode, "overlapped") {
			continue
		}
		sum := 0.0
		for n, s := range all[k].Samples {
			least := alone/float64(max(1, calls))*float64(min(s.Passes, s.Tokens)) + result.Milliseconds(verdict)
			if ahead && n < len(streamed) && streamed[n].Question == s.Question {
				least = min(least, streamed[n].MS)
			}
			sum += least
		}
		all[k].Bound = new(sum / float64(all[k].Answers))
	}
}
