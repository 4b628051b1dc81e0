package eval

import (
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Oracle is the name of a line of [Report.Runs] that was not decoded. Its text is that of the large model, and only the
// tokens that the small model would not have chosen count as escalated. No router can produce this text with fewer.
const Oracle = "oracle"

// RunReport is the result of one run: sums over all answers. Its JSON format is stable; fields that do not apply are
// absent.
type RunReport struct {
	Policy    string   `json:"policy"`
	Threshold *float64 `json:"threshold,omitempty"`
	Budget    *float64 `json:"budget,omitempty"`
	Verify    *float64 `json:"verify,omitempty"` // margin of verification in nats
	Answers   int      `json:"answers"`

	Right  *int `json:"right,omitempty"`
	Silent *int `json:"silent,omitempty"` // no choice, or no number: not right
	Cut    *int `json:"cut,omitempty"`    // ended by a limit: right only if the conclusion stands before it
	// share of right answers, with Wilson's interval at 95%
	*stats.Accuracy
	Chance *float64 `json:"chance,omitempty"` // accuracy of guessing among the options

	Tokens int `json:"tokens"` // including end tokens
	// of these, chosen by the large model: without verification those that were asked for, with verification those that
	// were replaced
	Cloud     int     `json:"cloud_tokens"`
	Escalated float64 `json:"escalated_share"`  // Cloud as a share of Tokens
	Read      int     `json:"read"`             // tokens up to the last question
	Asks      int     `json:"asks"`             // sent
	Known     int     `json:"known,omitempty"`  // needed no ask, with verification
	Turned    int     `json:"turned,omitempty"` // tokens that verification replaced
	Time      float64 `json:"ms"`               // several answers at a time
	Audited   int     `json:"audited"`          // tokens of the small model that the large one looked at
	Missed    int     `json:"missed"`           // of these, those for which it would have chosen another
	Needless  int     `json:"needless"`         // tokens of the large model that the small one would have chosen too
	// share of all tokens that the large model chooses after the same text
	Agreement *stats.Interval `json:"agreement,omitempty"`

	// against the models alone, by policy: always, never
	Versus map[router.Policy]*Versus `json:"versus,omitempty"`
	// part of the distance from the small model's accuracy to the large one's that this run gains
	Gap   *stats.Interval `json:"gap_recovered,omitempty"`
	Curve []At            `json:"curve,omitempty"` // of the policy, over all its runs
}

// Asked returns the number of tokens that were asked for.
func (r *RunReport) Asked() int { return r.Asks + r.Known }

// Replaced returns the number of tokens that the small model would not choose.
func (r *RunReport) Replaced() int { return r.Cloud - r.Needless }

// Share returns a number of tokens as a share of all.
func (r *RunReport) Share(tokens int) float64 { return shareOf(tokens, r.Tokens) }

// Name returns the name of the run.
func (r *RunReport) Name() string {
	return r.toRun().Name()
}

// Quality returns the value of a run in a curve: its accuracy, or if answers are not graded its agreement.
func (r *RunReport) Quality() (q stats.Interval, ok bool) {
	switch {
	case r.Accuracy != nil:
		return stats.Interval(*r.Accuracy), true
	case r.Agreement != nil:
		return *r.Agreement, true
	}
	return q, false
}

func (r *RunReport) toRun() Run {
	run := Run{Policy: router.Policy(r.Policy), Threshold: r.Threshold, Verify: r.Verify}
	if r.Budget != nil {
		run.Budget = *r.Budget
	}
	return run
}

// Report compares all runs.
type Report struct {
	Questions int         // answered in all runs
	Asked     int         // in the set
	Runs      []RunReport // in order; [Oracle] last, if the large model alone was asked
	Policies  []Area      // for policies with a curve
}

// Gain says in a line how often the best run with at most this share of the tokens from the large model is right, and
// each model alone; "" without such a run, or if answers are not graded.
func (r *Report) Gain(share float64) string {
	var best *RunReport
	alone, large := "", ""
	for i := range r.Runs {
		one := &r.Runs[i]
		switch {
		case one.Accuracy == nil:
		case one.Policy == string(router.Never) && one.Verify == nil:
			alone += fmt.Sprintf(", the small model alone %.1f%%", 100*one.Accuracy.Value)
		case one.Policy == string(router.Always), one.Verify != nil && *one.Verify == 0:
			large = fmt.Sprintf(", the large one alone %.1f%%", 100*one.Accuracy.Value)
		case one.Policy != Oracle && one.Share(one.Cloud) <= share &&
			(best == nil || one.Accuracy.Value > best.Accuracy.Value):
			best = one
		}
	}
	if best == nil {
		return ""
	}
	return fmt.Sprintf("%s: %.1f%% right with %.1f%% of the tokens from the large model%s.\n", best.Name(),
		100*best.Accuracy.Value, 100*best.Share(best.Cloud), alone+large)
}

// Summarize compares the runs on the questions that are answered in all of them.
func Summarize(set *task.Set, runs []Run, log *Log) *Report {
	t := newTable(set, runs, log)
	r := &Report{Questions: len(t.questions), Asked: len(set.Questions)}
	if r.Questions == 0 {
		return r
	}
	for i, run := range runs {
		one := t.reportRun(i)
		one.Policy, one.Threshold = string(run.Policy), run.Threshold
		if run.Budget > 0 {
			one.Budget = &run.Budget
		}
		one.Verify = run.Verify
		r.Runs = append(r.Runs, one)
	}
	t.addComparisons(r)
	if t.large >= 0 {
		r.Runs = append(r.Runs, t.reportOracle(r.Runs[t.large]))
	}
	return r
}

// table has all answers, by run and question.
type table struct {
	questions     []task.Question // answered in all runs
	runs          []Run
	answers       [][]Answer // [run][question]
	graded        bool
	never, always int // indices of the runs of these policies; -1 if there are none
	large         int // of a run with the large model's text: always, or verification without a margin; -1 for none
}

func newTable(set *task.Set, runs []Run, log *Log) *table {
	t := &table{runs: runs, answers: make([][]Answer, len(runs)), never: -1, always: -1, large: -1}
	for i, r := range runs {
		switch {
		case r.Policy == router.Never && r.onlyAsks():
			t.never = i
		case r.Policy == router.Always && r.onlyAsks():
			t.always = i
		case r.Verify != nil && *r.Verify == 0:
			t.large = i
		}
	}
	if t.always >= 0 {
		t.large = t.always
	}
	for _, q := range set.Questions {
		row := make([]Answer, 0, len(runs))
		for _, r := range runs {
			if a, ok := log.Answer(q.ID, r.Name()); ok {
				row = append(row, a)
			}
		}
		if len(row) < len(runs) {
			continue
		}
		t.questions = append(t.questions, q)
		for i, a := range row {
			t.graded = t.graded || a.Verdict != ""
			t.answers[i] = append(t.answers[i], a)
		}
	}
	return t
}

// sums are the sums over the answers of a run.
type sums struct {
	graded, right, silent    int
	cut                      int
	tokens, cloud, asks      int
	known, turned            int
	read                     int
	audited, missed, needful int // tokens of the cloud that were needed
	ms, guess                float64
}

func (t *table) sumRun(run int) (s sums) {
	for i, a := range t.answers[run] {
		s.addAnswer(a, t.questions[i], t.runs[run])
	}
	return s
}

func (s *sums) addAnswer(a Answer, q task.Question, r Run) {
	s.tokens += len(a.Origins)
	s.cloud += a.cloudChoiceCount(r)
	s.asks += a.Asks
	s.known, s.turned = s.known+a.Known, s.turned+a.Turned
	s.audited, s.missed = s.audited+a.Audited, s.missed+len(a.Missed)
	s.needful += a.Replaced()
	s.read += a.readTokenCount(r)
	s.ms += a.Milliseconds
	if a.wasCut() {
		s.cut++
	}
	if a.Verdict == "" {
		return
	}
	right := 0
	switch a.Verdict {
	case task.Right.String():
		right = 1
	case task.Silent.String():
		s.silent++
	}
	s.graded, s.right, s.guess = s.graded+1, s.right+right, s.guess+q.Guess
}

func (t *table) reportRun(run int) RunReport {
	s := t.sumRun(run)
	r := RunReport{Answers: len(t.questions), Tokens: s.tokens, Cloud: s.cloud, Read: s.read, Asks: s.asks,
		Known: s.known, Turned: s.turned, Time: s.ms, Audited: s.audited, Missed: s.missed,
		Needless: s.cloud - s.needful, Escalated: shareOf(s.cloud, s.tokens)}
	if s.graded > 0 {
		r.setGrades(s)
	}
	return r
}

func (r *RunReport) setGrades(s sums) {
	r.Right, r.Silent, r.Cut = &s.right, &s.silent, &s.cut
	r.Accuracy = stats.NewAccuracy(s.right, s.graded)
	if s.guess > 0 {
		r.Chance = new(s.guess / float64(s.graded))
	}
}

// shareOf returns a/b, 0 if b is 0.
func shareOf(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func (t *table) reportOracle(large RunReport) RunReport {
	s := t.sumRun(t.large)
	r := RunReport{Policy: Oracle, Answers: large.Answers, Tokens: s.tokens, Cloud: s.needful,
		Read: t.sumLastNeeded(), Asks: s.needful, Audited: s.tokens - s.needful, Agreement: large.Agreement,
		Escalated: shareOf(s.needful, s.tokens)}
	if s.graded > 0 {
		r.setGrades(s)
	}
	return r
}

// sumLastNeeded returns the sum of the positions of the last tokens that the small model would not have chosen.
func (t *table) sumLastNeeded() (sum int) {
	for _, a := range t.answers[t.large] {
		for i := len(a.Origins) - 1; i > 0; i-- {
			if a.Origins[i] == 'c' && !slices.Contains(a.Needless, i) {
				sum += i
				break
			}
		}
	}
	return sum
}

// Names returns the names of runs, for [Settings].
func Names(runs []Run) (all []string) {
	for _, r := range runs {
		all = append(all, r.Name())
	}
	return all
}
