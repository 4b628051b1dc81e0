package eval

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// made returns an answer with the given origins; a capital marks a token that is missed (E) or needless (C).
func made(question, run, verdict, origins string) Answer {
	a := Answer{Question: question, Run: run, Verdict: verdict, Stop: "end", Origins: strings.ToLower(origins)}
	for i, o := range origins {
		a.Tokens, a.Pieces = append(a.Tokens, int32(i)), append(a.Pieces, "x")
		switch o {
		case 'E':
			a.Missed = append(a.Missed, i)
		case 'C':
			a.Needless = append(a.Needless, i)
		}
	}
	a.Asks = strings.Count(a.Origins, "c")
	a.Audited = len(origins) - a.Asks
	a.Milliseconds = 4
	return a
}

// TestGain: the best run within the share, beside each model alone.
func TestGain(t *testing.T) {
	run := func(policy string, right, share float64) RunReport {
		return RunReport{Policy: policy, Threshold: new(0.5), Accuracy: &stats.Accuracy{Value: right}, Tokens: 1000,
			Cloud: int(1000 * share)}
	}
	r := Report{Runs: []RunReport{run("never", 0.25, 0), run("always", 1, 1), run("margin", 0.5, 0.06),
		run("entropy", 0.375, 0.01), run("random", 0.875, 0.08), run(Oracle, 1, 0.05)}}
	assert.Equal(t, "margin 0.5: 50.0% right with 6.0% of the tokens from the large model, the small model alone "+
		"25.0%, the large one alone 100.0%.\n", r.Gain(0.07))
	assert.Contains(t, r.Gain(0.08), "random 0.5: 87.5% right with 8.0%")
	assert.Empty(t, r.Gain(0.001))
	verified := &Report{Runs: []RunReport{
		{Policy: "never", Verify: new(0.0), Accuracy: &stats.Accuracy{Value: 0.75}, Tokens: 100, Cloud: 5},
		{Policy: "never", Verify: new(1.0), Accuracy: &stats.Accuracy{Value: 0.5}, Tokens: 100, Cloud: 4}}}
	assert.Equal(t, "never verified 1: 50.0% right with 4.0% of the tokens from the large model, "+
		"the large one alone 75.0%.\n", verified.Gain(0.07), "verification without a margin gives its text")
	assert.Empty(t, (&Report{Runs: []RunReport{{Policy: "margin"}}}).Gain(1), "answers that are not graded")
}

// graded returns a question with right answers.
func graded(id string) task.Question {
	right := func(string) task.Verdict { return task.Right }
	return task.Question{ID: id, Text: id, Guess: 0.25, Grade: right}
}

// comparedRuns returns four questions in three runs.
func comparedRuns() (*task.Set, []Run, *Log) {
	set := &task.Set{}
	for _, id := range []string{"a", "b", "c", "d"} {
		set.Questions = append(set.Questions, graded(id))
	}
	runs := []Run{{Policy: router.Never}, {Policy: router.Always}, at(router.Margin, 0.5)}
	l := NewLog(Settings{Runs: Names(runs)}, About{})
	for _, a := range []Answer{
		made("a", "never", "right", "eeEe"),
		made("a", "always", "right", "CCcC"),
		made("a", "margin 0.5", "right", "eeEe"),
		made("b", "never", "wrong", "eEEe"),
		made("b", "always", "right", "CccC"),
		made("b", "margin 0.5", "right", "ecEC"),
		made("c", "never", "silent", "eeee"),
		made("c", "always", "right", "CCCC"),
		made("c", "margin 0.5", "right", "eeec"),
		made("d", "never", "right", "eeeE"),
		made("d", "always", "wrong", "CCCc"),
		made("d", "margin 0.5", "wrong", "eeeE"),
	} {
		l.answers[key{a.Question, a.Run}] = a
	}
	return set, runs, l
}

// TestSummarize: the figures of each run.
func TestSummarize(t *testing.T) {
	r := Summarize(comparedRuns())
	assert.Equal(t, 4, r.Questions)
	assert.Equal(t, 4, r.Asked)
	require.Len(t, r.Runs, 4)
	never, always, margin, oracle := r.Runs[0], r.Runs[1], r.Runs[2], r.Runs[3]
	assert.Equal(t, []string{"never", "always", "margin 0.5", "oracle"},
		[]string{never.Name(), always.Name(), margin.Name(), oracle.Name()})
	assert.Equal(t, "margin", margin.Policy)
	assert.Equal(t, 0.5, *margin.Threshold)
	assert.Equal(t, 4, margin.Answers)
	assert.Equal(t, 3, *margin.Right)
	assert.Zero(t, *margin.Silent)
	assert.Equal(t, stats.NewAccuracy(3, 4), margin.Accuracy)
	assert.Equal(t, 1, *never.Silent)
	assert.Equal(t, 0.25, *margin.Chance)
	assert.Equal(t, 0.5, never.Accuracy.Value)
	assert.InDelta(t, 3./16, margin.Share(margin.Cloud), 1e-12)
	assert.Equal(t, 3, margin.Cloud)
	assert.Equal(t, 3, margin.Asks)
	assert.Equal(t, 16, margin.Tokens)
	assert.Equal(t, 16.0, margin.Time)
	assert.Equal(t, []int{3, 13}, []int{margin.Missed, margin.Audited})
	assert.Equal(t, 1, margin.Needless)
	assert.Equal(t, 2, margin.Replaced())
	assert.InDelta(t, 13./16, margin.Agreement.Value, 1e-12)
	assert.Less(t, margin.Agreement.Low, margin.Agreement.Value)
	assert.Zero(t, always.Audited)
	assert.Zero(t, never.Cloud)
	assert.Equal(t, 12, always.Needless)

	assert.Equal(t, []int{4, 4, 4}, []int{oracle.Cloud, oracle.Asked(), oracle.Replaced()},
		"the tokens on which the models differ")
	assert.Equal(t, 0.75, oracle.Accuracy.Value)
	assert.Equal(t, 3, *oracle.Right)
	assert.Equal(t, 16, oracle.Tokens)
	assert.Equal(t, 12, oracle.Audited)
	assert.Zero(t, oracle.Missed)
	assert.Zero(t, oracle.Needless)
	assert.Equal(t, always.Agreement, oracle.Agreement)
	assert.Nil(t, oracle.Curve)

	b, err := json.Marshal(r.Runs)
	require.NoError(t, err)
	for _, field := range []string{`"policy":"margin","threshold":0.5,"answers":4,`, `"accuracy":0.75,"accuracy_low":`,
		`"accuracy_high":`, `"tokens":16,"cloud_tokens":3,"escalated_share":0.1875,`,
		`{"policy":"never","answers":4,`} {
		assert.Contains(t, string(b), field)
	}
}

// TestComparedRuns: a run is compared with each model alone.
func TestComparedRuns(t *testing.T) {
	r := Summarize(comparedRuns())
	never, always, margin := r.Runs[0], r.Runs[1], r.Runs[2]
	v := margin.Versus[router.Never]
	assert.Equal(t, 2, v.OnlyThis)
	assert.Equal(t, 1, v.OnlyThat)
	assert.Equal(t, 1.0, v.McNemar())
	assert.InDelta(t, 1.5, v.Ratio.Value, 1e-12)
	assert.True(t, margin.Versus[router.Always].NonInferior(), "the same answers are right")
	assert.False(t, never.Versus[router.Always].NonInferior())
	assert.Nil(t, always.Versus[router.Always])
	assert.Nil(t, never.Versus[router.Never])
	assert.InDelta(t, 1, margin.Gap.Value, 1e-12, "the whole distance from 0.5 to 0.75")
	assert.Nil(t, never.Gap)
	assert.Nil(t, always.Gap)
}

// TestCurve: the curve of a policy contains its runs and each model alone.
func TestCurve(t *testing.T) {
	r := Summarize(comparedRuns())
	require.Len(t, r.Policies, 1)
	area := r.Policies[0]
	assert.Equal(t, "margin", area.Policy)
	assert.Zero(t, area.From)
	assert.Equal(t, 1.0, area.To)
	assert.Equal(t, r.Policies[0].At, r.Runs[2].Curve)
	assert.Nil(t, r.Runs[0].Curve)
	require.Len(t, area.At, 6)
	for i, share := range []float64{0.03, 0.05, 0.07} {
		assert.InDelta(t, 0.5+0.25*share/(3./16), area.At[i].Quality.Value, 1e-12)
	}
}

// TestPoliciesAtShares: at each share that all curves cover, the qualities of two policies and their difference are
// those of the lines between their runs.
func TestPoliciesAtShares(t *testing.T) {
	set, runs, l := comparedRuns()
	runs = append(runs, at(router.Random, 0.9))
	for _, a := range []Answer{
		made("a", "random 0.9", "right", "eccE"), made("b", "random 0.9", "wrong", "eEEe"),
		made("c", "random 0.9", "wrong", "eeec"), made("d", "random 0.9", "wrong", "eeeE"),
	} {
		l.answers[key{a.Question, a.Run}] = a
	}
	r := Summarize(set, runs, l)
	require.Len(t, r.Policies, 2)
	margin, random := r.Policies[0], r.Policies[1]
	assert.Equal(t, []string{"margin", "random"}, []string{margin.Policy, random.Policy})
	require.Len(t, margin.At, 6)
	require.Len(t, random.At, 6)
	for i, share := range []float64{0.03, 0.05, 0.07, 0.1} {
		up, down := 0.5+0.25*share/(3./16), 0.5-0.25*share/(3./16)
		m, r := margin.At[i], random.At[i]
		assert.Equal(t, share, m.Share)
		assert.Equal(t, share, r.Share)
		assert.InDelta(t, up, m.Quality.Value, 1e-12)
		assert.InDelta(t, down, r.Quality.Value, 1e-12)
		assert.InDelta(t, up-down, m.Minus["random"].Value, 1e-12)
		assert.InDelta(t, down-up, r.Minus["margin"].Value, 1e-12)
		assert.Len(t, m.Minus, 1, "a policy is not compared with itself")
		assert.Len(t, r.Minus, 1)
	}

	// without the models alone the curves cover less, and shares outside are left out
	runs = []Run{runs[2], at(router.Margin, 0.9)}
	for i, id := range []string{"a", "b", "c", "d"} {
		a := made(id, "margin 0.9", "right", []string{"cecc", "ecec", "cccc", "ecec"}[i])
		l.answers[key{a.Question, a.Run}] = a
	}
	r = Summarize(set, runs, l)
	require.Len(t, r.Policies, 1)
	assert.InDeltaSlice(t, []float64{3. / 16, 11. / 16}, []float64{r.Policies[0].From, r.Policies[0].To}, 1e-12)
	require.Len(t, r.Policies[0].At, 2)
	assert.Equal(t, []float64{0.2, 0.3}, []float64{r.Policies[0].At[0].Share, r.Policies[0].At[1].Share})
}

// TestSummarizeParts: budgets, questions that lack a run or do not fit.
func TestSummarizeParts(t *testing.T) {
	set, runs, l := comparedRuns()
	runs = append(runs, Run{Policy: router.Margin, Budget: 0.5})
	for _, q := range []string{"a", "b", "c"} {
		a := made(q, "margin 50%", "wrong", "ce")
		a.Audited, a.Missed = 10, make([]int, 5)
		l.answers[key{q, a.Run}] = a
	}
	l.answers[key{"c", "margin 50%"}] = Answer{Question: "c", Run: "margin 50%", Verdict: "silent", Stop: StopNoRoom}
	r := Summarize(set, runs, l)
	assert.Equal(t, 3, r.Questions)
	assert.Equal(t, 4, r.Asked)
	b := r.Runs[3]
	small, large := r.Runs[0].Accuracy.Value, r.Runs[1].Accuracy.Value
	assert.InDelta(t, (b.Accuracy.Value-small)/(large-small), b.Gap.Value, 1e-12)
	assert.LessOrEqual(t, b.Gap.Low, b.Gap.Value)
	assert.Equal(t, "margin 50%", b.Name())
	assert.Equal(t, 0.5, *b.Budget)
	assert.Equal(t, 2*b.Missed, b.Audited)
	assert.InDelta(t, 12./22, b.Agreement.Value, 1e-12)
	assert.Equal(t, 1, *b.Silent)
	assert.Equal(t, 0, Summarize(set, []Run{{Policy: router.Entropy}}, l).Questions)
}

// TestAgreementCurve: without graded answers, the curve shows the agreement with the large model. Policies are compared
// over the shares that all of them reach.
func TestAgreementCurve(t *testing.T) {
	set, _, _ := comparedRuns()
	runs := []Run{at(router.Margin, 0.1), at(router.Margin, 0.9), at(router.Random, 0.1), at(router.Random, 0.9),
		at(router.Learned, 0.1), at(router.Learned, 0.9)}
	l := NewLog(Settings{}, About{})
	for i := range set.Questions {
		q := &set.Questions[i]
		q.Grade = nil
		for run, origins := range map[string]string{
			"margin 0.1": "eEEcc", "margin 0.9": "ccccE", "random 0.1": "cEEEE", "random 0.9": "cccEE",
			"learned 0.1": "cceEE", "learned 0.9": "ccccc",
		} {
			l.answers[key{q.ID, run}] = made(q.ID, run, "", origins)
		}
	}
	r := Summarize(set, runs, l)
	require.Len(t, r.Policies, 3)
	for _, p := range r.Policies {
		assert.InDelta(t, 0.4, p.From, 1e-12)
		assert.InDelta(t, 0.6, p.To, 1e-12)
		assert.Empty(t, p.At)
	}
	assert.Nil(t, r.Runs[0].Accuracy)
	assert.Empty(t, r.Runs[0].Versus)
	_, err := json.Marshal(r.Runs)
	require.NoError(t, err)
}

// TestPaired: if two runs have equally many right answers, but to different questions, the interval of their difference
// is that of paired samples. If the right answers are to the same questions, the difference is zero.
func TestPaired(t *testing.T) {
	set := &task.Set{}
	runs := []Run{{Policy: router.Always}, at(router.Margin, 0.1), at(router.Margin, 0.2), at(router.Margin, 0.3)}
	l := NewLog(Settings{}, About{})
	put := func(id, run string, right bool) {
		l.answers[key{id, run}] = made(id, run, map[bool]string{true: "right", false: "wrong"}[right], "ec")
	}
	for i := range 400 {
		id := fmt.Sprint(i)
		set.Questions = append(set.Questions, graded(id))
		put(id, "always", i%10 != 0)
		put(id, "margin 0.1", i%10 != 0)
		put(id, "margin 0.2", i%10 != 5 && i%50 != 1)
		put(id, "margin 0.3", i%10 != 0 && i%100 != 1)
	}
	r := Summarize(set, runs, l)
	assert.Equal(t, stats.Interval{Value: 1, Low: 1, High: 1}, *r.Runs[1].Versus[router.Always].Ratio)
	other := r.Runs[2].Versus[router.Always]
	assert.Equal(t, 40, other.OnlyThis)
	assert.Equal(t, 48, other.OnlyThat)
	assert.Equal(t, stats.McNemar(40, 48), other.McNemar())
	half := 1.96 * math.Sqrt(0.2/400) // standard deviations of a difference that is ±1 for a fifth of the questions
	assert.InDelta(t, half, (other.Ratio.High-other.Ratio.Low)/2*0.9, 0.006)
	assert.False(t, other.NonInferior(), "0.95 is within the interval")
	less := r.Runs[3].Versus[router.Always]
	assert.InDelta(t, 0.125, less.McNemar(), 1e-12, "4 of 4 discordant answers")
	assert.True(t, less.NonInferior())
}
