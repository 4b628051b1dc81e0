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

// RunReport is the result of one run. Its JSON format is stable: rates are in 0..1, and fields that do not apply are
// absent. Means are over all answers, rates of tokens over the tokens of all answers together.
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
	Accuracy *stats.Interval `json:"accuracy,omitempty"`
	Chance   *float64        `json:"chance,omitempty"` // accuracy of guessing among the options

	// share of all tokens, including end tokens, that the large model chose: without verification those that were asked
	// for, with verification those that were replaced
	EscalatedShare float64  `json:"escalated_share"`
	AskedShare     float64  `json:"asked_share"`                 // of all tokens, those that were asked for
	ReplacedShare  float64  `json:"replaced_share"`              // of tokens that the small model would not choose
	Read           float64  `json:"read_per_answer"`             // tokens up to the last question
	Asks           float64  `json:"asks_per_answer"`             // sent
	Known          *float64 `json:"known_per_answer,omitempty"`  // needed no ask, with verification
	Turned         *float64 `json:"turned_per_answer,omitempty"` // tokens that verification replaced
	Tokens         float64  `json:"tokens_per_answer"`           // including end tokens
	Milliseconds   float64  `json:"ms_per_answer"`               // mean, several answers at a time

	// share of the audited tokens of the small model for which the large one would have chosen another
	Missed *float64 `json:"missed_share,omitempty"`
	// share of the large model's tokens that the small one would have chosen too
	Needless *float64 `json:"needless_share,omitempty"`
	// share of all tokens that the large model chooses after the same text
	Agreement *stats.Interval `json:"agreement,omitempty"`

	Always *Versus `json:"versus_always,omitempty"` // this run against the large model alone
	Never  *Versus `json:"versus_never,omitempty"`  // against the small model alone
	// part of the distance from the small model's accuracy to the large one's that this run gains
	Gap   *stats.Interval `json:"gap_recovered,omitempty"`
	Curve *Area           `json:"curve,omitempty"` // of the policy, over all its runs
}

// Name returns the name of the run.
func (r *RunReport) Name() string {
	return r.toRun().Name()
}

// Quality returns the value of a run in a curve: its accuracy, or if answers are not graded its agreement.
func (r *RunReport) Quality() (q stats.Interval, ok bool) {
	switch {
	case r.Accuracy != nil:
		return *r.Accuracy, true
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
		case one.Policy != Oracle && one.EscalatedShare <= share &&
			(best == nil || one.Accuracy.Value > best.Accuracy.Value):
			best = one
		}
	}
	if best == nil {
		return ""
	}
	return fmt.Sprintf("%s: %.1f%% right with %.1f%% of the tokens from the large model%s.\n", best.Name(),
		100*best.Accuracy.Value, 100*best.EscalatedShare, alone+large)
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
		if one.Verify = run.Verify; run.onlyAsks() {
			one.Known, one.Turned = nil, nil
		}
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
	asked, read              int
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
	s.asked += a.Asks + a.Known
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
	n := float64(len(t.questions))
	r := RunReport{
		Answers: len(t.questions), EscalatedShare: shareOf(s.cloud, s.tokens),
		AskedShare: shareOf(s.asked, s.tokens), ReplacedShare: shareOf(s.needful, s.tokens), Read: float64(s.read) / n,
		Asks: float64(s.asks) / n, Tokens: float64(s.tokens) / n, Milliseconds: s.ms / n,
		Known: new(float64(s.known) / n), Turned: new(float64(s.turned) / n),
	}
	if s.audited > 0 {
		r.Missed = new(shareOf(s.missed, s.audited))
	}
	if s.cloud > 0 {
		r.Needless = new(1 - shareOf(s.needful, s.cloud))
	}
	if s.graded > 0 {
		r.setGrades(s)
	}
	return r
}

func (r *RunReport) setGrades(s sums) {
	w := stats.Wilson(s.right, s.graded)
	r.Right, r.Silent, r.Cut = &s.right, &s.silent, &s.cut
	r.Accuracy = &w
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
	needed := shareOf(s.needful, s.tokens)
	r := RunReport{
		Policy: Oracle, Answers: large.Answers, Tokens: large.Tokens,
		EscalatedShare: needed, AskedShare: needed, ReplacedShare: needed,
		Read: float64(t.sumLastNeeded()) / float64(large.Answers), Asks: float64(s.needful) / float64(large.Answers),
		Agreement: large.Agreement, Needless: new(0.0), Missed: new(0.0),
	}
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
