// Package compare says in what two measurements differ, by how much, and how sure that is. Lines of two files, or of
// one, are joined by what they are of: measurement, cell, mode, models and flags. What has one value in all of the
// first and another in all of the second is what is compared, and no part of that.
//
// Samples of the same questions are compared question by question, with Wilcoxon's signed ranks, others with the rank
// sums of Mann and Whitney; intervals are of all changes that the same test would not refuse. All tests of a comparison
// together are corrected (Holm), those of times per answer and those of all other figures for half of the chance each,
// so that two measurements of the same show a difference with a chance of [Options.Alpha] at most. Questions that come
// one after another may be disturbed together: where their changes are alike (autocorrelation), they count as one. What
// disturbs all of one measurement and none of the other no test can tell: let them take turns.
package compare

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// Options say how to compare. The zero value compares the variants of modes, with the usual certainty.
type Options struct {
	Alpha float64 // chance that any difference is reported where there is none, above 0 and below 1; 0 means 0.01
	By    string  // what is compared within one file; "" means "variant"
	Base  string  // its value that the others are compared with; "" means the first
}

// Report is what was found.
type Report struct {
	Alpha   float64
	Between []Difference // what is compared, beside the runs themselves
	Runs    []Difference // machine, version and flags
	Pairs   []Pair
	Alone   []string // lines that have no partner
}

// Difference is a setting that is not the same.
type Difference struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Pair are two lines that were compared.
type Pair struct {
	Of          map[string]string // what both are of
	Between     []Difference      // in what they differ, within one file
	A, B        string            // sources
	Metrics     []Metric
	Texts, Same int // of the answers to the same questions: all, and those with equal text; 0 where there are none
}

// Metric is one figure of the samples.
type Metric struct {
	Name     string   `json:"metric"`
	A        float64  `json:"a"` // mean of the questions, or median of samples that are no answers
	B        float64  `json:"b"`
	Change   *float64 `json:"change,omitempty"`      // of B over A, less 1; absent where A is 0
	Low      *float64 `json:"change_low,omitempty"`  // at 95%; absent where there are too few samples
	High     *float64 `json:"change_high,omitempty"` //
	P        float64  `json:"p"`                     // of this test alone
	Adjusted float64  `json:"p_adjusted"`            // of all together
	Differs  bool     `json:"differs"`               // at the chance that was asked for
	Test     string   `json:"test"`                  // signed-rank, rank-sum; single: no samples; none: all are equal
	N        [2]int   `json:"samples"`               // questions, or samples that are no answers, of A and B
	Block    int      `json:"block,omitempty"`       // questions that were put together, where that are more than one
}

// ErrNothing is the cause of errors about lines in which nothing is to be compared.
var ErrNothing = errors.New("there is nothing to compare")

// Files compares the lines of two files.
func Files(a, b []result.Record, o Options) (*Report, error) {
	first, err := items(a)
	if err != nil {
		return nil, err
	}
	second, err := items(b)
	if err != nil {
		return nil, err
	}
	if len(first) == 0 || len(second) == 0 {
		return nil, fmt.Errorf("%w: a file has no line with figures", ErrNothing)
	}
	for _, l := range slices.Concat(first, second) {
		if l.of["variant"] == "1" {
			delete(l.of, "variant") // the first of several is the same as the only one
		}
	}
	r := &Report{Alpha: o.alpha(), Between: between(first, second), Runs: runs(first[0].run, second[0].run)}
	ignored := map[string]bool{}
	for _, d := range r.Between {
		ignored[d.Name] = true
	}
	r.join(first, second, ignored, nil)
	return r.finish()
}

// Within compares lines of one file that differ in [Options.By].
func Within(all []result.Record, o Options) (*Report, error) {
	lines, err := items(all)
	if err != nil {
		return nil, err
	}
	by := o.By
	if by == "" {
		by = "variant"
	}
	ignored := map[string]bool{by: true}
	if by != "variant" {
		ignored["variant"] = true
	}
	var values []string
	groups := map[string][]*item{}
	for _, l := range lines {
		v, ok := l.of[by]
		if again := l.of["variant"] > "1"; !ok || again && by != "variant" {
			continue // the first of several stands for all
		}
		if groups[v] == nil {
			values = append(values, v)
		}
		groups[v] = append(groups[v], l)
	}
	base := o.Base
	if base == "" && len(values) > 0 {
		base = values[0]
	}
	switch {
	case len(values) < 2:
		return nil, fmt.Errorf("%w: the lines do not differ in %s", ErrNothing, by)
	case groups[base] == nil:
		return nil, fmt.Errorf("%w: no line has %s %s: it is one of %v", ErrNothing, by, base, values)
	}
	r := &Report{Alpha: o.alpha()}
	for _, v := range values {
		if v != base {
			r.join(groups[base], groups[v], ignored, []Difference{{by, base, v}})
		}
	}
	return r.finish()
}

func (o Options) alpha() float64 {
	if o.Alpha == 0 {
		return 0.01
	}
	return o.Alpha
}

// join compares lines that are of the same, besides what is ignored.
func (r *Report) join(a, b []*item, ignored map[string]bool, between []Difference) {
	partners := map[string][]*item{}
	for _, l := range b {
		k := l.key(ignored)
		partners[k] = append(partners[k], l)
	}
	for _, l := range a {
		k := l.key(ignored)
		if len(partners[k]) == 0 {
			r.Alone = append(r.Alone, l.source)
			continue
		}
		other := partners[k][0]
		partners[k] = partners[k][1:]
		r.Pairs = append(r.Pairs, pair(l, other, ignored, between))
	}
	for _, l := range b {
		if k := l.key(ignored); slices.Contains(partners[k], l) {
			r.Alone = append(r.Alone, l.source)
		}
	}
}

// finish corrects the tests of all pairs together.
func (r *Report) finish() (*Report, error) {
	if len(r.Pairs) == 0 {
		return nil, fmt.Errorf("%w: no line of the one has a partner in the other", ErrNothing)
	}
	var times, others []*Metric
	for i := range r.Pairs {
		for k := range r.Pairs[i].Metrics {
			switch m := &r.Pairs[i].Metrics[k]; {
			case m.Test == NoTest || m.Test == Single:
			case m.Name == "ms":
				times = append(times, m)
			default:
				others = append(others, m)
			}
		}
	}
	share := 1.0
	if len(times) > 0 && len(others) > 0 {
		share = 2 // half of the chance each: what mostly interests does not pay for all that is measured besides
	}
	for _, family := range [][]*Metric{times, others} {
		var p []float64
		for _, m := range family {
			p = append(p, m.P)
		}
		for i, adjusted := range stats.Holm(p) {
			family[i].Adjusted = min(1, share*adjusted)
			family[i].Differs = family[i].Adjusted <= r.Alpha
		}
	}
	return r, nil
}

// String is both values.
func (d Difference) String() string {
	text := func(s string) string {
		if s == "" {
			return "(none)"
		}
		return s
	}
	return text(d.A) + " → " + text(d.B)
}
