package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/internal/stat"
)

// The tests.
const (
	SignedRank = "signed-rank"
	RankSum    = "rank-sum"
	Single     = "single" // one figure each: no test is possible
	NoTest     = "none"   // all samples are equal
)

func comparePair(a, b *item, ignored map[string]bool, between []Difference) Pair {
	p := Pair{Of: maps.Clone(a.of), Between: between, A: a.source, B: b.source}
	maps.DeleteFunc(p.Of, func(name, _ string) bool { return ignored[name] })
	for at, text := range a.texts {
		if other, ok := b.texts[at]; ok {
			p.Texts++
			if other == text {
				p.Same++
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(a.samples), func(x, y string) int {
		return cmp.Or(cmp.Compare(metricRank(x), metricRank(y)), cmp.Compare(x, y))
	})
	for _, name := range names {
		if other := b.samples[name]; other != nil {
			m, ok := compareSeries(name, a.samples[name], other)
			if nothing := m.Test == NoTest && m.A == 0 && m.B == 0; ok && !nothing {
				p.Metrics = append(p.Metrics, m)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.single)) {
		if y, ok := b.single[name]; ok {
			p.Metrics = append(p.Metrics, compareSingle(name, a.single[name], y))
		}
	}
	return p
}

func compareSingle(name string, a, b float64) Metric {
	m := Metric{Name: name, A: a, B: b, P: 1, Adjusted: 1, Test: Single, N: [2]int{1, 1}}
	if a == b {
		m.Test = NoTest
	}
	if a != 0 {
		m.Change = new(b/a - 1)
	}
	return m
}

// metricRank sorts the time per answer first.
func metricRank(name string) int {
	if i := slices.Index([]string{"ms", "first_token_ms", "exposed_ms"}, name); i >= 0 {
		return i
	}
	return 3
}

// compareSeries compares one figure; false if the two have nothing in common.
func compareSeries(name string, a, b *series) (m Metric, ok bool) {
	if a.questions == nil || b.questions == nil {
		return compareUnpaired(name, a.values, b.values), true
	}
	x, y := commonQuestionMeans(a, b)
	if len(x) == 0 {
		return m, false
	}
	return compareSameQuestions(name, x, y), true
}

// commonQuestionMeans returns the means of the questions that both have, in the order of a.
func commonQuestionMeans(a, b *series) (x, y []float64) {
	mean := func(s *series) (order []int, of map[int]float64) {
		of, counts := map[int]float64{}, map[int]float64{}
		for i, q := range s.questions {
			if counts[q] == 0 {
				order = append(order, q)
			}
			of[q] += s.values[i]
			counts[q]++
		}
		for q, n := range counts {
			of[q] /= n
		}
		return order, of
	}
	order, first := mean(a)
	_, second := mean(b)
	for _, q := range order {
		if other, ok := second[q]; ok {
			x, y = append(x, first[q]), append(y, other)
		}
	}
	return x, y
}

func compareSameQuestions(name string, a, b []float64) Metric {
	m := Metric{Name: name, A: stat.Mean(a), B: stat.Mean(b), P: 1, Adjusted: 1, Test: NoTest,
		N: [2]int{len(a), len(b)}}
	crowd := groupLength(a, stats.MostRanks)
	a, b = blockMeans(a, crowd), blockMeans(b, crowd)
	positive := !slices.ContainsFunc(slices.Concat(a, b), func(x float64) bool { return x <= 0 })
	d, equal := make([]float64, len(a)), 0
	for i := range a {
		if d[i] = b[i] - a[i]; positive {
			d[i] = math.Log(b[i] / a[i])
		}
		if d[i] == 0 {
			equal++
		}
	}
	if m.A != 0 {
		m.Change = new(m.B/m.A - 1)
	}
	if equal == len(a) {
		return m
	}
	block := blockLength(d)
	x, y, changes := blockMeans(a, block), blockMeans(b, block), blockMeans(d, block)
	m.Test, m.P = SignedRank, stats.SignedRank(changes)
	if block *= crowd; block > 1 {
		m.Block = block
	}
	switch {
	case positive && equal == 0:
		i := stats.Middle(changes)
		m.setChange(stats.Interval{Value: math.Expm1(i.Value), Low: math.Expm1(i.Low), High: math.Expm1(i.High)})
	case m.A != 0: // the median would be 0 if most answers are unchanged
		m.setChange(stats.Bootstrap(len(x), 1, func(weight []int) []float64 {
			return []float64{stats.Weighted(y, weight)/stats.Weighted(x, weight) - 1}
		})[0])
	}
	return m
}

func compareUnpaired(name string, a, b []float64) Metric {
	m := Metric{Name: name, A: stat.Median(a), B: stat.Median(b), P: 1, Adjusted: 1, Test: NoTest,
		N: [2]int{len(a), len(b)}}
	if m.A != 0 {
		m.Change = new(m.B/m.A - 1)
	}
	all := slices.Concat(a, b)
	if slices.Max(all) == slices.Min(all) {
		return m
	}
	// one length for both: means of three values have another distribution than single ones
	if block := max(groupLength(a, stats.MostChoices/2), groupLength(b, stats.MostChoices/2)); block > 1 {
		m.Block, a, b = block, blockMeans(a, min(block, len(a))), blockMeans(b, min(block, len(b)))
	}
	m.Test, m.P = RankSum, stats.RankSum(a, b)
	if slices.Min(all) > 0 {
		i := stats.Shift(logValues(a), logValues(b))
		m.setChange(stats.Interval{Value: math.Expm1(i.Value), Low: math.Expm1(i.Low), High: math.Expm1(i.High)})
	}
	return m
}

func (m *Metric) setChange(i stats.Interval) {
	if isFinite(i.Value) {
		m.Change = &i.Value
	}
	if i.Low > -1 && isFinite(i.Low) && isFinite(i.High) {
		m.Low, m.High = &i.Low, &i.High
	}
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func logValues(x []float64) []float64 {
	all := make([]float64, len(x))
	for i, v := range x {
		all[i] = math.Log(v)
	}
	return all
}

// blockLength returns how many neighbours to combine so that the blocks are nearly independent: 1 if the correlation of
// neighbours is not significant, else twice the time over which they are correlated. It leaves at least a dozen blocks
// if there are that many values: fewer could not show that a change is real.
func blockLength(d []float64) int {
	ranks := centeredRanks(d)
	if autocorrelation(ranks, 1) < 1.64/math.Sqrt(float64(len(d))) { // nineteen in twenty of independent ones
		return 1
	}
	time := 1.0 // 1 + 2 Σ of the correlations, as long as pairs of them are positive (Geyer, Statistical Science 1992)
	for lag := 1; lag < len(d); lag += 2 {
		both := autocorrelation(ranks, lag) + autocorrelation(ranks, lag+1)
		if both <= 0 {
			break
		}
		time += 2 * both
	}
	return min(max(1, len(d)/12), int(math.Ceil(2*time)))
}

// groupLength returns how many neighbours to combine so that at most this many values are left.
func groupLength(d []float64, most int) int { return max(1, (len(d)+most-1)/most) }

// centeredRanks returns twice the ranks of values, shifted to a mean of 0.
func centeredRanks(d []float64) []float64 {
	ranks := make([]float64, len(d))
	for i, r := range stats.Ranks(d) {
		ranks[i] = float64(r - len(d) - 1)
	}
	return ranks
}

// autocorrelation returns the correlation of each value with the value lag positions later; the mean of x is 0.
func autocorrelation(x []float64, lag int) float64 {
	products, squares := 0.0, 0.0
	for i, v := range x {
		squares += v * v
		if i >= lag {
			products += v * x[i-lag]
		}
	}
	if squares == 0 {
		return 0
	}
	return products / squares
}

// blockMeans returns the means of length neighbours each, or of a few more.
func blockMeans(d []float64, length int) []float64 {
	n := len(d) / length
	all := make([]float64, n)
	for i := range all {
		all[i] = stat.Mean(d[i*len(d)/n : (i+1)*len(d)/n])
	}
	return all
}
