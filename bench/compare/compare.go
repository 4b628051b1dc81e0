// Package compare reports the differences between two measurements, their sizes and their confidence. Lines of two
// files, or of one file, are paired by their identity: measurement, cell, mode and models. A setting with one
// value in the whole first measurement and another in the whole second one is what is compared. It is not part of the
// identity.
//
// Samples of the same questions are compared per question, with Wilcoxon's signed ranks, others with the rank sums of
// Mann and Whitney, both exact: of many samples, neighbours are combined so that at most 60 and 40 values are left. An
// interval contains all changes that the same test would not reject. All tests of a comparison are
// corrected together (Holm), so that a comparison of two equal measurements shows a difference with a probability of
// [Alpha] at most.
// Consecutive questions may be disturbed together: if their changes are correlated (autocorrelation), they count as
// one. No test can detect a disturbance of one whole measurement: let the measurements alternate.
package compare

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// Alpha is the probability that any difference is reported if there is none.
const Alpha = 0.01

// Report is the result of a comparison.
type Report struct {
	Between []Difference // the compared settings, without those of the runs
	Runs    []Difference // machine, version and flags
	Pairs   []Pair
	Alone   []string // lines without a partner
}

// Difference is a setting with two values.
type Difference struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Pair is a pair of compared lines.
type Pair struct {
	Of          map[string]string // settings of both
	Between     []Difference      // compared settings, within one file
	A, B        string            // sources
	Metrics     []Metric
	Texts, Same int // answers to the same questions: all, and those with equal texts; 0 if there are none
}

// Metric is one figure of the samples.
type Metric struct {
	Name     string   `json:"metric"`
	A        float64  `json:"a"` // mean of the questions, or median of samples without questions
	B        float64  `json:"b"`
	Change   *float64 `json:"change,omitempty"`      // of B relative to A, less 1; absent if A is 0
	Low      *float64 `json:"change_low,omitempty"`  // at 95%; absent if there are too few samples
	High     *float64 `json:"change_high,omitempty"` //
	P        float64  `json:"p"`                     // of this test alone
	Adjusted float64  `json:"p_adjusted"`            // for all tests together
	Differs  bool     `json:"differs"`               // at the level [Alpha]
	Test     string   `json:"test"`                  // signed-rank, rank-sum; single: no samples; none: all are equal
	N        [2]int   `json:"samples"`               // questions, or samples without questions, of A and B
	Block    int      `json:"block,omitempty"`       // number of questions or samples that count as one, if above 1
}

// ErrNothing means that the lines contain nothing to compare.
var ErrNothing = errors.New("there is nothing to compare")

// Files compares the lines of two files.
func Files(a, b []result.Record) (*Report, error) {
	first, err := parseItems(a)
	if err != nil {
		return nil, err
	}
	second, err := parseItems(b)
	if err != nil {
		return nil, err
	}
	if len(first) == 0 || len(second) == 0 {
		return nil, fmt.Errorf("%w: a file has no line with figures", ErrNothing)
	}
	for _, l := range slices.Concat(first, second) {
		if l.of["variant"] == "1" {
			delete(l.of, "variant") // the first of several is like the only one
		}
	}
	r := &Report{Between: comparedSettings(first, second),
		Runs: settingDifferences(runSettings(first[0].run), runSettings(second[0].run))}
	ignored := map[string]bool{}
	for _, d := range r.Between {
		ignored[d.Name] = true
	}
	r.pairLines(first, second, ignored, nil)
	return r.adjustTests()
}

// Variants compares the lines of one file that were measured several times, each with the first.
func Variants(all []result.Record) (*Report, error) {
	lines, err := parseItems(all)
	if err != nil {
		return nil, err
	}
	groups := map[string][]*item{}
	for _, l := range lines {
		if v, ok := l.of["variant"]; ok {
			groups[v] = append(groups[v], l)
		}
	}
	names := slices.Sorted(maps.Keys(groups))
	if len(names) < 2 {
		return nil, fmt.Errorf("%w: no mode was measured twice", ErrNothing)
	}
	r := new(Report)
	for _, v := range names[1:] {
		r.pairLines(groups["1"], groups[v], map[string]bool{"variant": true}, []Difference{{"variant", "1", v}})
	}
	return r.adjustTests()
}

func (r *Report) pairLines(a, b []*item, ignored map[string]bool, between []Difference) {
	partners := map[string][]*item{}
	for _, l := range b {
		k := l.identityKey(ignored)
		partners[k] = append(partners[k], l)
	}
	for _, l := range a {
		k := l.identityKey(ignored)
		if len(partners[k]) == 0 {
			r.Alone = append(r.Alone, l.source)
			continue
		}
		other := partners[k][0]
		partners[k] = partners[k][1:]
		r.Pairs = append(r.Pairs, comparePair(l, other, ignored, between))
	}
	for _, l := range b {
		if k := l.identityKey(ignored); slices.Contains(partners[k], l) {
			r.Alone = append(r.Alone, l.source)
		}
	}
}

func (r *Report) adjustTests() (*Report, error) {
	if len(r.Pairs) == 0 {
		return nil, fmt.Errorf("%w: no line of one has a partner in the other", ErrNothing)
	}
	var tested []*Metric
	var p []float64
	for i := range r.Pairs {
		for k := range r.Pairs[i].Metrics {
			if m := &r.Pairs[i].Metrics[k]; m.Test == SignedRank || m.Test == RankSum {
				tested, p = append(tested, m), append(p, m.P)
			}
		}
	}
	for i, adjusted := range stats.Holm(p) {
		tested[i].Adjusted, tested[i].Differs = adjusted, adjusted <= Alpha
	}
	return r, nil
}

// String returns both values.
func (d Difference) String() string {
	text := func(s string) string {
		if s == "" {
			return "(none)"
		}
		return s
	}
	return text(d.A) + " → " + text(d.B)
}
