package batch

import (
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/internal/prefix"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// ask is a question that waits for its answer.
type ask struct {
	terms.Job
	fair.Entry[*ask] // of the goroutine of the service; its work is tokens

	forget  bool // not a question: drop the session
	sampler *sample.Sampler
	since   time.Time
	ready   chan struct{} // closed when answer, out and err are set
	answer  Answer
	out     *backend.Output // for the token that follows
	err     error

	heads  backend.Want     // with Verify: what is wanted of the head for each position
	found  []backend.Output // with Verify: of the head, for the positions from AuditFrom on
	part   bool             // with Verify: others follow it, and the token after its context is verified as well
	before int              // with Verify: tokens of the context that the part before it had
	reused int              // with Verify: by the parts before it
	whole  int              // with Verify: tokens of the context of all parts

	gone, running bool // under Service.mu: the caller has gone; it has a part in the running step
	lent          int  // under Service.mu: rows of logits that the caller looks at

	// of the goroutine of the service
	tree     *tree         // nil before it is admitted, and when it is answered
	at       *node         // the last of its context that is retained for it, or nil
	done     int           // tokens of the context up to at
	begun    uint64        // counts questions in the order in which their computing began; 0 before that
	reserved int           // tokens for which it has room reserved
	begin    time.Time     // of its first step
	step     uint64        // the last in which it has a part
	again    uint64        // the last in which tokens of others are computed once more for its audit
	looks    uint64        // the last whose rows it verifies tokens by
	place    int           // in Service.partly
	order    *list.Element // in Service.backOrder
	patience uint64        // of a background question: the step of others after which it is given up
	paid     bool          // the last of its context that was found was a guess, which is paid for
	run      int           // questions in a row, up to this one, that went on with the answer before
	reply    *reply        // takes the token that is chosen; nil: nobody wants to know
}

// background reports whether a is computed only while no foreground question waits.
func (a *ask) background() bool { return a.Priority != terms.Foreground }

// submit hands a to the goroutine of the service and waits until it is ready.
func (s *Service) submit(ctx context.Context, a *ask) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.since, a.ready = s.o.Now(), make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.arrived = append(s.arrived, a)
	if !a.forget {
		s.waiting++
	}
	s.mu.Unlock()
	s.rouse()
	select {
	case <-a.ready:
		return a.err
	case <-ctx.Done():
		s.leave(a, context.Cause(ctx))
		return context.Cause(ctx)
	}
}

// rouse makes the goroutine of the service look at who has arrived and left.
func (s *Service) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// leave says that the caller of a has gone.
func (s *Service) leave(a *ask, why error) {
	if a.forget {
		return // it is done nevertheless
	}
	s.mu.Lock()
	a.gone = true
	s.seen(a)
	s.left = append(s.left, a)
	if a.running {
		if s.present--; s.present == 0 {
			s.abort(why)
		}
	}
	s.mu.Unlock()
	s.rouse()
}

// begin says that a step runs, which abort ends, and reports whether anybody waits for it.
func (s *Service) begin(st *step, abort context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present, s.abort = 0, abort
	for _, a := range st.asks {
		if a.running = !a.gone; a.running {
			s.present++
		}
	}
	return s.present > 0
}

// end says that the step has ended.
func (s *Service) end(st *step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range st.asks {
		a.running = false
	}
}

// run answers questions, step after step, until the service is closed.
func (s *Service) run() {
	defer s.done.Done()
	for s.news() {
		if s.front.Len()+s.back.Len() > 0 {
			s.compute(s.plan())
		}
		s.publish()
	}
	s.mu.Lock()
	s.closed = true
	arrived := s.arrived
	s.mu.Unlock()
	for _, a := range slices.AppendSeq(slices.AppendSeq(arrived, s.front.All), s.back.All) {
		s.answered(a, ErrClosed)
	}
}

// news takes in who has arrived and left, and waits for somebody if nobody is there. It reports whether the service is
// open.
func (s *Service) news() bool {
	if s.front.Len()+s.back.Len() == 0 {
		select {
		case <-s.wake:
		case <-s.ctx.Done():
		}
	}
	if s.ctx.Err() != nil {
		return false
	}
	s.mu.Lock()
	arrived, left := s.arrived, s.left
	s.arrived, s.left = nil, nil
	s.mu.Unlock()
	for _, a := range arrived {
		s.admit(a)
	}
	for _, a := range left {
		if a.tree != nil {
			s.drop(a, nil)
		}
	}
	return true
}

// admit lets a wait for its turn.
func (s *Service) admit(a *ask) {
	if a.forget {
		s.shedOf(s.trees.trees[a.Session])
		s.trees.forget(a.Session)
		s.answered(a, nil)
		return
	}
	a.tree = s.trees.open(a.Session, a.Device, a.Domain)
	found := s.known(a)
	s.queueOf(a).Add(a.Device, a, &a.Entry, uint64(max(1, len(a.Context)-found)))
	if a.background() {
		s.admitBackground(a, found)
	}
}

// known counts the tokens of the context of a that are in memory, or wanted by the ask of its device that came before.
func (s *Service) known(a *ask) int {
	n := a.inMemory()
	if f := s.queueOf(a).Of(a.Device); f != nil && f.Len() > 0 {
		if last := f.Last(); last.tree.domain == a.tree.domain {
			n = max(n, prefix.Len(last.Context, a.Context))
		}
	}
	return n
}

// inMemory counts the tokens that the context of a begins with and that need not be computed.
func (a *ask) inMemory() int {
	at := a.tree.root.cell
	for i, token := range a.Context {
		if at = at.below.at(token); at == nil || a.lacks(at) {
			return i
		}
	}
	return len(a.Context)
}

// further counts the tokens of the context of a that are in memory, of which there are n up to at.
func (a *ask) further(at *cell, n int) int {
	for ; n < len(a.Context); n++ {
		if at = at.below.at(a.Context[n]); at == nil {
			break
		}
	}
	return n
}

func (s *Service) queueOf(a *ask) *fair.Queue[*ask] {
	if a.background() {
		return s.back
	}
	return s.front
}

// drop takes out a question that is not in the running step, and gives it err.
func (s *Service) drop(a *ask, err error) {
	if a.Waits() {
		s.queueOf(a).Remove(&a.Entry)
	}
	s.answer(a, err)
}

// answer ends a question that is out of the queue: a.answer or err is set.
func (s *Service) answer(a *ask, err error) {
	s.letGo(a)
	s.leaveBackground(a)
	s.reserved -= a.reserved
	t := a.tree
	a.tree = nil
	s.trees.close(t)
	s.answered(a, err)
}

// answered lets the caller of a go on.
func (s *Service) answered(a *ask, err error) {
	if !a.forget {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}
	a.err = err
	close(a.ready)
}
