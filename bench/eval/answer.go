package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Values of [Answer.Stop] besides those of the engine.
const (
	StopNoRoom = "no room"       // the question does not fit into the context: there is no answer
	StopNext   = "next question" // a continued text goes on with another question, which does not belong to the answer
)

// Answer is the result of one question in one run.
type Answer struct {
	Question string `json:"question"`          // its id
	Run      string `json:"run"`               // [Run.Name]
	Verdict  string `json:"verdict,omitempty"` // right, wrong or silent; absent if there is no right answer
	Stop     string `json:"stop"`              // why it ended: end, length, context, [StopNoRoom] or [StopNext]
	// ids, including an end token; they may be left out, since the vocabulary and the pieces give them
	Tokens  []int32  `json:"tokens,omitempty"`
	Pieces  []string `json:"pieces"`  // the text that each token adds
	Origins string   `json:"origins"` // which model chose each: e, the small one, or c, the large one
	// indices of the tokens e where the large model would have chosen another token
	Missed []int `json:"missed,omitempty"`
	// indices of the tokens that were asked for, and that the small model would have chosen too; with verification
	// those that only end a check are e
	Needless []int `json:"needless,omitempty"`
	Audited  int   `json:"audited,omitempty"` // tokens e that the large model compared

	Asks int `json:"asks,omitempty"` // questions to the large model
	// tokens for which an earlier answer made a question unnecessary; tokens of the small model that verification
	// replaced
	Known  int `json:"known,omitempty"`
	Turned int `json:"turned,omitempty"`

	Spent *router.Answer `json:"spent,omitempty"` // of a budget

	Same string `json:"same,omitempty"` // the run with the same decisions: its answer and its figures
	// until the answer was complete; the only field that depends on chance
	Milliseconds float64 `json:"ms"`
}

// Text returns the whole answer.
func (a *Answer) Text() string { return strings.Join(a.Pieces, "") }

// wasCut reports whether a limit ended the answer in the middle.
func (a *Answer) wasCut() bool { return a.Stop == "length" || a.Stop == "context" }

// readTokenCount returns how many tokens of the answer the large model reads: up to its last question, and with
// verification all.
func (a *Answer) readTokenCount(r Run) int {
	if !r.onlyAsks() {
		return len(a.Origins)
	}
	return max(strings.LastIndexByte(a.Origins, 'c'), 0)
}

// Concluding returns how many of the tokens that the large model chose and the small one would not have follow the
// words before a conclusion: see [task.Concludes].
func (a *Answer) Concluding() (n int) {
	text := ""
	for i, piece := range a.Pieces {
		if a.Origins[i] == 'c' && !slices.Contains(a.Needless, i) && task.Concludes(text) {
			n++
		}
		text += piece
	}
	return n
}

// Replaced returns the number of tokens that the large model chose and the small one would not have.
func (a *Answer) Replaced() int {
	n := a.cloudTokenCount()
	for _, i := range a.Needless {
		if a.Origins[i] == 'c' {
			n--
		}
	}
	return n
}

// cloudChoiceCount returns the number of tokens that count as the large model's choice: those that were asked for, and
// with verification those that were replaced.
func (a *Answer) cloudChoiceCount(r Run) int {
	if r.onlyAsks() {
		return a.cloudTokenCount()
	}
	return a.Replaced()
}

func (a *Answer) cloudTokenCount() int { return strings.Count(a.Origins, "c") }

func originLetter(o draft.Origin) byte {
	if o == draft.FromCloud {
		return 'c'
	}
	return 'e'
}

// questionDecoder decodes one question in all runs.
type questionDecoder struct {
	*evaluation
	session  *engine.Session
	question task.Question
	prompt   []int32
	known    []knownAnswer
	balance  *router.Balance // before this question, of the current run, if it has a budget
}

// knownAnswer is an answer with the range of thresholds that lead to it: above the confidence of each token that was
// asked for, and at most that of each token that was kept.
type knownAnswer struct {
	policy      router.Policy
	above, most float64
	answer      Answer
}

// holdPrompt makes the large model read the prompt and keep it in the KV cache until release is called: all runs then
// share it, each in a session of its own. If that fails or there is only one run, each run reads the prompt itself.
func (d *questionDecoder) holdPrompt(ctx context.Context) (release func()) {
	left := 0
	for _, r := range d.Runs {
		if _, there := d.Log.Answer(d.question.ID, r.Name()); !there {
			left++
		}
	}
	if len(d.prompt) >= d.Context || left < 2 {
		return func() {}
	}
	far, release, err := d.Far.Session(ctx)
	if err != nil {
		return func() {}
	}
	far.Ask(ctx, engine.CloudQuestion{Context: d.prompt}) // the answer is not needed
	return release
}

// answerRun decodes and grades. An answer that is known from another threshold is not decoded again.
func (d *questionDecoder) answerRun(ctx context.Context, r Run) (Answer, error) {
	if len(d.prompt) >= d.Context {
		a := Answer{Question: d.question.ID, Run: r.Name(), Stop: StopNoRoom, Pieces: []string{}}
		if d.question.Grade != nil {
			a.Verdict = task.Silent.String()
		}
		return a, nil
	}
	if same, ok := d.findSameDecisions(r); ok {
		return same, nil
	}
	a, err := d.decodeWithRetries(ctx, r)
	if err != nil {
		return a, err
	}
	text := d.gradedText(&a)
	if d.question.Grade != nil {
		verdict, err := d.question.Judge(ctx, text, a.wasCut())
		if err != nil {
			return a, err
		}
		a.Verdict = verdict.String()
	}
	if r.sharesAnswers() {
		d.known[len(d.known)-1].answer = a
	}
	return a, nil
}

// sharesAnswers reports whether a run may share answers with other thresholds. With verification it may not, since
// questions also depend on tokens that are later replaced.
func (r Run) sharesAnswers() bool { return r.Threshold != nil && r.onlyAsks() }

// gradedText returns the text to grade: if a raw text continues with another question, only the part before it, where
// the answer then ended.
func (e *evaluation) gradedText(a *Answer) string {
	text := a.Text()
	if !e.Raw {
		return text
	}
	own := e.Set.Cut(text)
	if own != text {
		a.Stop = StopNext
	}
	return own
}

func (d *questionDecoder) findSameDecisions(r Run) (Answer, bool) {
	for _, k := range d.known {
		if r.sharesAnswers() && k.policy == r.Policy && k.above < *r.Threshold &&
			*r.Threshold <= k.most {
			a := k.answer
			a.Run, a.Same = r.Name(), k.answer.Run
			return a, true
		}
	}
	return Answer{}, false
}

// unansweredError means that the cloud did not answer a question.
type unansweredError struct{ err error }

func (u *unansweredError) Error() string { return "the large model gave no answer: " + u.err.Error() }
func (u *unansweredError) Unwrap() error { return u.err }

// decodeWithRetries decodes, and tries again if the cloud does not answer: an answer with tokens of the small model
// instead of the requested ones would not belong to this run.
func (d *questionDecoder) decodeWithRetries(ctx context.Context, r Run) (Answer, error) {
	for try := 1; ; try++ {
		a, err := d.decodeOnce(ctx, r)
		if _, again := errors.AsType[*unansweredError](err); !again || try == tries {
			return a, err
		}
		if err := retry.Wait(ctx, retry.Delay(try, d.Pause, time.Hour)); err != nil {
			return a, err
		}
	}
}

func (d *questionDecoder) decodeOnce(ctx context.Context, r Run) (a Answer, err error) {
	far, end, err := d.Far.Session(ctx)
	if err != nil {
		return a, &unansweredError{err}
	}
	defer end()
	b := &answerBuilder{prompt: len(d.prompt), known: knownAnswer{policy: r.Policy, above: -1, most: 2}}
	b.a = Answer{Question: d.question.ID, Run: r.Name()}
	route, err := d.newRoute(r, far)
	if err != nil {
		return a, err
	}
	if r.Policy == Rule {
		words, err := d.Edge.Tokenizer()
		if err != nil {
			return a, err
		}
		route.Decider = rule{b, words}
	}
	route.Observe = b.addEvent
	begin := time.Now()
	for token, err := range d.session.Routed(ctx, d.prompt, route) {
		switch {
		case err != nil:
			return a, err
		case b.failed != nil:
			return a, &unansweredError{b.failed}
		}
		b.a.Pieces[len(b.a.Pieces)-1] = token.Text
	}
	if b.failed != nil {
		return a, &unansweredError{b.failed}
	}
	b.a.Milliseconds = float64(time.Since(begin).Microseconds()) / 1000
	if r.Budget > 0 {
		b.a.Spent = new(d.session.Summary().Spent)
	}
	b.addSummary(d.session.Summary())
	if err := b.auditRest(ctx, far, d.prompt); err != nil {
		return a, err
	}
	if r.sharesAnswers() {
		d.known = append(d.known, b.known)
	}
	return b.a, nil
}

// newRoute returns the route of a run: token by token, with a complete trace.
func (d *questionDecoder) newRoute(r Run, far draft.Cloud) (route engine.Route, err error) {
	sampling := d.Sampling
	sampling.Seed = questionSeed(d.Sampling.Seed, d.question.ID)
	route = engine.Route{
		Settings: terms.Settings{MaxTokens: d.maxTokens()}.With(sampling),
		Draft:    engine.DraftOptions{Mode: engine.Serial, Deadline: -1, Audit: true, Warm: -1},
	}
	if r.Verify != nil {
		route.Cloud, route.Draft.Verify, route.Draft.Margin, route.Draft.VerifyEvery = far, true, *r.Verify, d.Every
		route.Draft.CheckEvery = draft.SerialChecks
	}
	switch {
	case r.Policy == Rule:
		// Without guesses from the text: the answerBuilder does not have their tokens when they are decided.
		route.Cloud, route.Lookup = far, -1
	case r.Policy != router.Never:
		route.Cloud = far
		if r.Policy.Verifies() {
			route.Draft.CheckEvery = draft.SerialChecks
		}
		route.Router, err = d.newRouter(r, sampling.Seed)
	}
	return route, err
}

// newRouter returns the router of a run. A random router begins with seed. A failed attempt uses nothing of the budget.
func (d *questionDecoder) newRouter(r Run, seed uint64) (*router.Router, error) {
	o := router.Options{Policy: r.Policy, Threshold: r.Threshold, Budget: r.Budget, Seed: seed}
	switch r.Policy {
	case router.Learned:
		o.Net = d.Net
	case router.Judged:
		o.Judge = d.Judge
	}
	if r.Budget > 0 {
		o.Balance = d.balance.Clone()
		if r.Policy == router.Learned {
			o.Calibration = d.Expected
		}
	}
	return router.New(o)
}

func (d *questionDecoder) maxTokens() int {
	room := d.Context - len(d.prompt)
	if d.MaxTokens == 0 {
		return room
	}
	return min(d.MaxTokens, room)
}

// answerBuilder builds an answer from the events of decoding.
type answerBuilder struct {
	prompt int // length in tokens
	a      Answer
	known  knownAnswer
	until  int   // position up to which the large model has compared tokens
	failed error // why a question to the large model has no answer
}

func (b *answerBuilder) addEvent(e draft.Event) {
	switch {
	case e.Token != nil:
		b.addToken(e.Token)
	case e.Escalation != nil:
		b.addEscalation(e.Escalation)
	case e.Turn != nil:
		b.a.Turned++
	}
}

func (b *answerBuilder) addToken(k *draft.Token) {
	b.a.Tokens, b.a.Pieces = append(b.a.Tokens, k.ID), append(b.a.Pieces, "")
	b.a.Origins += string(originLetter(k.Origin))
	if k.Origin == draft.FromCloud {
		b.known.above = max(b.known.above, float64(k.Confidence))
	} else {
		b.known.most = min(b.known.most, float64(k.Confidence))
	}
}

func (b *answerBuilder) addEscalation(q *draft.Escalation) {
	switch q.Outcome {
	case draft.Known: // without verification, no tokens were compared for it
		b.a.Known++
		b.until = max(b.until, q.AuditedTo)
	case draft.Hit, draft.Miss:
		b.a.Asks++
		if !q.ByAhead { // else no tokens were compared for it
			b.until = q.Pos + 1
		}
	case draft.Dropped, draft.Checked:
		b.a.Asks++
		return
	default:
		b.failed = fmt.Errorf("%w", q.Err)
		return
	}
	if q.Local == q.Token {
		b.a.Needless = append(b.a.Needless, q.Pos-b.prompt)
	}
	b.addAudit(q.Audited, q.Missed)
}

func (b *answerBuilder) addAudit(audited int, missed []terms.Finding) {
	b.a.Audited += audited
	for _, f := range missed {
		b.a.Missed = append(b.a.Missed, f.Pos-b.prompt)
	}
}

// addSummary also adds the part of the text that belongs to no token: the rest of an incomplete character.
func (b *answerBuilder) addSummary(s engine.Summary) {
	b.a.Stop = s.Stop
	if rest := len(s.Text) - len(b.a.Text()); rest > 0 {
		b.a.Pieces[len(b.a.Pieces)-1] += s.Text[len(s.Text)-rest:]
	}
}

func (b *answerBuilder) auditRest(ctx context.Context, far engine.Cloud, prompt []int32) error {
	from, text := max(b.prompt, b.until), append(prompt[:len(prompt):len(prompt)], b.a.Tokens...)
	if from >= len(text) {
		return nil
	}
	answer, err := far.Ask(ctx, engine.CloudQuestion{Context: text, AuditFrom: from})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &unansweredError{err}
	}
	audited := min(answer.Audited, len(text)-from)
	audited -= strings.Count(b.a.Origins[from-b.prompt:], "c") // the large model's own tokens are not compared
	b.addAudit(audited, answer.Audit)
	return nil
}
