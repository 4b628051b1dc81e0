package eval

import (
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// AsksCurve compares a policy that has the large model look at each token, or decode on by itself, with the same policy
// alone: quality against asks per answer, in straight lines between the runs of each, that of the policy never with the
// same verification and answers ahead included. They are compared where both have runs, as the mean height of each.
// Quality is that of [Area].
//
// With Best, it is the frontier of the whole dial, margins and none, against that of the policy alone: the best of the
// runs for so many asks or fewer. The dial has more runs to be the best of, which chance favours a little: by less than
// what the intervals of single runs span.
type AsksCurve struct {
	Policy string   `json:"policy"`
	Verify *float64 `json:"verify,omitempty"`          // margin in nats; absent: none, or all
	Best   bool     `json:"best_of_margins,omitempty"` // of all margins
	Ahead  int      `json:"ahead"`
	From   float64  `json:"from"` // asks per answer that both curves reach
	To     float64  `json:"to"`
	// mean quality over these, of this curve and of the policy alone
	Area   stats.Interval `json:"area"`
	Router stats.Interval `json:"area_router"`
	// by how much this one is the higher. Each draw of the bootstrap compares over the asks that
	// both curves reach in it
	Minus stats.Interval `json:"area_minus_router"`
}

// of reports whether a run is one of the curve.
func (a *AsksCurve) of(r Run) bool {
	return a.Policy == string(r.Policy) && a.dial() == r.dial()
}

func (a *AsksCurve) dial() dial {
	d := Run{Verify: a.Verify, Ahead: a.Ahead}.dial()
	d.any = a.Best
	return d
}

// dials are the curves of all policies with verification or answers ahead that share a range of asks with the policy
// alone.
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

// pair is a curve, and that of the policy alone.
func (t *table) pair(s *resample, a *AsksCurve) (this, alone stats.Curve) {
	policy := router.Policy(a.Policy)
	this, alone = t.against(s, policy, a.dial()), t.against(s, policy, dial{ahead: 1})
	if a.Best {
		return this.Frontier(), alone.Frontier()
	}
	return this, alone
}

// against is the curve of quality against asks of a policy's runs with a dial.
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

// shared is the range that two curves have in common.
func shared(a, b stats.Curve) (from, to float64, ok bool) {
	if len(a) == 0 || len(b) == 0 {
		return 0, 0, false
	}
	from, to = max(a[0].X, b[0].X), min(a[len(a)-1].X, b[len(b)-1].X)
	return from, to, from < to
}
