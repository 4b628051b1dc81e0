package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// DraftOptions say how the tokens of two models are combined: mode, branches, window, deadline.
type DraftOptions = draft.Options

// Event is about one token that was shown, or one question to the cloud.
type Event = draft.Event

// What an [Event] is about.
type (
	Escalation = draft.Escalation // a question to the cloud
	ShownToken = draft.Token      // a token, with its origin
	Reason     = draft.Reason     // what the decision about it was made of
	Turn       = draft.Turn       // a token that verification replaced
	Preview    = draft.Preview    // tokens that are not verified yet
)

// Reports of forward calls.
type (
	Watcher = backend.Watcher // gets each operation
	Op      = backend.Op      // one operation, as it was timed
)

// AutoBranches, as the number of branches of [DraftOptions], means as many branches as are worth their cost, up to
// maxBranches.
const (
	AutoBranches = draft.AutoBranches
	maxBranches  = draft.MostBranches
)

// The modes of [DraftOptions].
const (
	Pipelined = draft.Pipelined
	Serial    = draft.Serial
)

// Route says how the tokens of two models are combined. The zero value of Draft is pipelined decoding.
type Route struct {
	terms.Settings
	// Router decides which tokens the cloud is asked for, or with the policy verify which ones it replaces; nil:
	// Decider. Its balance includes the answer.
	Router  *router.Router
	Decider Decider      // decides which tokens the cloud is asked for if Router is nil; nil: none
	Cloud   draft.Cloud  // the large model; nil: a session of Far
	Far     Far          // the large model, asked in a new session for each text
	Draft   DraftOptions // mode, branches, window, deadline; the settings take precedence, and set Lookup if it is 0
	Pace    float64      // max forward calls of the small model a second, to act as a slower device; 0: no limit
	RowCost float64      // with Pace: the time of each further row, as a share of the min time of a call
	// Drafter is a smaller model with the same tokens, which drafts the next tokens of this one; nil: none. The text is
	// the same, and drafts are only made where they are expected to save time. Without a large model.
	Drafter *Engine
	Observe func(Event) // called with every event; may be nil
	// Wrap, if given, returns a model between drafting and the small model, to watch or time its calls. The next call
	// may overwrite heads.
	Wrap func(draft.Model) draft.Model
	// Pick, if given, chooses the small model's token at pos, from the tokens of the answer before pos and the head for
	// pos. It must be a pure function. If the schema does not allow its token, the best allowed token follows.
	Pick func(pos int, answer []int32, head *backend.Output) int32
	// Head, if given, is called with the head of each token that the small model evaluates: of the prompt only the last
	// one, and also drafts that are dropped later. Slices of the head are valid until Head returns.
	Head func(pos int, head *backend.Output)
	// Want, if given, adds what Head and Pick need of heads.
	Want func(backend.Want) backend.Want
	// Watch, if given, gets each operation of the small model's forward calls.
	Watch *Watcher
}

// Decider is a router that is not of package router.
type Decider interface {
	draft.Router
	// Want adds to w what Decide needs of heads.
	Want(w backend.Want) backend.Want
}

// Routed is [Session.Generate] with a large model that chooses the tokens for which the router asks it.
func (s *Session) Routed(ctx context.Context, prompt []int32, r Route) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		more := true
		err := s.generateRouted(ctx, prompt, r, func(t Token) bool {
			more = yield(t, nil)
			return more
		})
		if err != nil && more {
			yield(Token{}, err)
		}
	}
}

func (s *Session) generateRouted(ctx context.Context, prompt []int32, r Route, yield func(Token) bool) error {
	ctx, done, err := s.beginText(ctx)
	if err != nil {
		return s.e.withFileName(ctx, err)
	}
	defer done()
	start := s.now()
	s.summary, s.end = Summary{Routing: Routing{PromptTokens: len(prompt)}}, nil
	s.publishSummary()
	defer s.publishSummary()
	defer s.speculation.stopPasses(s.cache)
	if err := s.e.validateRoute(r); err != nil {
		return err // before a gateway hears of it
	}
	if err := s.checkPrompt(prompt); err != nil { // likewise
		return s.e.withFileName(ctx, err)
	}
	end := func() {}
	if r.Far != nil {
		if r.Cloud, end, err = r.Far.Session(ctx); err != nil {
			return err
		}
	}
	defer func() {
		end()
		if c, ok := r.Cloud.(Receiver); ok {
			s.summary.Receipt = c.Receipt()
		}
	}()
	if r.Watch != nil {
		ctx = backend.Watch(ctx, r.Watch)
	}
	whole := false
	defer func() {
		if !whole { // a callback panicked: the cache may hold any part of a draft
			s.speculation.stopPasses(s.cache)
			s.ids = nil
			s.cache.Clear()
		}
	}()
	err = s.generateText(ctx, prompt, r, start, yield)
	whole = true
	return err
}

func (s *Session) generateText(
	ctx context.Context, prompt []int32, r Route, start time.Time, yield func(Token) bool,
) error {
	s.speculation.off = r.Pick != nil || !r.Sampling().Greedy() && (r.Adjusts() || r.Structured())
	tokens, err := s.e.Tokenizer()
	if err != nil {
		return err
	}
	if r.Router, err = s.e.fitRouter(ctx, r.Router); err != nil {
		return err
	}
	if r.Router != nil {
		r.Router = r.Router.Begin()
	}
	small, done, err := s.openDrafter(ctx, r.Drafter)
	if err != nil {
		return err
	}
	defer done()
	decoder, err := s.newDecoder(ctx, tokens, prompt, r, small)
	if err != nil {
		return err
	}
	n := &detokenizer{
		s: s, r: r, yield: yield, start: start,
		decoder: tokens.NewDecoder(), kinds: tokens.Thoughts(prompt), stop: stopper{stops: r.Stop}, more: true,
		lead: s.now().Sub(start),
	}
	n.verified = decoder.Verified
	defer n.addToBudget() // also if a callback panics
	sum, err := decoder.Decode(ctx, prompt, n.handleEvent)
	if err == nil && sum.Stop == "" && s.isClosed() {
		err = ErrClosed
	}
	n.finishText(sum.Stop, err == nil)
	s.noteShortened(prompt, r.Settings, sum.Stop, n.stopped)
	s.summary.Plus(sum)
	s.summary.DecodeTime = s.now().Sub(start) - s.summary.PromptTime
	return s.e.withFileName(ctx, err)
}

// noteShortened records whether a value was shortened for lack of room. stop is the reason why the tokens ended, and
// stopped says whether a stop string ended the text.
func (s *Session) noteShortened(prompt []int32, r terms.Settings, stop string, stopped bool) {
	room := s.answerRoom(prompt)
	full := s.tight || stop == StopEnd && s.summary.Tokens+1 == min(maxTokens(r), room)
	if !r.Complete || !r.JSON && r.Schema == nil || stopped || stop == "" || !full {
		return
	}
	s.summary.Shortened, s.summary.Closed, s.summary.Stop = true, stop == StopEnd, StopLength
	if room < maxTokens(r) {
		s.summary.Stop = StopContext
	}
}

// fitRouter returns a router on the device of the engine, if it fits the model; nil for none.
func (e *Engine) fitRouter(ctx context.Context, r *router.Router) (*router.Router, error) {
	if r == nil {
		return nil, nil
	}
	if err := e.Fits(r); err != nil {
		return nil, err
	}
	done, err := e.acquireModel(ctx)
	if err != nil {
		return nil, e.withFileName(ctx, err)
	}
	defer done()
	return r.On(e.device), nil // the device evaluates its network, if it can
}

func (s *Session) isClosed() bool { return s.closed.Load() || s.e.isClosed() }

// Fits returns an error if a router cannot decide for this model.
func (e *Engine) Fits(r *router.Router) error {
	if err := r.Fits(e.model.Config().Dim); err != nil {
		return fmt.Errorf("%s: %w", e.path, err)
	}
	return nil
}

func (s *Session) newDecoder(
	ctx context.Context, tokens *tokenizer.Tokenizer, prompt []int32, r Route, small *drafter,
) (*draft.Decoder, error) {
	sampler, err := sample.New(r.Sampling())
	if err != nil {
		return nil, err
	}
	o := r.Draft
	o.Sampling, o.Vocab = r.Sampling(), s.e.model.Config().Vocab
	o.Lookup, o.Cost, o.Waits = cmp.Or(o.Lookup, r.Lookup), &s.cost, &s.waits
	o.MaxTokens, o.Room = maxTokens(r.Settings), s.answerRoom(prompt)
	if !r.IgnoreEnd {
		o.End = tokens.IsEnd
	}
	s.tight = false
	want, err := s.configureSampling(ctx, &o, sampler, prompt, r)
	if err != nil {
		return nil, err
	}
	want = o.Want(want)
	if small != nil {
		small.want, o.Drafter, o.Drafts = want, small, &small.known
	}
	if r.Want != nil {
		want = r.Want(want)
	}
	if r.Router != nil && !r.Router.Asks() && !o.Verify {
		o.Warm = -1 // in vain
	}
	want, policy := r.decisionRouter(want)
	switch {
	case r.Router == nil || !r.Router.Verifies():
	case o.Verify:
		policy = nil // all tokens are verified, with the margin of the route
	case !r.Settings.Rules() && r.Pick == nil:
		o.Dial, o.Judge = r.Router, r.Router.Judge()
	default:
		o.VerifyEvery, o.CheckEvery, o.Preview = 0, 0, false
	}
	return draft.New(s.newDraftModel(r, want), policy, r.Cloud, o)
}

// decisionRouter returns the router, nil for none, and want with what the router needs of heads.
func (r Route) decisionRouter(want backend.Want) (backend.Want, draft.Router) {
	switch {
	case r.Router != nil:
		return r.Router.Want(want), r.Router
	case r.Decider != nil:
		return r.Decider.Want(want), r.Decider
	}
	return want, nil
}

func (s *Session) newDraftModel(r Route, want backend.Want) draft.Model {
	var pace time.Duration
	if r.Pace > 0 {
		pace = time.Duration(float64(time.Second) / r.Pace)
	}
	m := newEdgeModel(s, want, pace)
	m.row = r.RowCost
	var model draft.Model = m
	if r.Head != nil {
		model = headWatcher{model, r.Head}
	}
	if r.Wrap != nil {
		model = r.Wrap(model)
	}
	return model
}

func maxTokens(r terms.Settings) int { return cmp.Or(r.MaxTokens, math.MaxInt32) }

func (s *Session) answerRoom(prompt []int32) int { return max(1, s.cache.Slots()-len(prompt)) }

// headWatcher is a model with a function that sees its heads.
type headWatcher struct {
	draft.Model
	show func(pos int, head *backend.Output)
}

func (m headWatcher) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	out, err := m.Model.Prefill(ctx, prompt)
	if err == nil {
		m.show(len(prompt), &out)
	}
	return out, err
}

func (m headWatcher) Extend(ctx context.Context, nodes []draft.Node) ([]backend.Output, error) {
	out, err := m.Model.Extend(ctx, nodes)
	if err == nil {
		for i := range nodes {
			m.show(nodes[i].Pos+1, &out[i])
		}
	}
	return out, err
}
