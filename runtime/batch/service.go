// Package batch is the large model as a service: it answers, for many sessions at once, which token follows a context.
//
// Asks that wait together go through the model together. Keys and values are kept by session in a tree of tokens, so that
// what two contexts of a session have in common is computed once: a draft that goes on, and branches beside each other. A
// context always comes whole; what is in memory is an economy, and eviction never changes an answer.
package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// Errors of [Service.Ask], besides those of the context and of the model.
var (
	ErrClosed  = errors.New("the service is closed")
	ErrContext = errors.New("the context is empty or longer than the service allows")
)

// Model is what the service runs: *qwen2.Model.
type Model interface {
	Forward(ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want) error
}

// Options bound the service. The zero value works.
type Options struct {
	Context int // longest context of an ask, in tokens; 0 means all slots of the KV store
	Rows    int // most tokens that asks bring into one batch, unless one ask alone brings more; 0 means 512
	Best    int // most candidates that an ask can have; 0 means 32
	Now     func() time.Time
}

// Question asks which token follows Context.
type Question struct {
	Session   uint64         // contexts of one session share what they have in common
	Context   []int32        // all tokens from the beginning
	K         int            // how many candidates come with the answer; at least 1
	Sampling  sample.Options // how the token is chosen; zero: greedy
	AuditFrom int            // positions from here on are compared with what this model would have chosen; 0 means none
}

// Candidate is a possible next token.
type Candidate struct {
	ID      int32
	LogProb float32 // natural logarithm of its probability
}

// Difference is a position of the context whose token is not this model's choice.
type Difference struct {
	Pos    int
	Choice Candidate // this model's
}

// Answer is the token that follows.
type Answer struct {
	Token   int32
	Top     []Candidate   // the K best, best first
	Audited int           // positions at the end of the context that were compared, as far back as the head ran for all of them
	Audit   []Difference  // those of them with another token, by rising position
	Reused  int           // tokens of the context whose keys and values were there already
	Queue   time.Duration // from the ask until its batch began
	Compute time.Duration // of its batch
}

// Service answers questions with one model. It runs one goroutine, from New to Close.
type Service struct {
	m     Model
	o     Options
	trees *forest
	asks  chan *ask
	quit  context.CancelFunc
	done  sync.WaitGroup
	ctx   context.Context // ends with Close
	kept  atomic.Int64    // slots in use after the last batch
}

// ask is a question that waits for its answer.
type ask struct {
	Question
	ctx     context.Context
	sampler *sample.Sampler
	since   time.Time
	forget  bool // not a question: drop the session
	answer  Answer
	err     error
	ready   chan struct{} // closed when answer and err are set
}

// New starts a service over a KV store that nobody else uses.
func New(m Model, kv backend.KV, o Options) (*Service, error) {
	o.Rows, o.Best = cmp.Or(o.Rows, 512), cmp.Or(o.Best, 32)
	o.Context = cmp.Or(o.Context, kv.Config().Slots)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rows < 0 || o.Best < 0 || o.Context < 1 || o.Context > kv.Config().Slots {
		return nil, fmt.Errorf("batch: context of %d tokens in %d slots, %d rows, %d candidates: out of range", o.Context, kv.Config().Slots, o.Rows, o.Best)
	}
	ctx, quit := context.WithCancel(context.Background())
	s := &Service{m: m, o: o, trees: newForest(kv), asks: make(chan *ask), quit: quit, ctx: ctx}
	s.done.Add(1)
	go s.run()
	return s, nil
}

// Close ends the service; asks that wait get [ErrClosed].
func (s *Service) Close() {
	s.quit()
	s.done.Wait()
}

// Ask waits for the answer to q. When ctx ends the ask is dropped, and its tokens are not computed if they have not been
// yet. Any number of goroutines may ask at once; asking again gives the same answer.
func (s *Service) Ask(ctx context.Context, q Question) (Answer, error) {
	if len(q.Context) == 0 || len(q.Context) > s.o.Context {
		return Answer{}, fmt.Errorf("%d tokens, at most %d: %w", len(q.Context), s.o.Context, ErrContext)
	}
	if q.K < 1 || q.K > s.o.Best {
		return Answer{}, fmt.Errorf("%d candidates: 1 to %d are possible", q.K, s.o.Best)
	}
	sampler, err := sample.New(q.Sampling)
	if err != nil {
		return Answer{}, err
	}
	a := &ask{Question: q, ctx: ctx, sampler: sampler}
	if err := s.submit(ctx, a); err != nil {
		return Answer{}, err
	}
	return a.answer, a.err
}

// InUse is how many slots of the KV store hold tokens of sessions, as of the last batch.
func (s *Service) InUse() int { return int(s.kept.Load()) }

// Forget drops what is kept of a session. Its open asks are still answered.
func (s *Service) Forget(ctx context.Context, session uint64) error {
	return s.submit(ctx, &ask{Question: Question{Session: session}, ctx: ctx, forget: true})
}

// submit hands a to the goroutine of the service and waits until it is ready.
func (s *Service) submit(ctx context.Context, a *ask) error {
	a.since, a.ready = s.o.Now(), make(chan struct{})
	select {
	case s.asks <- a:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return ErrClosed
	}
	select {
	case <-a.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run answers asks, batch after batch, until the service is closed.
func (s *Service) run() {
	defer s.done.Done()
	var waiting []*ask
	for {
		if len(waiting) == 0 {
			select {
			case a := <-s.asks:
				waiting = append(waiting, a)
			case <-s.ctx.Done():
				return
			}
		}
		waiting = s.gather(waiting)
		if s.ctx.Err() != nil {
			s.fail(waiting, ErrClosed)
			return
		}
		n := s.batch(waiting)
		s.kept.Store(int64(len(s.trees.used) - s.trees.free))
		waiting = slices.Delete(waiting, 0, n)
	}
}

// gather adds the asks that are at the door, without waiting for more.
func (s *Service) gather(waiting []*ask) []*ask {
	for {
		select {
		case a := <-s.asks:
			waiting = append(waiting, a)
		default:
			return waiting
		}
	}
}

func (s *Service) fail(asks []*ask, err error) {
	for _, a := range asks {
		a.err = err
		close(a.ready)
	}
}
