package batch

import (
	"math"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// step is one call of the model: rows of several asks, and what the head computes for them.
type step struct {
	number  uint64
	begin   time.Time
	rows    []stepRow
	asks    []*ask // with rows in the step
	closed  bool   // a client had no room to begin: later asks do not begin either, unless they end in this step
	clients int    // with foreground asks; at least 1
	uncut   int    // asks that need at most this many tokens are not split over steps
	used    int    // rows that are paid for: an ask pays for one row even if all its tokens are in memory
	deep    int    // asks with a costly head
	most    int    // the largest depth of these asks: in one call, the head costs as much for each row
}

// stepRow is a node to be computed.
type stepRow struct {
	*node
	again  bool  // it was computed before, but too little of the head was kept
	slot   int32 // where its key and value go
	k      int   // candidates that are wanted of the head; 0 means none
	logits bool
	hidden bool // the state after the final norm
}

// usesOtherSlot reports whether the row is computed in another slot than that of its node, which stays unchanged.
func (r stepRow) usesOtherSlot() bool { return r.slot != r.node.slot }

// plainDepth is the depth of the head that any row of a step may have. Above it, the step limits the total cost.
const plainDepth = 8

// headDepth returns the cost of the head of a row, in candidates. All logits cost as much as 32 candidates.
func headDepth(k int, logits bool) int {
	if logits {
		return max(k, 32)
	}
	return k
}

// Prices in units of work: a row through the layers, and a row through the head, which costs about a quarter of it and
// more if many candidates are wanted.
const rowPrice = 4

func headPrice(k int, logits bool) uint64 { return 1 + uint64(headDepth(k, logits))/plainDepth }

func shortRows(rows int) int { return max(1, rows/4) }

func trickleRows(rows int) int { return max(1, rows/8) }

// backRows returns the number of rows of a step of background questions. It is small because a foreground question that
// arrives meanwhile has to wait for the step to end.
func backRows(rows int) int { return max(1, rows/4) }

// planStep chooses the rows of the next step. Short asks of devices with little waiting work come first, together with
// a few rows of other asks. If there are none, the asks that would end first by the shares of their clients and devices
// get rows until the step is full: of equal ones the one that came first. Background questions are computed when no
// foreground question waits.
func (s *Service) planStep() *step {
	s.trees.clock++
	st := &step{number: s.trees.clock, begin: s.o.Now(), clients: max(s.front.Clients(), 1)}
	q := s.front
	if q.Len() == 0 {
		q = s.back
	} else {
		s.background.steps++
		s.shedStale()
		s.refreshEstimates()
	}
	q.Advance()
	switch {
	case q == s.back:
		s.planTurns(st, q, backRows(s.o.Rows))
	case s.planShort(st):
		s.planTurns(st, q, min(s.o.Rows, st.used+trickleRows(s.o.Rows)))
	default:
		s.planTurns(st, q, s.o.Rows)
	}
	s.planGuesses(st)
	return st
}

// refreshEstimates estimates again the work of devices that had much waiting work when their asks came, those with the
// smallest tags: others may have computed the beginning of their contexts since, so that little work is left.
func (s *Service) refreshEstimates() {
	q := s.front
	looks := 0
	for f := q.NextLong(); f != nil && looks < maxLooks; f = q.NextLong() {
		if f.Len() <= maxLooks {
			for a := range f.All {
				s.updateEstimate(a, len(a.Context)-a.countInMemory())
			}
		}
		if f == q.NextLong() {
			q.Aside(f)
			looks++
		}
	}
	q.Restore()
}

// maxLooks is the maximum number of devices that refreshEstimates looks at without success, and of asks of one device.
const maxLooks = 4

func (s *Service) planShort(st *step) bool {
	q, limit := s.front, s.o.Rows
	if q.NextLong() != nil {
		limit = max(1, limit-trickleRows(limit))
	}
	st.uncut = math.MaxInt
	for f := q.NextShort(); f != nil && st.used < limit; f = q.NextShort() {
		a := f.First()
		if s.joinStep(st, a, min(shortRows(s.o.Rows), limit-st.used)); a.Waits() {
			q.Aside(f)
		}
	}
	q.Restore()
	return st.used > 0
}

func (s *Service) planTurns(st *step, q *fair.Queue[*ask], limit int) {
	if st.uncut = 0; limit == s.o.Rows {
		st.uncut = shortRows(s.o.Rows)
	}
	for f := q.Next(); f != nil && st.used < limit; f = q.Next() {
		if !s.joinStep(st, f.First(), limit-st.used) && f.Len() > 0 {
			q.Aside(f)
		}
	}
	q.Restore()
}

// joinStep gives a up to most rows of the step, and reports whether it got any. An ask that is completed by the step
// leaves the queue.
func (s *Service) joinStep(st *step, a *ask, most int) bool {
	q := s.queueFor(a)
	if st.isClosedTo(a.tree.owner.client) && a.reserved == 0 && !a.isBackground() && a.Work() > uint64(most) {
		return false
	}
	s.partly.Set(a, false)
	s.advanceInMemory(st, a)
	left := len(a.Context) - a.done
	ends, now := left <= most, left
	if !ends {
		now = a.limitPartial(most)
	}
	if !ends && left <= st.uncut || ends && !s.headFits(st, a) || !ends && !s.reserveRoom(st, a) {
		s.keepWaiting(st, a, left)
		return false
	}
	before := st.used
	cost := s.addContextTokens(st, a, now, ends)
	if a.done == len(a.Context) {
		cost += s.requestLastHead(st, a)
		st.used += max(0, 1-(st.used-before))
	}
	if st.used == before {
		return s.handleNoRoom(st, a, left)
	}
	if a.step != st.number {
		a.step = st.number
		st.asks = append(st.asks, a)
	}
	if a.begun == 0 {
		s.begun++
		a.begun, a.begin = s.begun, st.begin
	}
	if cost > 0 || !a.paid {
		q.Charge(a.Client, a.Device, max(cost, rowPrice), a.Weight)
	}
	if a.done == len(a.Context) {
		q.Remove(&a.Entry)
	} else {
		s.updateEstimate(a, len(a.Context)-a.done)
	}
	return true
}

func (s *Service) updateEstimate(a *ask, tokens int) {
	s.queueFor(a).Estimate(&a.Entry, uint64(max(1, tokens)))
}

// keepWaiting keeps a waiting for another step. The part of its context that was found is retained only if it has
// begun.
func (s *Service) keepWaiting(st *step, a *ask, left int) {
	s.updateEstimate(a, left)
	switch {
	case a.step == st.number: // the step holds it
	case a.begun == 0 || a.at.step == st.number: // the other ask's rows may fail
		s.releaseContext(a)
	default:
		s.partly.Set(a, true)
	}
}

func (s *Service) handleNoRoom(st *step, a *ask, left int) bool {
	if a.isBackground() && a.step != st.number {
		s.shedAsk(a)
		return false
	}
	s.keepWaiting(st, a, left)
	return false
}

// advanceInMemory advances a along the tokens of its context that are in memory: those that its session has used, and
// then those of other sessions.
func (s *Service) advanceInMemory(st *step, a *ask) {
	at := a.at
	if at == nil {
		at, a.done, a.stale = &a.tree.root, 0, 0
	}
	for ; a.done < len(a.Context); a.done++ {
		next := at.below.lookupChild(a.Context[a.done])
		if next == nil {
			c := at.cell.below.lookupChild(a.Context[a.done])
			if c == nil || st.lacksHead(a, c) {
				break
			}
			next = s.trees.useCell(at, c)
			s.stats.Shared++
		} else if a.lacksOutput(next.cell) || st.lacksState(a, next.cell) {
			break
		}
		at = next
		at.used = s.trees.clock
		if a.paid = at.guess; a.paid {
			s.acceptGuess(at)
		}
		s.requestAuditHead(st, a, at)
	}
	at = s.rewindToState(st, a, at)
	s.moveTo(a, at)
	s.trees.evictExcessNodes()
	if a.begun == 0 {
		if a.answer.Reused = a.done; a.Verify != terms.AsItComes && a.stale == 0 {
			a.answer.Reused = max(a.countFurther(a.at.cell, a.done)-a.before, 0)
		}
	}
}

// lacksHead reports whether a token that another session has computed is computed a second time for the audit of a. So
// the audit reaches as far back as if nothing were shared. The tokens after it in the same step are computed a second
// time too, because they wait for it. A background question has no audit.
func (st *step) lacksHead(a *ask, c *cell) bool {
	if st.lacksState(a, c) {
		return true
	}
	if a.Verify != terms.AsItComes {
		return a.lacksOutput(c)
	}
	return c.step != st.number && (a.again == st.number || a.auditsToken(c) && c.k == 0 && !a.isBackground())
}

func (a *ask) auditsToken(c *cell) bool { return a.AuditFrom >= 1 && int(c.pos) >= a.AuditFrom-1 }

func (s *Service) moveTo(a *ask, at *node) {
	if at == a.at {
		return
	}
	s.trees.retainNode(at)
	if a.at != nil {
		s.trees.releaseNode(a.at)
	}
	a.at = at
}

// addContextTokens adds up to n tokens of the context of a to the step, as far as there is room, and returns their
// price.
func (s *Service) addContextTokens(st *step, a *ask, n int, ends bool) (cost uint64) {
	if a.Verify != terms.AsItComes {
		return s.addVerifiedTokens(st, a, n, ends)
	}
	for range s.makeRoom(a, n, ends) {
		token := a.Context[a.done]
		next := a.at.below.lookupChild(token)
		if c := a.at.cell.below.lookupChild(token); c != nil {
			if a.again = st.number; next == nil {
				next = s.trees.useCell(a.at, c)
			}
			if c.step != st.number {
				s.recomputeNode(st, next)
				a.answer.Computed++
			}
		} else {
			next = s.trees.addToken(a.at, token)
			st.addRow(stepRow{node: next, slot: next.slot})
			a.answer.Computed++
		}
		s.moveTo(a, next)
		a.done++
		st.used++
		cost += rowPrice + s.requestAuditHead(st, a, next)
	}
	return cost
}

func (st *step) addRow(r stepRow) {
	r.step, r.row = st.number, len(st.rows)
	st.rows = append(st.rows, r)
}

func (r *stepRow) requestOutput(w backend.Want) {
	r.k, r.logits, r.hidden = max(r.k, w.K), r.logits || w.Logits, r.hidden || w.Hidden
}

// recomputeNode adds a row for n, which has been computed before. If other sessions use n, a free slot is used if there
// is one, so that they lose nothing if the step fails. A recurrent state is needed in the slot of n.
func (s *Service) recomputeNode(st *step, n *node) {
	r := stepRow{node: n, again: true, slot: n.slot}
	if s.states == nil && !n.isUnshared() && s.trees.free.n > 0 {
		r.slot = s.trees.free.takeSlot(0)
	}
	st.addRow(r)
}

func (s *Service) freeStepSlots(st *step) {
	for _, r := range st.rows {
		if r.usesOtherSlot() {
			s.trees.free.addSlot(r.slot)
		}
	}
}

// requestAuditHead requests the head for the token after n, if a audits it and n is of this step. It returns the price.
func (s *Service) requestAuditHead(st *step, a *ask, n *node) uint64 {
	if a.Verify != terms.AsItComes || !a.auditsToken(n.cell) || n.step != st.number {
		return 0
	}
	if r := &st.rows[n.row]; r.k == 0 {
		r.k = 1
		return headPrice(1, false)
	}
	return 0
}

func (a *ask) headNeeds() backend.Want {
	if a.part {
		return a.heads
	}
	w := a.sampler.Want(backend.Want{K: a.K})
	w.Hidden = a.heads.Hidden // a judge looks at what follows the last token
	return w
}

// The last token of a is in memory or in the step. One deep ask always gets its turn.
func (s *Service) headFits(st *step, a *ask) bool {
	w := a.headNeeds()
	d, n := headDepth(w.K, w.Logits), 1
	if a.needsOneStep() {
		d = max(d, headDepth(a.heads.K, a.heads.Logits))
		n = len(a.Context) - max(min(a.done, len(a.Context)-1), a.AuditFrom-1)
	}
	return d <= plainDepth || st.deep == 0 || (st.deep+n)*max(st.most, d) <= s.maxHeadCost()
}

// maxHeadCost returns the maximum cost of the head in one call: rows times depth.
func (s *Service) maxHeadCost() int { return plainDepth * s.o.Rows }

// requestLastHead requests the head for the last token of the context of a, unless enough of its results is kept. It
// returns the price.
func (s *Service) requestLastHead(st *step, a *ask) uint64 {
	n, w := a.at, a.headNeeds()
	if !a.lacksLastHead(n) {
		return 0
	}
	if n.step != st.number {
		if !n.isUnshared() {
			s.makeRoom(a, 1, true)
		}
		s.recomputeNode(st, n)
		st.used++
		a.answer.Computed++
	}
	r := &st.rows[n.row]
	r.requestOutput(w)
	if d := headDepth(w.K, w.Logits); d > plainDepth {
		st.deep, st.most = st.deep+1, max(st.most, d)
	}
	return headPrice(w.K, w.Logits)
}

// undoStep removes the tokens of a step, and all tokens after them, from memory and from all sessions: the contents of
// their slots are undefined. The asks of the step must not retain any of them.
func (s *Service) undoStep(st *step) {
	for _, r := range st.rows {
		if r.again && !r.usesOtherSlot() { // other asks may retain tokens after it
			for s.partly.Len() > 0 {
				s.releaseContext(s.partly.First())
			}
		}
	}
	for _, r := range slices.Backward(st.rows) { // children come after parents
		for !r.usesOtherSlot() && r.first != nil {
			s.trees.removeSubtree(r.first)
		}
	}
}
