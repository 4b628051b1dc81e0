package eval

import (
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// NonInferior is the minimum ratio of accuracies that counts as no worse than the large model alone.
const NonInferior = 0.95

// Versus compares a run with another one on the same questions. The intervals are those of the paired bootstrap.
type Versus struct {
	Ratio    *stats.Interval `json:"ratio,omitempty"` // of the accuracies; absent if the other has no right answers
	OnlyThis int             `json:"only_this"`       // questions that only this run has right
	OnlyThat int             `json:"only_that"`       // and only the other one
}

// McNemar returns the p-value of McNemar's test, exact and two-sided.
func (v *Versus) McNemar() float64 { return stats.McNemar(v.OnlyThis, v.OnlyThat) }

// NonInferior reports whether the lower end of the ratio's interval is at least [NonInferior].
func (v *Versus) NonInferior() bool { return v.Ratio != nil && v.Ratio.Low >= NonInferior }

// Area describes the curve of a policy: its quality against the share of tokens from the large model, interpolated
// linearly between its runs and those of the small and the large model alone. Quality is the accuracy, or for answers
// that are not graded the agreement with the large model.
type Area struct {
	Policy   string
	From, To float64 // the range of shares that the curves of all policies cover
	At       []At
}

// At is the quality of a policy at one share.
type At struct {
	Share   float64                   `json:"share"`
	Quality stats.Interval            `json:"quality"`
	Minus   map[string]stats.Interval `json:"minus"` // by other policy
}

func atShares() []float64 { return []float64{0.03, 0.05, 0.07, 0.1, 0.2, 0.3} }

func rivals() []router.Policy { return []router.Policy{router.Random, router.Margin, router.Entropy} }

// columns are the contributions of one run to the sums of a resample, by question.
type columns struct{ right, graded, agreeing, compared, cloud, tokens []float64 }

// resample has the figures of the runs if each question counts as often as it was drawn.
type resample struct {
	accuracy, agreement, share []float64 // by run
	curves                     map[router.Policy]stats.Curve
}

// curveQuality returns the figure of the curves: the accuracy, or the agreement if answers are not graded.
func (t *table) curveQuality(s *resample) []float64 {
	if t.graded {
		return s.accuracy
	}
	return s.agreement
}

// comparison collects statistics and their destinations.
type comparison struct {
	of    []func(*resample) float64
	sinks []func(stats.Interval)
}

func (c *comparison) addStatistic(sink func(stats.Interval), of func(*resample) float64) {
	c.of, c.sinks = append(c.of, of), append(c.sinks, sink)
}

// addComparisons computes all statistics that need the bootstrap.
func (t *table) addComparisons(r *Report) {
	var c comparison
	for i := range t.runs {
		one := &r.Runs[i]
		c.addStatistic(func(v stats.Interval) {
			if !math.IsNaN(v.Value) {
				one.Agreement = &v
			}
		}, func(s *resample) float64 { return s.agreement[i] })
		if t.graded {
			t.compareWith(&c, one, i, router.Always, t.large)
			t.compareWith(&c, one, i, router.Never, t.never)
			t.addRecoveredGap(&c, i, &one.Gap)
		}
	}
	r.Policies = t.policyAreas(&c)
	for i, v := range stats.Bootstrap(len(t.questions), 1, t.resampleFunc(c.of)) {
		c.sinks[i](v)
	}
	for i, run := range t.runs {
		at := slices.IndexFunc(r.Policies, func(a Area) bool { return a.Policy == string(run.Policy) })
		if at >= 0 && run.onlyAsks() {
			r.Runs[i].Curve = r.Policies[at].At
		}
	}
}

// compareWith compares a run with that of a model alone, if there is one, and it is another.
func (t *table) compareWith(c *comparison, one *RunReport, run int, name router.Policy, with int) {
	if with < 0 || with == run {
		return
	}
	v := new(Versus)
	for i := range t.questions {
		this, that := t.answers[run][i].Verdict == task.Right.String(),
			t.answers[with][i].Verdict == task.Right.String()
		switch {
		case this == that:
		case this:
			v.OnlyThis++
		default:
			v.OnlyThat++
		}
	}
	if one.Versus == nil {
		one.Versus = map[router.Policy]*Versus{}
	}
	one.Versus[name] = v
	c.addStatistic(func(i stats.Interval) {
		if !math.IsNaN(i.Value) {
			v.Ratio = &i
		}
	}, func(s *resample) float64 {
		if s.accuracy[with] == 0 {
			return math.NaN()
		}
		return s.accuracy[run] / s.accuracy[with]
	})
}

// addRecoveredGap computes which part of the distance between the small and the large model alone a run gains: 0 for
// the small one, 1 for the large one. It stays nil for these two, if one of them is missing, and if they are equally
// good.
func (t *table) addRecoveredGap(c *comparison, run int, to **stats.Interval) {
	if t.never < 0 || t.large < 0 || run == t.never || run == t.large {
		return
	}
	c.addStatistic(func(v stats.Interval) {
		if !math.IsNaN(v.Value) {
			*to = &v
		}
	}, func(s *resample) float64 {
		small, large := s.accuracy[t.never], s.accuracy[t.large]
		if small == large {
			return math.NaN()
		}
		return (s.accuracy[run] - small) / (large - small)
	})
}

// policyAreas returns the curves of the policies, over the range of shares that all of them cover.
func (t *table) policyAreas(c *comparison) []Area {
	curves := t.computeResample(t.runColumns(), slices.Repeat([]int{1}, len(t.questions))).curves
	from, to := 0.0, 1.0
	var policies []router.Policy
	for _, run := range t.runs {
		curve := curves[run.Policy]
		if len(curve) == 0 || slices.Contains(policies, run.Policy) {
			continue
		}
		policies = append(policies, run.Policy)
		from, to = max(from, curve[0].X), min(to, curve[len(curve)-1].X)
	}
	if from >= to {
		return nil
	}
	list := make([]Area, len(policies))
	for i, p := range policies {
		list[i] = Area{Policy: string(p), From: from, To: to}
		list[i].addCurveStatistics(c, p, policies)
	}
	return list
}

func (a *Area) addCurveStatistics(c *comparison, p router.Policy, policies []router.Policy) {
	against := slices.DeleteFunc(rivals(), func(r router.Policy) bool {
		return r == p || !slices.Contains(policies, r)
	})
	for _, share := range atShares() {
		if share >= a.From && share <= a.To {
			a.At = append(a.At, At{Share: share, Minus: map[string]stats.Interval{}})
		}
	}
	for i := range a.At {
		at := &a.At[i]
		c.addStatistic(func(v stats.Interval) { at.Quality = v },
			func(s *resample) float64 { return s.curves[p].At(at.Share) })
		for _, r := range against {
			c.addStatistic(func(v stats.Interval) { at.Minus[string(r)] = v },
				func(s *resample) float64 { return s.curves[p].At(at.Share) - s.curves[r].At(at.Share) })
		}
	}
}

// resampleFunc returns the function for [stats.Bootstrap].
func (t *table) resampleFunc(of []func(*resample) float64) func(weight []int) []float64 {
	columns := t.runColumns()
	return func(weight []int) []float64 {
		s := t.computeResample(columns, weight)
		values := make([]float64, len(of))
		for i, f := range of {
			values[i] = f(s)
		}
		return values
	}
}

func (t *table) runColumns() []columns {
	all := make([]columns, len(t.runs))
	for run, answers := range t.answers {
		c := &all[run]
		for _, a := range answers {
			right, graded := 0.0, 0.0
			if a.Verdict != "" {
				graded = 1
			}
			if a.Verdict == task.Right.String() {
				right = 1
			}
			cloud := a.cloudTokenCount()
			c.right, c.graded = append(c.right, right), append(c.graded, graded)
			c.agreeing = append(c.agreeing, float64(cloud+a.Audited-len(a.Missed)))
			c.compared = append(c.compared, float64(cloud+a.Audited))
			c.cloud = append(c.cloud, float64(a.cloudChoiceCount(t.runs[run])))
			c.tokens = append(c.tokens, float64(len(a.Origins)))
		}
	}
	return all
}

func (t *table) computeResample(all []columns, weight []int) *resample {
	n := len(all)
	s := &resample{make([]float64, n), make([]float64, n), make([]float64, n), map[router.Policy]stats.Curve{}}
	for i, c := range all {
		s.accuracy[i] = weightedQuotient(weight, c.right, c.graded)
		s.agreement[i] = weightedQuotient(weight, c.agreeing, c.compared)
		s.share[i] = weightedQuotient(weight, c.cloud, c.tokens)
	}
	quality := t.curveQuality(s)
	points := map[router.Policy][]stats.Point{}
	for i, r := range t.runs {
		if i != t.never && i != t.always && r.onlyAsks() {
			points[r.Policy] = append(points[r.Policy], stats.Point{X: s.share[i], Y: quality[i]})
		}
	}
	for p, list := range points {
		for _, end := range []int{t.never, t.always} {
			if end >= 0 {
				list = append(list, stats.Point{X: s.share[end], Y: quality[end]})
			}
		}
		s.curves[p] = stats.NewCurve(list)
	}
	return s
}

// weightedQuotient returns the weighted sum of a divided by that of b; NaN if both are 0.
func weightedQuotient(weight []int, a, b []float64) float64 {
	return stats.Weighted(a, weight) / stats.Weighted(b, weight)
}
