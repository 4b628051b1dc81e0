package outcome

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
)

// BreakEven is the round trip at which a mode takes as long as another one, from a sweep, with linear interpolation
// between the measured round trips. The interval is a paired bootstrap at 95% over questions, and absent if five
// percent or more of the draws have no such round trip.
type BreakEven struct {
	Mode    string   `json:"mode"`
	Variant int      `json:"variant,omitempty"`
	With    string   `json:"with"` // local or cloud
	Loss    float64  `json:"loss"`
	Trace   string   `json:"trace,omitempty"`
	EdgeTPS float64  `json:"edge_tps"`
	RTT     *float64 `json:"rtt_ms,omitempty"`
	Low     *float64 `json:"rtt_low_ms,omitempty"`
	High    *float64 `json:"rtt_high_ms,omitempty"`
	Faster  string   `json:"faster,omitempty"` // on which side of that round trip the mode is faster: below or above
	Reason  string   `json:"reason,omitempty"` // why there is none
}

// BreakEvens computes the break-even points of a sweep: for each mode, with local and with cloud, for each loss, trace
// and pace with two round trips or more.
func BreakEvens(all []Report) (found []BreakEven) {
	type key struct {
		mode    string
		variant int
		cell    Cell
	}
	groups := map[key][]*Report{}
	var order []key
	for i := range all {
		r := &all[i]
		k := key{r.Mode, r.Variant, *r.Cell}
		k.cell.RTT = 0
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	for _, group := range groups {
		slices.SortFunc(group, func(a, b *Report) int { return cmp.Compare(a.Cell.RTT, b.Cell.RTT) })
	}
	for _, k := range order {
		for _, with := range []string{"local", "cloud"} {
			if k.mode == "local" || k.mode == "cloud" || len(groups[k]) < 2 {
				continue
			}
			other := groups[key{with, 0, k.cell}]
			if other == nil {
				other = groups[key{with, 1, k.cell}] // it was measured more than once
			}
			if len(other) == len(groups[k]) {
				b := BreakEven{Mode: k.mode, Variant: k.variant, With: with, Loss: k.cell.Loss, Trace: k.cell.Trace,
					EdgeTPS: k.cell.EdgeTPS}
				b.find(groups[k], other)
				found = append(found, b)
			}
		}
	}
	return found
}

// find sets the round trip from the reports of the two modes, both in ascending order of their round trips.
func (b *BreakEven) find(this, that []*Report) {
	var rtts []float64
	var mine, theirs [][]float64
	n := math.MaxInt
	for i := range this {
		rtts = append(rtts, this[i].Cell.RTT)
		mine, theirs = append(mine, this[i].byQuestion()), append(theirs, that[i].byQuestion())
		n = min(n, len(mine[i]), len(theirs[i]))
	}
	slower := make([]float64, len(rtts))
	none, draws := 0, 0
	v := stats.Bootstrap(n, 1, func(weight []int) []float64 {
		for i := range slower {
			slower[i] = stats.Weighted(mine[i], weight) - stats.Weighted(theirs[i], weight)
		}
		at, faster := crossing(rtts, slower)
		if draws++; draws == 1 {
			b.Faster = faster
		}
		if math.IsNaN(at) {
			none++
		}
		return []float64{at}
	})[0]
	if b.Faster == "" {
		b.Reason = fmt.Sprintf("%s at all round trips, %v to %v ms",
			map[bool]string{true: "slower", false: "as fast or faster"}[slower0(mine[0], theirs[0])],
			rtts[0], rtts[len(rtts)-1])
		return
	}
	b.RTT = &v.Value
	if n > 1 && none*20 < draws {
		b.Low, b.High = &v.Low, &v.High
	}
}

// slower0 reports whether the times of one are longer on average.
func slower0(one, other []float64) bool {
	sum := 0.0
	for i := range min(len(one), len(other)) {
		sum += one[i] - other[i]
	}
	return sum > 0
}

// crossing returns the first x at which the line through the points changes its sign, and on which side of it y is not
// above 0: below or above. It returns NaN if there is none.
func crossing(x, y []float64) (at float64, faster string) {
	for i := 1; i < len(x); i++ {
		if (y[i-1] > 0) == (y[i] > 0) {
			continue
		}
		if faster = "below"; y[i-1] > 0 {
			faster = "above"
		}
		return x[i-1] + (x[i]-x[i-1])*y[i-1]/(y[i-1]-y[i]), faster
	}
	return math.NaN(), ""
}
