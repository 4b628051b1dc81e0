package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// opened opens a model of the demo.
func opened(t *testing.T, b []byte) *engine.Engine {
	f, err := gguf.Parse(b)
	require.NoError(t, err)
	e, err := engine.New(f, "demo", engine.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// demoOptions returns options with the first questions of the demo.
func demoOptions(t *testing.T, questions int, runs ...Run) Options {
	large := opened(t, demo.Large())
	judge, err := synth.Judge(large.Width())
	require.NoError(t, err)
	service, err := large.Serve(engine.ServeOptions{Slots: 8 * large.Context(), Judge: judge})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := service.Local(0).Ask(context.Background(), engine.CloudQuestion{Context: []int32{1}})
		assert.NoError(t, err) // the service has then handled what came before
		assert.LessOrEqual(t, service.Stats().Sessions, 1, "sessions that nothing ended")
		service.Close()
	})
	f, err := gguf.Parse(demo.Router())
	require.NoError(t, err)
	net, err := router.ReadNet(f)
	require.NoError(t, err)
	set, err := task.Open(task.Demo, task.Options{Most: questions})
	require.NoError(t, err)
	return Options{
		Edge: opened(t, demo.Small()), Far: service, Context: 512, Set: set, Runs: runs, Net: net, MaxTokens: 64,
		Judge:    judge.Fingerprint(),
		Parallel: 2, Log: NewLog(Settings{Runs: Names(runs)}, About{}), Pause: time.Microsecond,
	}
}

// at returns a run with a threshold.
func at(p router.Policy, threshold float64) Run { return Run{Policy: p, Threshold: &threshold} }

// someRuns returns runs of each kind.
func someRuns() []Run {
	return []Run{
		{Policy: router.Never}, {Policy: router.Always}, at(router.Random, 0.3), at(router.Margin, 0.3),
		at(router.Margin, 0.31), at(router.Margin, 0.9), at(router.Learned, 0.5),
		{Policy: router.Learned, Budget: 0.07},
	}
}

// without returns an answer without fields that depend on chance or on other runs.
func without(a Answer) Answer {
	a.Milliseconds, a.Same = 0, ""
	return a
}

// TestRunNames: the name of a run contains the policy with its threshold or budget to the last digit, so that runs in a
// file of answers differ.
func TestRunNames(t *testing.T) {
	assert.Equal(t, []string{"never", "always", "random 0.3", "margin 0.3", "margin 0.31", "margin 0.9", "learned 0.5",
		"learned 7%"}, Names(someRuns()))
	near := []float64{0.9999251, 0.99992511}
	assert.Equal(t, []string{"learned 0.9999251", "learned 0.99992511", "margin 0.5%", "margin 100%",
		"margin 12.34567%", "margin 12.34568%"}, Names([]Run{
		{Policy: router.Learned, Threshold: &near[0]}, {Policy: router.Learned, Threshold: &near[1]},
		{Policy: router.Margin, Budget: 0.005}, {Policy: router.Margin, Budget: 1},
		{Policy: router.Margin, Budget: 0.1234567}, {Policy: router.Margin, Budget: 0.1234568},
	}))
}

// checkAnswer checks the fields of an answer to q that depend on each other.
func checkAnswer(t *testing.T, q task.Question, a Answer) {
	t.Helper()
	assert.Equal(t, "end", a.Stop)
	assert.Equal(t, q.Grade(a.Text()).String(), a.Verdict)
	assert.Empty(t, a.Pieces[len(a.Pieces)-1], "the end token has no text")
	assert.Positive(t, a.Milliseconds)
	assert.Equal(t, strings.Count(a.Origins, "c"), a.Asks)
	assert.Equal(t, strings.Count(a.Origins, "e"), a.Audited, "%s %s: all edge tokens are compared", q.ID, a.Run)
	for _, i := range a.Missed {
		assert.Equal(t, byte('e'), a.Origins[i])
	}
	for _, i := range a.Needless {
		assert.Equal(t, byte('c'), a.Origins[i])
	}
}

// answerAlone returns the answer of run r to q without other questions and runs.
func answerAlone(t *testing.T, o Options, q task.Question, r Run) Answer {
	t.Helper()
	o.Runs, o.Log, o.Progress = []Run{r}, NewLog(Settings{}, About{}), nil
	o.Set = &task.Set{Questions: []task.Question{q}}
	require.NoError(t, o.Run(t.Context()))
	a, _ := o.Log.Answer(q.ID, r.Name())
	return a
}

// TestAnswers: the fields of answers are consistent and equal those of plain decoding. An answer that is shared by
// thresholds equals a decoded one.
func TestAnswers(t *testing.T) {
	o := demoOptions(t, 6, someRuns()...)
	var last atomic.Int64
	o.Progress = func(done, total int) {
		assert.Equal(t, 48, total)
		assert.EqualValues(t, done, last.Add(1))
	}
	require.NoError(t, o.Run(t.Context()))
	assert.EqualValues(t, 48, last.Load())
	same, needless, missed, rights := 0, 0, 0, 0
	for _, q := range o.Set.Questions {
		for _, r := range o.Runs {
			a, ok := o.Log.Answer(q.ID, r.Name())
			require.True(t, ok)
			require.NoError(t, a.checkConsistency(Names(o.Runs)))
			checkAnswer(t, q, a)
			needless, missed = needless+len(a.Needless), missed+len(a.Missed)
			if a.Verdict == "right" {
				rights++
			}
			if a.Same != "" {
				same++
			}
			if r.Budget == 0 { // earlier questions count in a budget: see TestBudget
				assert.Equal(t, without(answerAlone(t, o, q, r)), without(a), "%s %s", q.ID, a.Run)
			}
		}
		never, _ := o.Log.Answer(q.ID, "never")
		always, _ := o.Log.Answer(q.ID, "always")
		agreed := len(always.Needless) == len(always.Tokens)
		assert.Equal(t, slices.Equal(never.Tokens, always.Tokens), agreed, "for equal texts no ask is needed")
	}
	assert.Positive(t, same, "thresholds 0.3 and 0.31 share some answers")
	assert.Positive(t, needless)
	assert.Positive(t, missed)
	assert.Greater(t, rights, 24)
	never, _ := o.Log.Answer("1", "never")
	assert.NotContains(t, never.Origins, "c")
	always, _ := o.Log.Answer("1", "always")
	assert.NotContains(t, always.Origins, "e")
}

// TestJudged: if a token stands only with certainty, the text is the large model's own; each token that is replaced is
// the large model's, and one in doubt may stand.
func TestJudged(t *testing.T) {
	o := demoOptions(t, 8, Run{Policy: router.Always}, at(router.Judged, 1), at(router.Judged, 0.5))
	require.NoError(t, o.Run(t.Context()))
	cloud := [3]int{}
	for _, q := range o.Set.Questions {
		var all [3]Answer
		for i, r := range o.Runs {
			a, ok := o.Log.Answer(q.ID, r.Name())
			require.True(t, ok)
			require.NoError(t, a.checkConsistency(Names(o.Runs)))
			all[i] = a
			cloud[i] += a.cloudChoiceCount(r)
		}
		assert.Equal(t, all[0].Tokens, all[1].Tokens)
	}
	assert.Greater(t, cloud[0], cloud[1])
	assert.Greater(t, cloud[1], cloud[2])
	assert.Positive(t, cloud[2])
}

// TestSame: an answer holds for all thresholds above the confidence of every escalated token, up to the min confidence
// of the kept ones.
func TestSame(t *testing.T) {
	a := Answer{Run: "margin 0.5", Tokens: []int32{1}}
	d := &questionDecoder{known: []knownAnswer{{router.Margin, 0.25, 0.75, a}}}
	for threshold, known := range map[float64]bool{0.25: false, 0.26: true, 0.75: true, 0.76: false} {
		got, ok := d.findSameDecisions(at(router.Margin, threshold))
		assert.Equal(t, known, ok, threshold)
		if known {
			assert.Equal(t, at(router.Margin, threshold).Name(), got.Run)
			assert.Equal(t, "margin 0.5", got.Same)
		}
		_, ok = d.findSameDecisions(at(router.Entropy, threshold))
		assert.False(t, ok)
	}
	verified := at(router.Margin, 0.5)
	verified.Verify = new(0.0)
	_, ok := d.findSameDecisions(verified)
	assert.False(t, ok, "verification changes the tokens")
	_, ok = d.findSameDecisions(Run{Policy: router.Margin, Budget: 0.5})
	assert.False(t, ok)
	var k answerBuilder
	k.known = knownAnswer{above: -1, most: 2}
	for _, e := range []struct {
		origin     string
		confidence float32
	}{{"cloud", 0.25}, {"edge", 0.75}, {"cloud", 0.125}, {"edge", 0.875}} {
		k.addToken(tokenOf(e.origin, e.confidence))
	}
	assert.Equal(t, 0.25, k.known.above)
	assert.Equal(t, 0.75, k.known.most)
}

// TestTurns: a question that spent nothing releases the next one, too.
func TestTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) { // so that waiting for ever is a failure
		r := Run{Policy: router.Margin, Budget: 0.07}
		w := newDeviceTurns([]Run{r}, make([]task.Question, 2*slots+1))
		w.finishTurn(r, 0, &router.Answer{Tokens: 9})
		w.finishTurn(r, slots, nil)
		balance, err := w.waitForTurn(t.Context(), r, 2*slots)
		require.NoError(t, err)
		assert.Equal(t, 9, balance.Total().Tokens)
		balance, err = w.waitForTurn(t.Context(), r, 1)
		require.NoError(t, err)
		assert.Zero(t, balance.Total().Tokens, "of another device")
	})
}

// checkSpending answers the questions of run r one after the other for each device, with the balance of its earlier
// questions: the answers equal those of o, and each device exceeds the budget by no more than it lends.
func checkSpending(t *testing.T, o Options, r Run) {
	t.Helper()
	var balances [slots]*router.Balance
	var spent [slots]int
	for i, q := range o.Set.Questions {
		a, _ := o.Log.Answer(q.ID, r.Name())
		require.NotNil(t, a.Spent)
		alone := o
		alone.Set = &task.Set{Name: o.Set.Name, Questions: []task.Question{q}}
		w := &evaluation{Options: alone, turns: newDeviceTurns([]Run{r}, alone.Set.Questions)}
		if i < slots {
			balances[i] = new(router.Balance)
		}
		device := i % slots
		w.turns.balance[r.Name()][0] = balances[device]
		s, err := w.Edge.NewSession()
		require.NoError(t, err)
		w.Log, w.Runs = NewLog(Settings{}, About{}), []Run{r}
		require.NoError(t, w.answerQuestion(t.Context(), s, 0))
		again, _ := w.Log.Answer(q.ID, r.Name())
		require.Equal(t, without(a), without(again),
			"question %d of %s: with the spent budget of earlier questions", i, r.Name())
		spent[device] += a.cloudTokenCount()
		total := balances[device].Total()
		assert.LessOrEqual(t, float64(total.Escalations), r.Budget*float64(total.Tokens)+2)
		assert.GreaterOrEqual(t, total.Escalations, spent[device])
	}
	var sum router.Total
	for _, b := range balances {
		sum.Tokens, sum.Escalations = sum.Tokens+b.Total().Tokens, sum.Escalations+b.Total().Escalations
	}
	assert.Greater(t, sum.Share(), 0.1*r.Budget, "%s: some of the budget of short histories is used", r.Name())
}

// runWithStop runs o in a log that is closed after 50 answers and opened again.
func runWithStop(t *testing.T, o *Options) {
	t.Helper()
	path := filepath.Join(held.TempDir(t), "answers")
	settings := Settings{Task: "demo", Runs: Names(o.Runs)}
	var err error
	o.Log, err = OpenLog(path, settings, About{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	o.Progress = func(done, _ int) {
		if done == 50 {
			stop()
		}
	}
	require.ErrorIs(t, o.Run(ctx), context.Canceled)
	require.NoError(t, o.Log.Close())
	o.Progress = nil
	o.Log, err = OpenLog(path, settings, About{})
	require.NoError(t, err)
	require.NoError(t, o.Run(t.Context()))
	require.NoError(t, o.Log.Close())
}

// TestBudget: runs with a budget answer the questions of a device one after the other, in parallel with other devices
// and runs or after a stop: they give the same answers as devices that are alone. Each exceeds the budget by no more
// than it lends.
func TestBudget(t *testing.T) {
	racing.Spare(t)
	budgets := []Run{
		{Policy: router.Margin, Budget: 0.07}, {Policy: router.Random, Budget: 0.2},
		{Policy: router.Learned, Budget: 0.07},
	}
	if racing.Enabled { // a run with a budget takes the same steps as any other
		budgets = budgets[:1]
	}
	runs := append([]Run{{Policy: router.Never}}, budgets...)
	want := demoOptions(t, 20, runs...)
	want.Parallel = 1
	require.NoError(t, want.Run(t.Context()))
	for _, r := range budgets {
		checkSpending(t, want, r)
	}
	for _, parallel := range []int{0, 3} {
		o := demoOptions(t, 20, runs...)
		o.Parallel = parallel
		runWithStop(t, &o)
		for _, q := range want.Set.Questions {
			for _, r := range runs {
				a, _ := want.Log.Answer(q.ID, r.Name())
				b, _ := o.Log.Answer(q.ID, r.Name())
				require.Equal(t, without(a), without(b))
			}
		}
	}
}

// TestExpected: a budget of the learned policy begins with the confidences that are expected, and other policies do
// not.
func TestExpected(t *testing.T) {
	origins := func(r Run, expected ...float32) (all []string) {
		o := demoOptions(t, 3, r)
		for range 500 {
			o.Expected = append(o.Expected, expected...)
		}
		require.NoError(t, o.Run(t.Context()))
		for _, q := range o.Set.Questions {
			a, _ := o.Log.Answer(q.ID, r.Name())
			all = append(all, a.Origins)
		}
		return all
	}
	learned := Run{Policy: router.Learned, Budget: 0.3}
	none := origins(learned)
	assert.NotEqual(t, origins(learned, 0.01), origins(learned, 0.99))
	assert.Equal(t, none, origins(learned))
	margin := Run{Policy: router.Margin, Budget: 0.3}
	assert.Equal(t, origins(margin), origins(margin, 0.01))
}

// TestNoRoom: a question that does not fit the context has an empty answer; other questions are not affected.
func TestNoRoom(t *testing.T) {
	o := demoOptions(t, 3, Run{Policy: router.Never}, at(router.Margin, 0.5))
	o.Set.Questions[1].Text = strings.Repeat("Where does it live? ", 200)
	o.Set.Questions = append(o.Set.Questions, task.Question{ID: "open", Text: o.Set.Questions[1].Text})
	require.NoError(t, o.Run(t.Context()))
	for _, r := range o.Runs {
		a, _ := o.Log.Answer("2", r.Name())
		assert.Equal(t, Answer{Question: "2", Run: r.Name(), Verdict: "silent", Stop: StopNoRoom,
			Pieces: []string{}}, a)
		open, _ := o.Log.Answer("open", r.Name())
		assert.Empty(t, open.Verdict)
		b, _ := o.Log.Answer("3", r.Name())
		assert.Equal(t, "end", b.Stop)
	}
	r := Summarize(o.Set, o.Runs, o.Log)
	assert.Equal(t, 4, r.Questions)
	assert.Equal(t, 1, *r.Runs[0].Silent)
}

// TestLongest: an answer ends at the end of the smaller context of both models.
func TestLongest(t *testing.T) {
	o := demoOptions(t, 1, at(router.Margin, 0.9), Run{Policy: router.Always}, Run{Policy: router.Never})
	prompt, err := (&evaluation{Options: o}).tokenizeQuestion(o.Set.Questions[0])
	require.NoError(t, err)
	o.Context = len(prompt)
	require.NoError(t, o.Run(t.Context()))
	a, _ := o.Log.Answer("1", "always")
	assert.Equal(t, StopNoRoom, a.Stop)
	for most, want := range map[int]int{0: 7, 5: 5, 9: 7} {
		o.Context, o.MaxTokens, o.Log = len(prompt)+7, most, NewLog(Settings{}, About{})
		require.NoError(t, o.Run(t.Context()))
		for _, r := range o.Runs {
			a, _ := o.Log.Answer("1", r.Name())
			assert.Len(t, a.Tokens, want)
			assert.Equal(t, "length", a.Stop)
		}
	}
}

// TestCut: an answer that the limit ends is counted as cut, and is right only if its conclusion stands before the end.
func TestCut(t *testing.T) {
	o := demoOptions(t, 6, Run{Policy: router.Always})
	o.MaxTokens = 20 // the demo's grader needs whole answers
	require.NoError(t, o.Run(t.Context()))
	r := Summarize(o.Set, o.Runs, o.Log).Runs[0]
	assert.Zero(t, *r.Right)
	assert.Equal(t, 6, *r.Silent)
	assert.Equal(t, 6, *r.Cut)

	path := filepath.Join(held.TempDir(t), "q.jsonl")
	line := fmt.Sprintf(`{"question":%q,"answer":%q}`, o.Set.Questions[0].Text,
		strings.Split(o.Set.Questions[0].Key, ",")[0])
	require.NoError(t, os.WriteFile(path, []byte(line), 0o600))
	set, err := task.Open(path, task.Options{})
	require.NoError(t, err)
	o.Set, o.Log = set, NewLog(Settings{Runs: Names(o.Runs)}, About{})
	require.NoError(t, o.Run(t.Context()))
	r = Summarize(o.Set, o.Runs, o.Log).Runs[0]
	assert.Equal(t, 1, *r.Right)
	assert.Zero(t, *r.Silent)
	assert.Equal(t, 1, *r.Cut)
}

// TestRawAndShots: a raw question is a text to continue, and the answer ends where the next question begins. Worked
// examples are a chat before the question.
func TestRawAndShots(t *testing.T) {
	o := demoOptions(t, 1, Run{Policy: router.Never})
	o.Set.Shots = []task.Question{{Text: "How?", Reference: "So."}}
	w := &evaluation{Options: o}
	chat, err := w.tokenizeQuestion(o.Set.Questions[0])
	require.NoError(t, err)
	tokens, err := o.Edge.Tokenizer()
	require.NoError(t, err)
	assert.Regexp(t, `(?s)How\?.*So\..*`+regexp.QuoteMeta(o.Set.Questions[0].Text), tokens.Decode(chat))
	w.Raw = true
	raw, err := w.tokenizeQuestion(o.Set.Questions[0])
	require.NoError(t, err)
	want, err := o.Edge.RawPrompt(o.Set.Raw(o.Set.Questions[0]))
	require.NoError(t, err)
	assert.Equal(t, want, raw)
	assert.Less(t, len(raw), len(chat))

	path := filepath.Join(held.TempDir(t), "q.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"question":"How many?","answer":"#### 3"}`), 0o600))
	w.Set, err = task.Open(task.GSM8K, task.Options{Data: path})
	require.NoError(t, err)
	went := &Answer{Pieces: []string{" 3\nQues", "tion: How"}, Stop: "length"}
	assert.Equal(t, " 3", w.gradedText(went))
	assert.Equal(t, StopNext, went.Stop)
	went.Pieces = []string{" 3\nQues", "tion"}
	went.Stop = "length"
	assert.Equal(t, went.Text(), w.gradedText(went))
	assert.True(t, went.wasCut())
	w.Raw = false
	assert.Equal(t, went.Text(), w.gradedText(went))
}

// TestTaker: the rest of an incomplete character belongs to the last token; a question without an answer is known.
func TestTaker(t *testing.T) {
	k := &answerBuilder{prompt: 10, until: 12, a: Answer{Tokens: []int32{1, 2, 3, 4, 5, 6}, Pieces: []string{"a", "b"},
		Origins: "eeeeee"}}
	far := fixed{engine.CloudAnswer{Reply: terms.Reply{Audited: 4,
		Audit: []engine.CloudFinding{{Pos: 13}}}}}
	require.NoError(t, k.auditRest(t.Context(), far, make([]int32, 10)))
	assert.Equal(t, 4, k.a.Audited)
	assert.Equal(t, []int{3}, k.a.Missed)
	k.addSummary(engine.Summary{Text: "ab\ufffd", Stop: "length"})
	assert.Equal(t, []string{"a", "b\ufffd"}, k.a.Pieces)
	k.addEscalation(&draft.Escalation{Outcome: draft.Dropped})
	assert.NoError(t, k.failed)
	why := errors.New("dead")
	k.addEscalation(&draft.Escalation{Outcome: draft.Failed, Err: why})
	assert.ErrorIs(t, k.failed, why)
}

// TestRest: the tokens after the last question are compared. Positions before them do not count, and neither do tokens
// that are the large model's own.
func TestRest(t *testing.T) {
	for name, c := range map[string]struct {
		origins         string
		until           int
		audited, counts int
	}{
		"all":                    {"eeee", 0, 4, 4},
		"more than were asked":   {"eeee", 0, 9, 4},
		"fewer":                  {"eeee", 0, 2, 2},
		"none":                   {"eeee", 0, 0, 0},
		"the rest":               {"eeee", 12, 2, 2},
		"more than the rest":     {"eeee", 12, 4, 2},
		"the large model's":      {"ecec", 0, 4, 2},
		"of which in the rest":   {"ccec", 12, 2, 1},
		"nothing is left to ask": {"eeee", 14, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := &answerBuilder{prompt: 10, until: c.until, a: Answer{Tokens: make([]int32, 4), Origins: c.origins}}
			far := &fixed{engine.CloudAnswer{Reply: terms.Reply{Audited: c.audited}}}
			require.NoError(t, k.auditRest(t.Context(), far, make([]int32, 10)))
			assert.Equal(t, c.counts, k.a.Audited)
		})
	}
}

// fixed is a large model that always gives the same answer.
type fixed struct{ a engine.CloudAnswer }

func (f fixed) Ask(context.Context, engine.CloudQuestion) (engine.CloudAnswer, error) {
	return f.a, nil
}

// TestSampling: with a temperature, equal seeds give equal answers and different seeds different ones.
func TestSampling(t *testing.T) {
	racing.Spare(t)
	o := demoOptions(t, 3, at(router.Random, 0.5))
	answers := func(seed uint64, temperature float64) (all []Answer) {
		o.Sampling, o.Log = terms.Sampling{Temperature: temperature, Seed: seed}, NewLog(Settings{}, About{})
		require.NoError(t, o.Run(t.Context()))
		for _, q := range o.Set.Questions {
			a, _ := o.Log.Answer(q.ID, "random 0.5")
			all = append(all, without(a))
		}
		return all
	}
	one := answers(1, 1.5)
	assert.Equal(t, one, answers(1, 1.5))
	assert.NotEqual(t, one, answers(2, 1.5))
	greedy := answers(1, 0)
	assert.NotEqual(t, one, greedy)
	assert.NotEqual(t, greedy[0].Origins, answers(2, 0)[0].Origins, "the policy random uses the seed, too")
	o.Set.Questions[1].Text = o.Set.Questions[0].Text
	greedy = answers(1, 0)
	assert.NotEqual(t, greedy[0].Origins, greedy[1].Origins, "each question has its own random numbers")
}

// flaky is a large model that fails a number of times at first, in Ask or already in Session.
type flaky struct {
	engine.Far
	asks, sessions atomic.Int32
}

func (f *flaky) Session(ctx context.Context) (engine.Cloud, func(), error) {
	if f.sessions.Add(-1) >= 0 {
		return nil, nil, errors.New("no session")
	}
	c, end, err := f.Far.Session(ctx)
	return &flakyCloud{c, f}, end, err
}

type flakyCloud struct {
	engine.Cloud
	f *flaky
}

func (c *flakyCloud) Ask(ctx context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
	if c.f.asks.Add(-1) >= 0 {
		return engine.CloudAnswer{}, errors.New("the line is dead")
	}
	return c.Cloud.Ask(ctx, q)
}

// TestInsists: an answer without a token of the large model is decoded again. If the token is still missing after all
// attempts, the result is an error, and no incomplete answer is kept.
func TestInsists(t *testing.T) {
	o := demoOptions(t, 1, at(router.Margin, 0.9), Run{Policy: router.Never})
	require.NoError(t, o.Run(t.Context()))
	want, _ := o.Log.Answer("1", "margin 0.9")
	for name, c := range map[string]struct {
		asks, sessions int32 // that fail
		fails          bool
	}{
		"three asks":     {3, 0, false},
		"three sessions": {0, 3, false},
		"all asks":       {4, 0, true},
		"all sessions":   {0, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &flaky{Far: o.Far}
			f.asks.Store(c.asks)
			f.sessions.Store(c.sessions)
			again := o
			again.Far, again.Log, again.Runs = f, NewLog(Settings{}, About{}), o.Runs[:1]
			err := again.Run(t.Context())
			if c.fails {
				require.ErrorContains(t, err, "question 1, margin 0.9: the large model gave no answer: ")
				assert.Zero(t, again.Log.Answers())
				return
			}
			require.NoError(t, err)
			got, _ := again.Log.Answer("1", "margin 0.9")
			assert.Equal(t, without(want), without(got))
		})
	}
	f := &flaky{Far: o.Far} // the comparison of the small model's own text counts, too
	f.asks.Store(1)
	o.Far, o.Log, o.Runs = f, NewLog(Settings{}, About{}), o.Runs[1:]
	require.NoError(t, o.Run(t.Context()))
	assert.EqualValues(t, -1, f.asks.Load())
	stopped, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	f.asks.Store(100)
	o.Log, o.Pause = NewLog(Settings{}, About{}), time.Hour
	go cancel(why)
	assert.ErrorIs(t, o.Run(stopped), why, "a pause ends with the context")
}

// TestInsistsWithBudget: a question that is decoded again does not change what later questions may spend.
func TestInsistsWithBudget(t *testing.T) {
	budget := demoOptions(t, 1, Run{Policy: router.Margin, Budget: 0.2})
	question, far := budget.Set.Questions[0], budget.Far
	budget.Set = &task.Set{Name: budget.Set.Name}
	for i := range 4 {
		q := question
		q.ID = fmt.Sprint(i)
		budget.Set.Questions = append(budget.Set.Questions, q)
	}
	var spent [2][]Answer
	for i, far := range []engine.Far{far, &flaky{Far: far}} {
		budget.Far, budget.Log = far, NewLog(Settings{}, About{})
		if f, ok := far.(*flaky); ok {
			f.asks.Store(3)
		}
		require.NoError(t, budget.Run(t.Context()))
		for _, q := range budget.Set.Questions {
			a, _ := budget.Log.Answer(q.ID, budget.Runs[0].Name())
			spent[i] = append(spent[i], without(a))
		}
	}
	assert.Equal(t, spent[0], spent[1], "a failed attempt uses nothing of the budget")
}

// TestStopped: an error that ends a call early is returned, and graded answers stay in the log.
func TestStopped(t *testing.T) {
	o := demoOptions(t, 20, Run{Policy: router.Never}, at(router.Margin, 0.9))
	o.Parallel = 1
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	o.Progress = func(done, _ int) {
		if done == 7 {
			cancel(why)
		}
	}
	require.ErrorIs(t, o.Run(ctx), why)
	assert.GreaterOrEqual(t, o.Log.Answers(), 7)
	assert.Less(t, o.Log.Answers(), 12)
	r := Summarize(o.Set, o.Runs, o.Log)
	assert.GreaterOrEqual(t, r.Questions, 3, "a question is finished before the next one begins")
	assert.Equal(t, 20, r.Asked)
	last, end := context.WithCancelCause(t.Context())
	o.Set = &task.Set{Name: o.Set.Name, Questions: o.Set.Questions[:3]}
	o.Progress = func(done, total int) {
		if done == total {
			end(why)
		}
	}
	assert.NoError(t, o.Run(last), "it ended too late to matter")
}

// logged returns the answers in a file, in order, without fields that depend on chance.
func logged(t *testing.T, path string) (all []Answer) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	rows := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for _, row := range rows[1:] {
		var a Answer
		require.NoError(t, json.Unmarshal([]byte(row), &a), row)
		all = append(all, without(a))
	}
	slices.SortFunc(all, func(a, b Answer) int { return strings.Compare(a.Question+" "+a.Run, b.Question+" "+b.Run) })
	return all
}

// TestGoesOn: a file that was cut at any byte is completed to the same answers as one that was not.
func TestGoesOn(t *testing.T) {
	racing.Spare(t)
	o := demoOptions(t, 4, at(router.Margin, 0.3), at(router.Margin, 0.9), Run{Policy: router.Never})
	dir := held.TempDir(t)
	settings := Settings{Task: "demo", Runs: Names(o.Runs)}
	whole := filepath.Join(dir, "whole")
	run := func(path string) {
		var err error
		o.Log, err = OpenLog(path, settings, About{Version: "1"})
		require.NoError(t, err)
		require.NoError(t, o.Run(t.Context()))
		require.NoError(t, o.Log.Close())
	}
	run(whole)
	want := logged(t, whole)
	require.Len(t, want, 12)
	b, err := os.ReadFile(whole)
	require.NoError(t, err)
	for i, cut := range []int{0, 1, 12, strings.Index(string(b), "\n"), strings.Index(string(b), "\n") + 1, len(b) / 2,
		len(b)/2 + 777, len(b) - 1, len(b)} {
		path := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.WriteFile(path, b[:cut], 0o600))
		run(path)
		assert.Equal(t, want, logged(t, path), "cut after %d bytes", cut)
	}
	before := o.Log.Answers()
	run(whole)
	after, err := os.ReadFile(whole)
	require.NoError(t, err)
	assert.Equal(t, string(b), string(after), "no question is repeated")
	assert.Equal(t, 12, before)
}
