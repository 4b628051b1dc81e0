package pilotfish

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Cloud is a large model that returns the token that follows a text: a [Gateway], a [Service], or the caller's
// implementation. Many calls may run at once, and return in any order. Its tokens must be those of the small model. If
// a call panics, the answer ends, and the panic continues in the goroutine that ranges over the answer.
type Cloud interface {
	// Ask waits for the token that follows q.Context. It returns soon after ctx is done: the question is then dropped.
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Question asks a [Cloud] which token follows a text. It has no audits, tokens ahead and clocks: only the clouds of
// this module support them.
type Question struct {
	Context []int32 // the whole text so far, prompt included; it may be kept but not changed
	Best    int     // number of most probable tokens wanted with the answer, 0 to [MostBest]
	Sampling
}

// Sampling says how a token is chosen: the part of [Settings] that every [Cloud] supports.
type Sampling struct {
	Temperature float64 // logits are divided by it; 0 means greedy, and the other fields then have no effect
	TopK        int     // only the k most probable tokens can be chosen; 0 means all
	TopP        float64 // only the most probable tokens with this total probability, in (0, 1]; 0 means all
	Seed        uint64  // of the noise, which is a function of seed, position and token
}

// Answer is the answer of a [Cloud].
type Answer struct {
	Token int32       // the token that follows
	Best  []Candidate // the most probable tokens, best first, if the question asks for them
}

// Candidate is a token and its log-probability.
type Candidate = terms.Candidate

// Head is the output of the small model at one place of a text. Its slices are valid until the call with it returns.
type Head struct {
	Pos     int         // position of the token that is to follow
	Best    []Candidate // the most probable tokens, best first: see [Best]
	Margin  float64     // p₁ - p₂ of the two best
	Entropy float64     // of the next token, in nats
	Hidden  []float32   // hidden state after the final norm
	Answer  []int32     // tokens of the answer before Pos; only for a [Sampler]
	State   uint64      // [Decision].State of the decision before, 0 at the beginning of a text; only for a [Router]
}

// Router decides which tokens a [Cloud] is asked for. [NewRouter] makes the built-in ones.
type Router interface {
	// Decide decides about the token that follows h. It must be a function of h alone, without a clock or other state:
	// it is also called for drafts, more than once for a position, and in an order that depends on the time of answers.
	// Store state along a text in [Decision].State.
	Decide(h Head) Decision
}

// Decision is the decision of a [Router] about a token.
type Decision struct {
	Confidence float32 // that the small model's token may stand, in [0, 1]
	Ask        bool    // whether the cloud is asked
	State      uint64  // for the next decision on this text: [Head].State
}

// Sampler chooses the small model's tokens in place of temperature and the like.
type Sampler interface {
	// Pick returns the token that follows h. It must be a function of h alone, see [Router]. If [Settings].Schema does
	// not allow the token, the best allowed token follows.
	Pick(h Head) int32
}

// RouterOptions configure which tokens are the large model's. With the zero value it verifies each token before it is
// shown, and replaces those to which it prefers another by more than 3 nats, at most 7% of all. Where it cannot verify,
// it is asked for 7% of the tokens, those with the smallest margin.
type RouterOptions struct {
	// Policy is "verify", "judge", "margin", "entropy", "learned", "random", "always" or "never"; "" is that of File's
	// certificate, or learned, margin with a Threshold, or else verify. The caller's own clouds, answers with
	// penalties, bias or min-p and those with a [Sampler] are not verified.
	Policy string
	// Threshold is the confidence below which to ask, 0 (never) to 1; with the policy verify e^-M for a margin of M
	// nats, with judge the probability from which on a token stands. nil means by Budget, or by the certificate of
	// File. While the confidences of the last 200 to 400 tokens are unlike those of the certificate's prompts, the
	// large model verifies instead, as with the policy verify and the certificate's budget: [Stats].Unlike.
	Threshold *float64
	// Budget is the share of tokens to ask for or to replace, above 0 up to 1, over all answers with the router: the
	// threshold follows a [Balance]. 0 means 0.07 if there is no Threshold.
	Budget float64
	// Balance holds what the budget has spent, and changes with each answer; nil means a new one. Routers of the same
	// budget may share one.
	Balance *Balance
	File    string // router file, as `pilotfish-bench router train` makes it
	Seed    uint64 // of the policy random
}

// Balance is what a budget has spent in the answers so far: the state from which the next answer starts. The zero value
// is the state before the first answer. Its JSON form can be stored, and read into a new Balance; reading fails for
// other text. It is safe for concurrent use.
//
// Of any ten consecutive answers of three tokens or more, at most the share of the budget is asked for; a budget below
// 6.9% takes more of them. With the policies verify and judge it is the share of the tokens of all answers that is
// replaced; up to six tokens are lent at the beginning. Concurrent answers may exceed it together; the next ones then
// ask less. Questions without a reply and answers with [Route].Verify do not count. If the caller's [Router] calls one
// of [NewRouter], the balance does not change: the budget is kept within each answer.
type Balance = router.Balance

// DefaultBudget is the default share of tokens that is asked for.
const DefaultBudget = router.DefaultBudget

// NewRouter makes a router with one of the built-in policies.
func NewRouter(o RouterOptions) (Router, error) {
	var file *router.File
	if o.File != "" {
		var err error
		if file, err = engine.ReadRouter(o.File); err != nil {
			return nil, err
		}
	}
	opt, _, err := file.Complete(o.routerOptions())
	if err != nil {
		return nil, fmt.Errorf("router %s: %w", o.File, err)
	}
	bounded := o.Budget != 0 || o.Threshold != nil || o.Balance != nil
	if bounded && (opt.Policy == router.Always || opt.Policy == router.Never) {
		return nil, fmt.Errorf("the policy %s has no budget, no balance and no threshold: leave them out", opt.Policy)
	}
	r, err := router.New(opt)
	if err != nil {
		return nil, err
	}
	return policy{r}, nil
}

// routerOptions converts the options to those of package router, without the file.
func (o RouterOptions) routerOptions() router.Options {
	return router.Options{
		Policy: router.Policy(o.Policy), Threshold: o.Threshold, Budget: o.Budget, Balance: o.Balance, Seed: o.Seed,
	}
}

// Fits returns why r cannot decide about texts of m: a learned router is for hidden states of one width.
func (m *Model) Fits(r Router) error {
	if p, ok := r.(policy); ok {
		return m.e.Fits(p.r)
	}
	return nil
}

// policy is a router of package router.
type policy struct{ r *router.Router }

// Threshold returns the confidence below which the cloud is asked at the beginning of the next answer.
func (p policy) Threshold() float64 { return p.r.Threshold() }

func (p policy) Decide(h Head) Decision {
	out := backend.FromLogProbs(h.Best)
	out.Entropy, out.Hidden = float32(h.Entropy), h.Hidden
	confidence, ask, state := p.r.Decide(h.State, h.Pos, &out)
	return Decision{Confidence: confidence, Ask: ask, State: state}
}

// Route configures how an answer uses a large model. [Via] makes one with the default settings.
type Route struct {
	Cloud  Cloud
	Router Router // which tokens are the large model's; nil means that of the zero [RouterOptions], for all answers

	Serial   bool // stop at each question until its answer arrives, instead of drafting on
	Branches int  // guesses at each answer; 0 means 2, -1 as many as are worth their cost
	Window   int  // max tokens drafted past the oldest open question; 0 means 32
	InFlight int  // max open questions; 0 means 4
	Ahead    int  // max tokens of an answer, the one asked for included; 0 means 1, or see VerifyEvery
	// Deadline is how long a question may take before the small model's token stands; negative: any time. With 0 it is
	// three times what this gateway's answers take, at least 800 ms, and the first answer may take 80 ms longer for
	// each token of the prompt, up to 30 s.
	Deadline time.Duration

	// Verify makes the large model verify each token of the small one before it is shown. If it prefers another token
	// by more than Margin nats, that one replaces it, without a budget. With a Margin of 0 the text is the large
	// model's own. The caller's implementation of Cloud cannot verify.
	Verify bool
	Margin float64
	// VerifyEvery is the max number of tokens without a question, where the large model verifies. 0 asks when it is
	// worth it, by the times of answers and forward calls, and lets answers have as many tokens as are of use, unless
	// Ahead is set. Text is then hardly later than what the large model alone would stream. With Serial, 0 means 64.
	VerifyEvery int

	Audit   bool // make answers compare the small model's tokens with the large model's: [Stats].Audited and Missed
	Preview bool // emit events with the drafted tokens that are not verified yet, with Verify
	// Explain sets the Reason of the router's decision in tokens of events, for a router of [NewRouter], and makes
	// answers contain the log-probability of the large model's token.
	Explain bool
	// Warm is the number of tokens of the answer that a [Gateway] may lack before they are sent without a question; 0
	// means 128. The prompt is sent at once. Negative: text leaves this device only with questions.
	Warm int

	Pace float64 // max forward calls of the small model a second, to act as a slower device; 0: no limit
}

func (o Route) applyTo(r *request) { r.route = &o }

// Via is the option that has c give the tokens that r chooses; nil: see [Route].Router.
func Via(c Cloud, r Router) Route { return Route{Cloud: c, Router: r} }

// Event is one entry of the stream from which everything is printed, plotted and exported. One of its pointers is set.
// Package runtime/draft has the types of those that no program here needs.
type Event struct {
	At         time.Duration   // since decoding of the answer began
	Token      *draft.Token    // a token that was shown
	Escalation *Escalation     // a question to the large model
	Warming    *draft.Warming  // text that was sent before a question
	Pass       *draft.Pass     // a forward call of the small model after the prompt
	Turn       *draft.Turn     // a token of the small model that verification replaced before it was shown
	Ahead      *draft.Ahead    // tokens of an answer beyond the one that was asked for
	Preview    *Preview        // drafted tokens that are not verified yet, with [Route].Preview
	Fan        *draft.Fan      // what was evaluated for alternatives to unverified tokens
	Prompt     *draft.Prompt   // the prompt was evaluated, with [Trace]
	Waited     *draft.Waited   // a wait for the large model, with [Trace]
	Rollback   *draft.Rollback // drafts were dropped, with [Trace]
}

// What an [Event] is about.
type (
	Escalation = draft.Escalation // a question to the large model, with its times
	Preview    = draft.Preview    // drafted tokens that are not verified yet
)

// Watch is the option that calls f with each token and each question as they come, on the goroutine that ranges over
// the answer.
func Watch(f func(Event)) Option {
	return optionFunc(func(r *request) { r.watch = append(r.watch, f) })
}

// WatchHeads is the option that calls f with the output of the small model at each place that it evaluates, including
// drafts that are dropped later, on the goroutine that ranges over the answer.
func WatchHeads(f func(Head)) Option {
	return optionFunc(func(r *request) { r.heads = append(r.heads, f) })
}

// Op is one operation of a forward call of the small model, as it was timed.
type Op struct {
	Kind       backend.OpKind
	Layer      int16         // -1: it belongs to none
	Rows       int32         // tokens of the forward call
	Begin, End time.Duration // since the zero of [Trace]
	// Of a whole call on a GPU: when it began and ended, on the clock of the GPU. Begin and End are when the host
	// learned of it.
	DeviceBegin, DeviceEnd time.Duration
}

// Trace is the option that f is called with each operation of the small model's forward calls, with times since zero,
// and that there are events for timelines too. f is called by goroutines that evaluate, one call after the other. Where
// it takes more than share of the time, some calls are left out; 0 means that none is.
func Trace(zero time.Time, share float64, f func(Op)) Option {
	return optionFunc(func(r *request) {
		r.trace = &engine.Watcher{Zero: zero, Share: share, Tell: func(o engine.Op) { f(Op(o)) }}
	})
}

func (m *Model) engineRoute(r request, c *cloudPanic) (engine.Route, error) {
	out := engine.Route{Settings: r.settings}
	if err := r.checkOptions(); err != nil {
		return out, err
	}
	if len(r.watch) > 0 {
		out.Observe = func(e engine.Event) {
			for _, f := range r.watch {
				f(Event(e))
			}
		}
	}
	m.setCallerHooks(&out, r)
	out.Watch, out.Draft.Trace = r.trace, r.trace != nil
	o := r.route
	if o == nil || r.settings.Local {
		if r.sampler == nil {
			out.Drafter = m.drafter
		}
		return out, nil
	}
	switch there := o.Cloud.(type) {
	case nil:
		return out, errors.New("a route without a cloud: give it one, or leave it out")
	case moduleCloud:
		out.Far = there.engineFar()
	default:
		if o.Verify {
			return out, errors.New(
				"verification takes a gateway or a service: the caller's own clouds cannot verify")
		}
		out.Cloud = &callerCloud{c: o.Cloud, crash: c}
	}
	out.Draft, out.Pace = o.draftOptions(), o.Pace
	out.Draft.Trace = r.trace != nil
	chosen := o.Router
	if chosen == nil {
		chosen = m.usual
	}
	if p, ok := chosen.(policy); ok {
		out.Router = p.r
	} else {
		out.Decider = decider{chosen, r.best}
	}
	return out, nil
}

// errUnverified is the error of a local answer with verification.
var errUnverified = errors.New("nothing of a local answer may leave this device, so that the large model cannot " +
	"verify it: leave out Local, or the verification")

// draftOptions returns the part of the route that is about drafting.
func (o Route) draftOptions() engine.DraftOptions {
	d := engine.DraftOptions{
		Branches: o.Branches, Window: o.Window, InFlight: o.InFlight, Deadline: o.Deadline, Ahead: o.Ahead,
		Verify: o.Verify, Margin: o.Margin, VerifyEvery: o.VerifyEvery, Audit: o.Audit, Explain: o.Explain,
		Preview: o.Preview, Warm: o.Warm,
	}
	if o.Serial {
		d.Mode = engine.Serial
	}
	if o.Explain {
		d.K = 1 // with the log-probability of the large model's token
	}
	return d
}

func (m *Model) setCallerHooks(out *engine.Route, r request) {
	if len(r.heads) > 0 {
		out.Head = func(pos int, head *backend.Output) {
			h := headOf(pos, head)
			for _, f := range r.heads {
				f(h)
			}
		}
	}
	if r.sampler != nil {
		out.Pick = func(pos int, answer []int32, head *backend.Output) int32 {
			h := headOf(pos, head)
			h.Answer = answer
			return r.sampler.Pick(h)
		}
	}
	if out.Head != nil || out.Pick != nil {
		out.Want = func(w backend.Want) backend.Want { return headWant(w, r.best) }
	}
}

// decider adapts a caller's router to the engine.
type decider struct {
	r    Router
	best int // minimum number of tokens in a head; 0 means 2
}

func (d decider) Want(w backend.Want) backend.Want { return headWant(w, d.best) }

func (d decider) Decide(path uint64, pos int, head *backend.Output) (confidence float32, escalate bool, next uint64) {
	h := headOf(pos, head)
	h.State = path
	got := d.r.Decide(h)
	return got.Confidence, got.Ask, got.State
}

// headWant adds to w what a [Head] with this number of the most probable tokens needs.
func headWant(w backend.Want, best int) backend.Want {
	w.K, w.Hidden = max(w.K, best, 2), true
	return w
}

// headOf returns the engine's output for the token at pos.
func headOf(pos int, out *backend.Output) Head {
	h := Head{Pos: pos, Entropy: float64(out.Entropy), Hidden: out.Hidden, Best: out.LogProbs(len(out.Top))}
	if len(h.Best) > 1 {
		h.Margin = math.Exp(float64(h.Best[0].LogProb)) - math.Exp(float64(h.Best[1].LogProb))
	}
	return h
}

// moduleCloud is a cloud of this module, with a session for each text.
type moduleCloud interface{ engineFar() engine.Far }

func (g *Gateway) engineFar() engine.Far { return g.r }
func (s *Service) engineFar() engine.Far { return s.s }

// Ask implements [Cloud], for questions of the caller's own.
func (g *Gateway) Ask(ctx context.Context, q Question) (Answer, error) {
	return askOnce(ctx, g.r, q, g.vocabulary, g.r.Context())
}

// Ask implements [Cloud], for questions of the caller's own.
func (s *Service) Ask(ctx context.Context, q Question) (Answer, error) {
	return askOnce(ctx, s.s, q, s.vocabulary, s.s.Context())
}

// MostBest is the maximum of [Question].Best for a [Gateway] or a [Service].
const MostBest = netproto.MaxK

// checkQuestion returns an error if a question cannot be asked, for a model with this vocabulary and contexts of at
// most longest tokens; 0: unknown.
func (q Question) checkQuestion(vocabulary, longest int) error {
	switch n := len(q.Context); {
	case n == 0:
		return errors.New("the context is empty: give at least one token")
	case longest > 0 && n > longest:
		return fmt.Errorf("%w: %d tokens are given, the large model takes 1 to %d", ErrContext, n, longest)
	case q.Best < 0 || q.Best > MostBest:
		return fmt.Errorf("best: %d tokens are not possible, 0 to %d are", q.Best, MostBest)
	}
	for i, id := range q.Context {
		if id < 0 || int(id) >= vocabulary {
			return fmt.Errorf("token %d of the context is %d: ids of this model are 0 to %d", i, id, vocabulary-1)
		}
	}
	return terms.Sampling(q.Sampling).Validate()
}

func askOnce(ctx context.Context, far engine.Far, q Question, vocabulary, longest int) (Answer, error) {
	if err := q.checkQuestion(vocabulary, longest); err != nil {
		return Answer{}, fmt.Errorf("ask: %w", err)
	}
	cloud, end, err := far.Session(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer end()
	a, err := cloud.Ask(ctx, engine.CloudQuestion{
		Context: q.Context, K: q.Best, Sampling: terms.Sampling(q.Sampling),
	})
	if err != nil {
		return Answer{}, errs.EndedBy(ctx, err)
	}
	return Answer{Token: a.Token, Best: a.Top}, nil
}

// callerCloud adapts a caller's cloud to the engine.
type callerCloud struct {
	c      Cloud
	crash  *cloudPanic
	tokens atomic.Int64 // of the texts of its questions
}

// Ask implements [engine.Cloud]. It runs in a separate goroutine, in which the caller cannot recover.
func (f *callerCloud) Ask(ctx context.Context, q engine.CloudQuestion) (_ engine.CloudAnswer, err error) {
	f.tokens.Add(int64(len(q.Context)))
	back := false
	defer f.crash.recoverPanic(&err, &back)
	a, err := f.c.Ask(ctx, Question{Context: q.Context, Best: q.K, Sampling: Sampling(q.Sampling)})
	back = true
	return engine.CloudAnswer{Reply: terms.Reply{Token: a.Token, Top: a.Best}}, err
}

func (f *callerCloud) Receipt() Receipt { return Receipt{Tokens: int(f.tokens.Load())} }

// cloudPanic carries a panic of a caller's cloud to the goroutine that ranges over the answer.
type cloudPanic struct {
	stop context.CancelCauseFunc // of the answer
	mu   sync.Mutex
	why  any // nil: there was none
}

// Errors that end an answer when the cloud's Ask does not return.
var (
	errCrash = errors.New("the cloud panicked")
	errExit  = errors.New("the cloud ended its goroutine instead of answering: " +
		"runtime.Goexit, and what calls it, such as FailNow of a test, cannot be called in Ask")
)

// recoverPanic is deferred before a call that may panic, or end its goroutine.
func (c *cloudPanic) recoverPanic(err *error, back *bool) {
	why := recover()
	if why == nil {
		if !*back {
			c.stop(errExit)
		}
		return
	}
	*err = errCrash
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := why.(error); ok {
		c.why = fmt.Errorf("%w\n\n%s", e, debug.Stack())
	} else {
		c.why = fmt.Sprintf("%v\n\n%s", why, debug.Stack())
	}
	c.stop(errCrash)
}

func (c *cloudPanic) hasPanicked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why != nil
}

func (c *cloudPanic) rethrowPanic() {
	if c.hasPanicked() {
		panic(c.why)
	}
}
