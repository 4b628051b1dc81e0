package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/backoff"
	"github.com/pilotfish-ai/pilotfish/internal/wait"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// StopNoRoom is the [Answer.Stop] of a question that does not fit the context: there is no answer.
const StopNoRoom = "no room"

// Answer is what became of one question in one run.
type Answer struct {
	Question string   `json:"question"`          // its id
	Run      string   `json:"run"`               // [Run.Name]
	Verdict  string   `json:"verdict,omitempty"` // right, wrong or silent; absent where there is no right answer
	Stop     string   `json:"stop"`              // why it ended: end, length, context, or [StopNoRoom]
	Tokens   []int32  `json:"tokens"`            // an end token included
	Pieces   []string `json:"pieces"`            // the text that each of them adds
	Origins  string   `json:"origins"`           // who chose each: e, the small model, or c, the large one
	// of the tokens e, those where the large model would have chosen another
	Missed   []int `json:"missed,omitempty"`
	Needless []int `json:"needless,omitempty"` // of the tokens c, those that the small model would have chosen, too
	Audited  int   `json:"audited,omitempty"`  // tokens e that the large model compared
	// the same by weight, where the tokens that it compared were drawn at random: how many they stand for
	AuditedFor int `json:"audited_for,omitempty"`
	MissedFor  int `json:"missed_for,omitempty"`

	Asks int `json:"asks,omitempty"` // questions to the large model
	// tokens that needed no asking, as another answer told; those of the small model that verification replaced; those
	// that the large model decoded on by itself
	Known  int `json:"known,omitempty"`
	Turned int `json:"turned,omitempty"`
	Ahead  int `json:"ahead,omitempty"`

	Read int `json:"read,omitempty"` // tokens that it had to have read for them: prompt and answer before the last one
	Up   int `json:"up,omitempty"`   // bytes of these
	Down int `json:"down,omitempty"`

	Spent *router.Answer `json:"spent,omitempty"` // of a budget

	Same string `json:"same,omitempty"` // the run whose decisions are the same here: its answer, its figures
	// until the answer was complete; the only field that chance has a part in
	Milliseconds float64 `json:"ms"`
}

// Text is the whole answer.
func (a *Answer) Text() string { return strings.Join(a.Pieces, "") }

// cloudTokens counts the tokens that the large model chose.
func (a *Answer) cloudTokens() int { return strings.Count(a.Origins, "c") }

// The letters of [Answer.Origins].
func letter(o draft.Origin) byte {
	if o == draft.FromCloud {
		return 'c'
	}
	return 'e'
}

// decoding is one question in all runs.
type decoding struct {
	*work
	session  *engine.Session
	question task.Question
	prompt   []int32
	known    []decided
	balance  *router.Balance // before this question, of the run that answers it, where that has a budget
}

// decided is an answer with the thresholds of its policy that lead to it: above the confidence of each token that was
// asked for, and at most that of each token that was kept.
type decided struct {
	policy      router.Policy
	ahead       int
	above, most float64
	answer      Answer
}

// hold has the large model read the prompt, and keep it until release is called: all runs share it then, each in a
// session of its own. If it cannot, each run has it read again, and so it is if there is only one.
func (d *decoding) hold(ctx context.Context) (release func()) {
	there := func(r Run) bool { return d.Log.has(d.question.ID, r.Name()) }
	if len(d.prompt) >= d.Context || len(slices.DeleteFunc(slices.Clone(d.Runs), there)) < 2 {
		return func() {}
	}
	far, release, err := d.Far.Session(ctx)
	if err != nil {
		return func() {}
	}
	far.Ask(ctx, engine.CloudQuestion{Context: d.prompt}) // the answer is not needed
	return release
}

// answer decodes and grades. An answer that is known under another threshold is not decoded again.
func (d *decoding) answer(ctx context.Context, r Run) (Answer, error) {
	if len(d.prompt) >= d.Context {
		a := Answer{Question: d.question.ID, Run: r.Name(), Stop: StopNoRoom, Tokens: []int32{}, Pieces: []string{}}
		if d.question.Grade != nil {
			a.Verdict = task.Silent.String()
		}
		return a, nil
	}
	if same, ok := d.same(r); ok {
		return same, nil
	}
	a, err := d.insist(ctx, r)
	if err != nil {
		return a, err
	}
	if d.question.Grade != nil {
		verdict, err := d.question.Judge(ctx, d.said(&a))
		if err != nil {
			return a, err
		}
		a.Verdict = verdict.String()
	}
	if r.shares() {
		d.known[len(d.known)-1].answer = a
	}
	return a, nil
}

// shares reports whether an answer can be that of another threshold. With verification, what was asked for is not only
// up to the tokens that remain.
func (r Run) shares() bool { return r.Threshold != nil && r.Verify == nil }

// said is the text that is graded: of a text that went on, what comes before the next question.
func (w *work) said(a *Answer) string {
	if w.Raw {
		return w.Set.Cut(a.Text())
	}
	return a.Text()
}

// same is the answer of another threshold whose decisions this run would make, too.
func (d *decoding) same(r Run) (Answer, bool) {
	for _, k := range d.known {
		if r.shares() && k.policy == r.Policy && k.ahead == r.Ahead && k.above < *r.Threshold &&
			*r.Threshold <= k.most {
			a := k.answer
			a.Run, a.Same = r.Name(), k.answer.Run
			return a, true
		}
	}
	return Answer{}, false
}

// unanswered says that the cloud left a question without an answer.
type unanswered struct{ err error }

func (u *unanswered) Error() string { return "the large model gave no answer: " + u.err.Error() }
func (u *unanswered) Unwrap() error { return u.err }

// insist decodes, and tries again where the cloud does not answer: an answer with tokens of the small model in place of
// those that were asked for would be graded as another run's.
func (d *decoding) insist(ctx context.Context, r Run) (Answer, error) {
	for try := 1; ; try++ {
		a, err := d.decode(ctx, r)
		if _, again := errors.AsType[*unanswered](err); !again || try == tries {
			return a, err
		}
		if err := wait.For(ctx, backoff.Delay(try, d.Pause, time.Hour)); err != nil {
			return a, err
		}
	}
}

// decode answers the question once.
func (d *decoding) decode(ctx context.Context, r Run) (a Answer, err error) {
	far, end, err := d.Far.Session(ctx)
	if err != nil {
		return a, &unanswered{err}
	}
	defer end()
	t := &taker{prompt: len(d.prompt), known: decided{policy: r.Policy, ahead: r.Ahead, above: -1, most: 2}}
	t.a = Answer{Question: d.question.ID, Run: r.Name()}
	route, err := d.route(r, far)
	if err != nil {
		return a, err
	}
	route.Observe = t.take
	begin := time.Now()
	for token, err := range d.session.Routed(ctx, d.prompt, route) {
		switch {
		case err != nil:
			return a, err
		case t.failed != nil:
			return a, &unanswered{t.failed}
		}
		t.a.Pieces[len(t.a.Pieces)-1] = token.Text
	}
	if t.failed != nil {
		return a, &unanswered{t.failed}
	}
	t.a.Milliseconds = float64(time.Since(begin).Microseconds()) / 1000
	if r.Budget > 0 {
		t.a.Spent = new(d.session.Summary().Spent)
	}
	t.finish(d.session.Summary())
	if err := t.auditRest(ctx, far, d.prompt); err != nil {
		return a, err
	}
	if r.shares() {
		d.known = append(d.known, t.known)
	}
	return t.a, nil
}

// route is how a run decodes: token by token, all of it told.
func (d *decoding) route(r Run, far draft.Cloud) (route engine.Route, err error) {
	sampling := d.Sampling
	sampling.Seed = seedOf(d.Sampling.Seed, d.question.ID)
	route = engine.Route{
		Settings: terms.Settings{MaxTokens: d.maxTokens()}.With(sampling),
		Draft:    engine.DraftOptions{Mode: engine.Serial, Deadline: -1, Audit: true, Warm: -1, Ahead: r.Ahead},
	}
	if r.Verify != nil {
		route.Cloud, route.Draft.Verify, route.Draft.Margin, route.Draft.VerifyEvery = far, true, *r.Verify, d.Every
	}
	if r.Policy != router.Never {
		route.Cloud = far
		route.Router, err = d.router(r, sampling.Seed)
	}
	return route, err
}

// router makes the router of a run. Where chance decides it begins with seed. An attempt that fails spends nothing.
func (d *decoding) router(r Run, seed uint64) (*router.Router, error) {
	o := router.Options{Policy: r.Policy, Threshold: r.Threshold, Budget: r.Budget, Seed: seed}
	if r.Policy == router.Learned {
		o.Net = d.Net
	}
	if r.Budget > 0 {
		o.Balance = d.balance.Clone()
		if r.Policy == router.Learned {
			o.Calibration = d.Expected
		}
	}
	return router.New(o)
}

// maxTokens is how long an answer may be.
func (d *decoding) maxTokens() int {
	room := d.Context - len(d.prompt)
	if d.MaxTokens == 0 {
		return room
	}
	return min(d.MaxTokens, room)
}

// taker makes an answer of the events of decoding.
type taker struct {
	prompt int // length in tokens
	a      Answer
	known  decided
	until  int   // position up to which the large model has compared the tokens
	failed error // why a question to the large model has no answer
}

// take notes an event.
func (t *taker) take(e draft.Event) {
	switch {
	case e.Token != nil:
		t.token(e.Token)
	case e.Escalation != nil:
		t.escalation(e.Escalation)
	case e.Turn != nil:
		t.a.Turned++
	case e.Ahead != nil:
		t.a.Ahead += e.Ahead.Tokens
	}
}

func (t *taker) token(k *draft.Token) {
	t.a.Tokens, t.a.Pieces = append(t.a.Tokens, k.ID), append(t.a.Pieces, "")
	t.a.Origins += string(letter(k.Origin))
	if k.Origin == draft.FromCloud {
		t.known.above = max(t.known.above, float64(k.Confidence))
	} else {
		t.known.most = min(t.known.most, float64(k.Confidence))
	}
}

func (t *taker) escalation(q *draft.Escalation) {
	t.a.Up, t.a.Down = t.a.Up+q.BytesUp, t.a.Down+q.BytesDown
	switch q.Outcome {
	case draft.Known: // without verification, nothing was compared for it
		t.a.Known++
		t.until = max(t.until, q.AuditedTo)
	case draft.Hit, draft.Miss:
		t.a.Asks++
		if t.a.Read = max(t.a.Read, q.Pos); !q.ByAhead { // else nothing was compared for it
			t.until = q.Pos + 1
		}
	case draft.Dropped:
		t.a.Asks++
		return
	default:
		t.failed = fmt.Errorf("%w", q.Err)
		return
	}
	if q.Local == q.Token {
		t.a.Needless = append(t.a.Needless, q.Pos-t.prompt)
	}
	t.audit(q.Audited, max(1, q.AuditWeight), q.Missed)
}

// audit notes what a comparison found: of so many tokens, each standing for weight tokens.
func (t *taker) audit(audited, weight int, missed []terms.Finding) {
	t.a.Audited, t.a.AuditedFor = t.a.Audited+audited, t.a.AuditedFor+audited*weight
	for _, f := range missed {
		t.a.Missed, t.a.MissedFor = append(t.a.Missed, f.Pos-t.prompt), t.a.MissedFor+weight
	}
}

// finish takes what the whole text has and its tokens do not: the rest of a character that was cut off.
func (t *taker) finish(s engine.Summary) {
	t.a.Stop = s.Stop
	if rest := len(s.Text) - len(t.a.Text()); rest > 0 {
		t.a.Pieces[len(t.a.Pieces)-1] += s.Text[len(s.Text)-rest:]
	}
}

// auditRest has the large model compare what came after its last token. That costs the answer nothing: no bytes of it
// count.
func (t *taker) auditRest(ctx context.Context, far engine.Cloud, prompt []int32) error {
	from, text := max(t.prompt, t.until), append(prompt[:len(prompt):len(prompt)], t.a.Tokens...)
	if from >= len(text) {
		return nil
	}
	answer, err := far.Ask(ctx, engine.CloudQuestion{Context: text, AuditFrom: from})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &unanswered{err}
	}
	audited, weight := min(answer.Audited, len(text)-from), 1
	if answer.Sampled > 0 && audited > 0 {
		audited, weight = 1, audited
	}
	if weight == 1 { // tokens of the large model itself, which were known, are not compared
		audited -= strings.Count(t.a.Origins[from-t.prompt:], "c")
	}
	t.audit(audited, weight, answer.Audit)
	return nil
}
