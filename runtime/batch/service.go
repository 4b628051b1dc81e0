// Package batch is the large model as a service: it answers, for many sessions at once, which token follows a context.
//
// The service runs the model in steps. A step is one call with a bounded number of new tokens, which belong to many
// questions. A long context takes several steps. Clients share the work, and so do the devices of each: of long
// questions that one is computed first which would end first if each had its share, so that a flood of equal ones is
// answered in the order in which they came. A device with little to ask waits for the step in progress, for the two
// steps that another client may be ahead, and then for its own steps, times the number of clients that ask, whatever
// the others do. Keys and values are kept in a tree of tokens, so that the common part of two contexts is computed
// once: a growing draft, parallel branches, and the prompt that many sessions begin with. A question always brings its
// whole context: tokens in memory only save time, and neither sharing nor eviction ever changes an answer.
//
// # What sessions share
//
// Sessions of one domain have one tree of cells: tokens with a slot, from the beginning of a text on. Each session has
// a tree of nodes, which refer to the cells that it uses. A cell exists as long as a session uses it. So a token is
// computed once, by the first question that needs it: other questions that need it in the meantime share its row in the
// same step, or find the token in memory in the next step. A session that leaves, or is forgotten, takes nothing from
// others; and a failed step loses only the tokens that it was to compute. A shared token is computed a second time only
// if its head is needed, in another slot.
//
// The device of the question that computes a token pays for the work. In memory each session counts with all tokens
// that it uses, as if no other session used them, and a token is evicted from one session at a time: its slot is free
// when the last session has lost it. So no device can evict the tokens of others by using them too, or keep them at a
// lower cost than a text of its own.
//
// Answer times reveal what is in memory. A device that may ask in a domain can try out texts, token by token, and so
// find out what others of the domain have asked about lately: it can discover any text that can be guessed in small
// parts. No minimum length of shared text prevents that, so the length does not matter here; only a separate domain, or
// [Options.Apart], prevents it.
//
// # Streams
//
// A session that asks for one token after the other, each after the answer before it, is a stream. The service fills
// spare rows of a step with guesses of the tokens that follow, from earlier occurrences in the stream's text. Correct
// guesses are in memory when the session asks for them. Guesses never change an answer.
package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// Errors of [Service.Ask], besides those of the context and of the model.
var (
	ErrClosed  = errors.New("the service is closed")
	ErrContext = errors.New("the context is empty or longer than the service allows")
	ErrShed    = errors.New("a background question was given up in favour of others")
)

// Late is the error of a question that would not be answered within its time, known when it came: questions that wait
// before it take too long.
type Late struct {
	After time.Duration // from when on a question like it may be answered in its time
}

// Error implements error.
func (l *Late) Error() string {
	return fmt.Sprintf("others come first, and the answer would be late: one like it may be in time after %v",
		l.After.Round(time.Millisecond))
}

// Model is what the service runs: *transformer.Model. Forward should return soon, with an error, after its context
// ends.
type Model interface {
	Forward(ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want) error
}

// Options bound the service. The zero value works.
type Options struct {
	Context int              // maximum length of a question's context, in tokens; 0 means all slots of the KV store
	Rows    int              // maximum new tokens of one step, for which every question may have to wait; 0 means 128
	Best    int              // maximum candidates that a question can ask for; 0 means 256
	Lookup  int              // maximum rows of a step with guesses, 2 to 8; 0 means 8, negative: no guesses
	Apart   bool             // sessions share nothing, not even within a domain; see above for what sharing reveals
	Judge   Judge            // answers questions with [terms.EachJudged]; nil: there are none
	Now     func() time.Time // the clock of Answer.Queue and Answer.Compute; nil means time.Now
}

// Judge returns the probability, 0 to 1, that a token may stand where the model chooses another one: from the states
// after the final norm before the token and after it, p(token) / p(choice), and the entropy of the next token in nats.
// It is called by several goroutines at once.
type Judge func(before, after []float32, ratio, entropy float32) float32

// Answer is a reply, with the work of the service for it. Audited counts back to the first position without the head,
// or with Verify to AuditFrom. Queue ends when the first step of the question begins, and Compute includes steps of
// other questions between its own.
type Answer struct {
	terms.Reply
	Reused int // tokens of the context that were in memory, or being computed, when its first step began

	// Computed counts the rows that were computed for the question: tokens of the context that were not in memory, and
	// those that were computed again because their head was needed. It does not count rows that an earlier question of
	// the same step needs too.
	Computed int
}

// Service answers questions with one model. It runs one goroutine, from New to Close.
type Service struct {
	m    Model
	o    Options
	kv   backend.KV
	ctx  context.Context // ends with Close
	quit context.CancelFunc
	done sync.WaitGroup
	wake chan struct{} // holds a value when arrived or left may have grown

	mu        sync.Mutex
	closed    bool
	arrived   []*ask                  // not yet taken by the goroutine of the service, in order
	left      []*ask                  // asks with callers that have gone
	present   int                     // callers of the running step that have not gone
	abort     context.CancelCauseFunc // of the running step
	waiting   int
	published Stats
	lent      int       // rows of logits that callers are still reading
	looked    sync.Cond // of mu: lent has decreased

	// of the goroutine of the service
	trees      *prefixCache
	states     backend.DeltaKV   // kv, if the model has layers with a recurrent state; otherwise nil
	front      *fair.Queue[*ask] // questions that somebody waits for
	back       *fair.Queue[*ask] // background questions
	background backgroundQueue   // the same, those that wait longest first
	partly     fair.Heap[*ask]   // questions of which a part is computed, outside of the step: first those to give way
	begun      uint64            // counts questions
	reserved   int               // tokens of the contexts for which room is reserved
	cost       lookup.Cost       // of calls with few rows
	pace       rowPace
	stats      Stats
}

// New starts a service over a KV store. The store must not be used elsewhere.
func New(m Model, kv backend.KV, o Options) (*Service, error) {
	slots := kv.Config().Slots
	o.Rows, o.Best, o.Context = cmp.Or(o.Rows, 128), cmp.Or(o.Best, 256), cmp.Or(o.Context, slots)
	if o.Now == nil {
		o.Now = time.Now
	}
	var err error
	if o.Lookup, err = guessRows(o.Lookup, o.Rows); err != nil {
		return nil, err
	}
	switch {
	case o.Rows < 1:
		return nil, fmt.Errorf("batch: steps of %d rows: at least 1 is needed", o.Rows)
	case o.Best < 1:
		return nil, fmt.Errorf("batch: %d candidates: at least 1 is needed", o.Best)
	case o.Context < 1 || o.Context > slots:
		return nil, fmt.Errorf("batch: contexts of %d tokens: the KV store has slots for 1 to %d", o.Context, slots)
	}
	ctx, quit := context.WithCancel(context.Background())
	s := &Service{m: m, o: o, kv: kv, ctx: ctx, quit: quit, wake: make(chan struct{}, 1)}
	s.pace.step = o.Rows
	if kv.Config().Delta.Layers > 0 {
		s.states = kv.(backend.DeltaKV)
	}
	s.looked.L = &s.mu
	s.trees = newPrefixCache(slots, !o.Apart)
	s.front, s.back = fair.New[*ask](fair.Rules{
		Short: uint64(shortRows(o.Rows)), Whole: uint64(max(1, o.Rows/2)),
		Price: rowPrice,
		Lead:  uint64(headStart * o.Rows * rowPrice), ClientLead: uint64(clientHeadStart * o.Rows * rowPrice),
	}), fair.New[*ask](fair.Rules{})
	s.partly = fair.Heap[*ask]{Before: evictedBefore, Place: func(a *ask) *int { return &a.place }}
	s.publishStats()
	s.done.Add(1)
	go s.runLoop()
	return s, nil
}

// headStart is the number of full steps of work by which a device with short asks may be ahead of the other devices of
// its client, and clientHeadStart the one by which a client may be ahead of other clients.
const (
	headStart       = 128
	clientHeadStart = 2
)

// Close ends the service, and the running call of the model; waiting questions get [ErrClosed].
func (s *Service) Close() {
	s.quit()
	s.done.Wait()
}

// Closed reports whether [Service.Close] was called.
func (s *Service) Closed() bool { return s.ctx.Err() != nil }

// Ask waits for the answer to q. With a priority other than [terms.Foreground] the error may be [ErrShed]; with
// [terms.Question].Within it may be a [Late]. When ctx
// ends the question is dropped, and the running call of the model is aborted if it was for this question alone. Any
// number of goroutines may call Ask at once. Asking again gives the same answer.
func (s *Service) Ask(ctx context.Context, q terms.Job) (Answer, error) {
	if len(q.Context) == 0 || len(q.Context) > s.o.Context {
		return Answer{}, fmt.Errorf("%d tokens, at most %d: %w", len(q.Context), s.o.Context, ErrContext)
	}
	if q.K < 0 || q.K > s.o.Best {
		return Answer{}, fmt.Errorf("%d candidates: 0 to %d are possible", q.K, s.o.Best)
	}
	sampler, err := sample.New(q.Sampling)
	if err != nil {
		return Answer{}, err
	}
	if q.Verify != terms.AsItComes {
		return s.verifyContext(ctx, q, sampler)
	}
	a := &ask{Job: q, sampler: sampler}
	if err := s.submitAsk(ctx, a); err != nil {
		return Answer{}, err
	}
	return s.collectAnswer(a), nil
}

func (s *Service) collectAnswer(a *ask) Answer {
	defer s.returnLogits(a)
	return a.chooseToken()
}

// Forget drops a session's tokens, except those that others use. Its open foreground questions are still answered; its
// background questions are given up.
func (s *Service) Forget(ctx context.Context, session uint64) error {
	return s.submitAsk(ctx, &ask{Job: terms.Job{Session: session}, forget: true})
}

// chooseToken runs in the goroutine of the caller.
func (a *ask) chooseToken() Answer {
	a.answer.Token = a.sampler.Pick(len(a.Context), a.out)
	if a.reply != nil {
		a.reply.token.Store(a.answer.Token)
	}
	a.answer.Top = a.out.LogProbs(a.K)
	return a.answer
}
