package batch

import (
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
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

	heads  backend.Want     // with Verify: the output wanted of the head for each position
	found  []backend.Output // with Verify: of the head, for the positions from AuditFrom on
	judge  Judge            // with EachJudged
	part   bool             // with Verify: other parts follow, and the token after its context is verified as well
	before int              // with Verify: tokens of the context that the part before it had
	reused int              // with Verify: tokens that the parts before it reused
	whole  int              // with Verify: tokens of the context of all parts

	gone, running bool // under Service.mu: the caller has left; the ask is in the running step
	lent          int  // under Service.mu: rows of logits that the caller reads

	// of the goroutine of the service
	tree     *sessionTree  // nil before it is admitted, and when it is answered
	at       *node         // the last of its context that is retained for it, or nil
	done     int           // tokens of the context up to at
	stale    int           // tokens of the context before this one are evaluated again, for their states
	begun    uint64        // counts questions in the order in which their computing began; 0 before that
	reserved int           // tokens for which it has room reserved
	begin    time.Time     // of its first step
	step     uint64        // the last step with rows for it
	again    uint64        // the last step that computes shared tokens again for its audit
	looks    uint64        // the last step with rows that verify its tokens
	place    int           // in Service.partly
	order    *list.Element // in the backgroundQueue
	patience uint64        // of a background question: it is given up after this foreground step
	paid     bool          // the last token found was a guess, which is paid for
	run      int           // consecutive questions, up to this one, that continued with the answer before
	reply    *reply        // receives the chosen token; nil if it is not needed
}

func (a *ask) isBackground() bool { return a.Priority != terms.Foreground }

func (s *Service) submitAsk(ctx context.Context, a *ask) error {
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
	s.wakeLoop()
	select {
	case <-a.ready:
		return a.err
	case <-ctx.Done():
		s.abandonAsk(a, context.Cause(ctx))
		return context.Cause(ctx)
	}
}

func (s *Service) wakeLoop() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// abandonAsk records that the caller of a has left. The running step is aborted if all its callers have. A session that
// a forgets is dropped nevertheless.
func (s *Service) abandonAsk(a *ask, why error) {
	s.mu.Lock()
	a.gone = true
	s.returnLogitsLocked(a)
	s.left = append(s.left, a)
	if a.running {
		if s.present--; s.present == 0 {
			s.abort(why)
		}
	}
	s.mu.Unlock()
	s.wakeLoop()
}

// beginStep marks a step as running and reports whether any caller waits for it. abort ends the step.
func (s *Service) beginStep(st *step, abort context.CancelCauseFunc) bool {
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

func (s *Service) endStep(st *step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range st.asks {
		a.running = false
	}
}

func (s *Service) runLoop() {
	defer s.done.Done()
	for s.receiveAsks() {
		if s.front.Len()+s.back.Len() > 0 {
			s.runStep(s.planStep())
		}
		s.publishStats()
	}
	s.mu.Lock()
	s.closed = true
	arrived := s.arrived
	s.mu.Unlock()
	for _, a := range slices.AppendSeq(slices.AppendSeq(arrived, s.front.All), s.back.All) {
		s.signalReady(a, ErrClosed)
	}
}

// receiveAsks admits the questions that have arrived and removes those with callers that have gone. It blocks while
// there are none. It reports whether the service is open.
func (s *Service) receiveAsks() bool {
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
		s.admitAsk(a)
	}
	for _, a := range left {
		if a.tree != nil {
			s.dropAsk(a, nil)
		}
	}
	return true
}

func (s *Service) admitAsk(a *ask) {
	if a.forget {
		s.shedSession(s.trees.trees[a.Session])
		s.trees.forgetSession(a.Session)
		s.signalReady(a, nil)
		return
	}
	a.tree = s.trees.openAsk(&a.Job)
	found := s.estimateKnown(a)
	s.queueFor(a).Add(a.Client, a.Device, a.Weight, a, &a.Entry, uint64(max(1, len(a.Context)-found)))
	if a.isBackground() {
		s.admitBackground(a, found)
	} else if late := s.pace.lateBy(a, s.front, s.o.Now()); late > 0 {
		takes := time.Duration(a.Work()) * s.pace.row
		s.dropAsk(a, &Late{After: late + s.pace.retry.Reserve(s.o.Now(), takes, a.Within)})
	}
}

// estimateKnown counts the tokens of the context of a that are in memory, or in the context of the last waiting ask of
// its device.
func (s *Service) estimateKnown(a *ask) int {
	n := a.countInMemory()
	if f := s.queueFor(a).Of(a.Device); f != nil && f.Len() > 0 {
		if last := f.Last(); last.tree.domain == a.tree.domain {
			n = max(n, terms.CommonPrefix(last.Context, a.Context))
		}
	}
	return n
}

func (a *ask) countInMemory() int {
	at := a.tree.root.cell
	for i, token := range a.Context {
		if at = at.below.lookupChild(token); at == nil || a.lacksOutput(at) {
			return i
		}
	}
	return len(a.Context)
}

// countFurther counts the tokens of the context of a that are in memory, from at on. n tokens end at at.
func (a *ask) countFurther(at *cell, n int) int {
	for ; n < len(a.Context); n++ {
		if at = at.below.lookupChild(a.Context[n]); at == nil {
			break
		}
	}
	return n
}

func (s *Service) queueFor(a *ask) *fair.Queue[*ask] {
	if a.isBackground() {
		return s.back
	}
	return s.front
}

// dropAsk removes a question that is not in the running step, and answers it with err.
func (s *Service) dropAsk(a *ask, err error) {
	if a.Waits() {
		s.queueFor(a).Remove(&a.Entry)
	}
	s.releaseAsk(a, err)
}

func (s *Service) releaseAsk(a *ask, err error) {
	s.releaseContext(a)
	s.background.removeAsk(a)
	t := a.tree
	s.reserved -= a.reserved
	t.owner.client.reserved -= a.reserved
	a.tree = nil
	s.trees.closeAsk(t)
	s.signalReady(a, err)
}

func (s *Service) signalReady(a *ask, err error) {
	if !a.forget {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}
	a.err = err
	close(a.ready)
}
