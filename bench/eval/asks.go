package eval

import (
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// AsksCurve compares a policy with verification, or with tokens ahead, with the same policy alone: quality against asks
// per answer, interpolated linearly between the runs of each. The runs include that of the policy never with the same
// verification and tokens ahead. The curves are compared by their mean height, over the range that both cover. Quality
// is that of [Area].
//
// With Best, it is the frontier over all margins and none, against that of the policy alone: the best of the runs with
// at most a given number of asks. The dial has more runs to choose the best from, which favours it slightly by chance:
// by less than the width of the intervals of single runs.
type AsksCurve struct {
	Policy string   `json:"policy"`
	Verify *float64 `json:"verify,omitempty"`          // margin in nats; absent: none, or all
	Best   bool     `json:"best_of_margins,omitempty"` // over all margins
	Ahead  int      `json:"ahead"`
	From   float64  `json:"from"` // range of asks per answer that both curves cover
	To     float64  `json:"to"`
	// mean quality over this range, of this curve and of the policy alone
	Area   stats.Interval `json:"area"`
	Router stats.Interval `json:"area_router"`
	// difference of the two. Each draw of the bootstrap uses the range of asks that both curves cover in it
	Minus stats.Interval `json:"area_minus_router"`
}

// of reports whether a run belongs to the curve.
func (a *AsksCurve) of(r Run) bool {
	return a.Policy == string(r.Policy) && a.dial() == r.dial()
}

func (a *AsksCurve) dial() dial {
	d := Run{Verify: a.Verify, Ahead: a.Ahead}.dial()
	d.any = a.Best
	return d
}

// dials returns the curves of all policies with verification or tokens ahead that have a common range of asks with the
// policy alone.
func (t *table) dials(c *comparison) (all []AsksCurve) {
	s := t.sample(t.columns(), ones(len(t.questions)))
	add := func(a AsksCurve) {
		if slices.ContainsFunc(all, func(b AsksCurve) bool { return b.Policy == a.Policy && b.dial() == a.dial() }) {
			return
		}
		var common bool
		if a.From, a.To, common = shared(t.pair(s, &a)); common {
			all = append(all, a)
		}
	}
	for _, r := range t.runs {
		if r.Policy == router.Never || r.Policy == router.Always {
			continue
		}
		one := AsksCurve{Policy: string(r.Policy), Verify: r.Verify, Ahead: max(r.Ahead, 1)}
		if !r.plain() {
			add(one)
		}
		if r.Verify != nil {
			one.Verify, one.Best = nil, true
			add(one)
		}
	}
	for i := range all {
		t.measure(c, &all[i])
	}
	return all
}

// measure adds the statistics of a curve.
func (t *table) measure(c *comparison, a *AsksCurve) {
	heights := func(s *resample) (this, alone float64) {
		x, y := t.pair(s, a)
		from, to, ok := shared(x, y)
		if !ok {
			return math.NaN(), math.NaN()
		}
		return x.Area(from, to), y.Area(from, to)
	}
	c.add(func(v stats.Interval) { a.Area = v }, func(s *resample) float64 { h, _ := heights(s); return h })
	c.add(func(v stats.Interval) { a.Router = v }, func(s *resample) float64 { _, h := heights(s); return h })
	c.add(func(v stats.Interval) { a.Minus = v }, func(s *resample) float64 { x, y := heights(s); return x - y })
}

// pair returns the points of a curve, and those of the policy alone.
func (t *table) pair(s *resample, a *AsksCurve) (this, alone stats.Curve) {
	policy := router.Policy(a.Policy)
	this, alone = t.against(s, policy, a.dial()), t.against(s, policy, dial{ahead: 1})
	if a.Best {
		return this.Frontier(), alone.Frontier()
	}
	return this, alone
}

// against returns the curve of quality against asks for a policy's runs with a dial.
func (t *table) against(s *resample, policy router.Policy, with dial) stats.Curve {
	var points []stats.Point
	for i, r := range t.runs {
		d := r.dial()
		if with.any {
			d.any, d.verifies, d.margin = true, false, 0
		}
		if d == with && (r.Policy == policy || r.Policy == router.Never) {
			points = append(points, stats.Point{X: s.asks[i], Y: t.quality(s)[i]})
		}
	}
	return stats.NewCurve(points)
}

// shared returns the range that two curves have in common.
func shared(a, b stats.Curve) (from, to float64, ok bool) {
	if len(a) == 0 || len(b) == 0 {
		return 0, 0, false
	}
	from, to = max(a[0].X, b[0].X), min(a[len(a)-1].X, b[len(b)-1].X)
	return from, to, from < to
}
