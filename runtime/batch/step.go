package batch

import (
	"math"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// step is one call of the model: rows of several asks, and what the head is to find for them.
type step struct {
	number uint64
	begin  time.Time
	rows   []stepRow
	asks   []*ask // that have a part in it
	closed bool   // an ask could not begin for want of room: those after it do not either, unless they end in this step
	uncut  int    // asks that need up to so many tokens are not cut in two
	used   int    // rows that are paid for: what is in memory costs an ask one, too
	deep   int    // asks that want so much of the head that it is costly
	most   int    // what the deepest of them wants: in one call, the head of each costs as much
}

// stepRow is a node to be computed.
type stepRow struct {
	*node
	again  bool  // it has been computed before, but what was kept of the head is not enough
	slot   int32 // where its key and value go
	k      int   // candidates that are wanted of the head; 0 means none
	logits bool
}

// aside reports whether the row is computed beside the slot of its node, which stays as it is.
func (r stepRow) aside() bool { return r.slot != r.node.slot }

// plain is up to how deep the head of any row of a step may look: the cost of more is bounded by the step.
const plainDepth = 8

// depth is what the head of a row costs, in candidates. All logits cost as much as so many.
func depth(k int, logits bool) int {
	if logits {
		return max(k, 32)
	}
	return k
}

// Prices in units of work: a row through the layers, and a row through the head, which costs about a quarter of it and
// more if many candidates are wanted.
const rowPrice = 4

func headPrice(k int, logits bool) uint64 { return 1 + uint64(depth(k, logits))/plainDepth }

// shortRows is how many tokens a short ask needs at most, in steps of so many rows. By turns a device gets as many at
// a time.
func shortRows(rows int) int { return max(1, rows/4) }

// trickleRows is how many rows of a step other asks get beside short ones.
func trickleRows(rows int) int { return max(1, rows/8) }

// backRows is how many rows a step of background questions has: a question that comes meanwhile waits for it to end.
func backRows(rows int) int { return max(1, rows/4) }

// plan chooses the rows of the next step. Short asks of devices that wait for little come first, with a few rows of
// others beside them. If there are none, devices get rows by turns until the step is full. Background questions are
// computed when nobody else waits.
func (s *Service) plan() *step {
	s.trees.clock++
	st := &step{number: s.trees.clock, begin: s.o.Now()}
	q := s.front
	if q.Len() == 0 {
		q = s.back
	} else {
		s.frontSteps++
		s.shedStale()
		s.refresh()
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
	s.guess(st)
	return st
}

// refresh looks again at devices that waited for much when they came, those that are most behind: others may have
// computed since what they begin with, so that they wait for little now.
func (s *Service) refresh() {
	q := s.front
	looks := 0
	for f := q.NextLong(); f != nil && looks < maxLooks; f = q.NextLong() {
		if f.Len() <= maxLooks {
			for a := range f.All {
				s.estimate(a, len(a.Context)-a.inMemory())
			}
		}
		if f == q.NextLong() {
			q.Aside(f)
			looks++
		}
	}
	q.Restore()
}

// maxLooks is at how many devices that go on waiting for much refresh looks, and at how many asks of one.
const maxLooks = 4

// planShort adds the short asks of devices that wait for little, and reports whether there are any.
func (s *Service) planShort(st *step) bool {
	q, limit := s.front, s.o.Rows
	if q.NextLong() != nil {
		limit = max(1, limit-trickleRows(limit))
	}
	st.uncut = math.MaxInt
	for f := q.NextShort(); f != nil && st.used < limit; f = q.NextShort() {
		a := f.First()
		if s.join(st, a, min(shortRows(s.o.Rows), limit-st.used)); a.Waits() {
			q.Aside(f)
		}
	}
	q.Restore()
	return st.used > 0
}

// planTurns gives every device of q a turn, those that are most behind first, up to limit rows.
func (s *Service) planTurns(st *step, q *fair.Queue[*ask], limit int) {
	if st.uncut = 0; limit == s.o.Rows {
		st.uncut = shortRows(s.o.Rows)
	}
	for f := q.Next(); f != nil && st.used < limit; f = q.Next() {
		most := limit - st.used
		if q.Len() > 1 {
			most = min(most, shortRows(s.o.Rows))
		}
		if !s.join(st, f.First(), most) && f.Len() > 0 {
			q.Aside(f)
		}
	}
	q.Restore()
}

// join gives a up to most rows of the step, and reports whether it got any. An ask that is complete with it leaves the
// queue.
func (s *Service) join(st *step, a *ask, most int) bool {
	q := s.queueOf(a)
	if st.closed && a.reserved == 0 && !a.background() && a.Work() > uint64(most) {
		return false
	}
	s.partly.Set(a, false)
	s.find(st, a)
	left := len(a.Context) - a.done
	ends, now := left <= most, left
	if !ends {
		now = a.cut(most)
	}
	if !ends && left <= st.uncut || ends && !s.headFits(st, a) || !ends && !s.reserve(st, a) {
		s.stay(st, a, left)
		return false
	}
	before := st.used
	cost := s.grow(st, a, now, ends)
	if a.done == len(a.Context) {
		cost += s.wantLast(st, a)
		st.used += max(0, 1-(st.used-before))
	}
	if st.used == before {
		return s.noRoom(st, a, left)
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
		q.Charge(a.Device, max(cost, rowPrice))
	}
	if a.done == len(a.Context) {
		q.Remove(&a.Entry)
	} else {
		s.estimate(a, len(a.Context)-a.done)
	}
	return true
}

// estimate corrects how many tokens a needs, about.
func (s *Service) estimate(a *ask, tokens int) {
	s.queueOf(a).Estimate(&a.Entry, uint64(max(1, tokens)))
}

// stay lets a wait for another step. What it has found is only kept for it if it has begun.
func (s *Service) stay(st *step, a *ask, left int) {
	s.estimate(a, left)
	switch {
	case a.step == st.number: // the step holds it
	case a.begun == 0 || a.at.step == st.number: // what another ask has in this step may come to nothing
		s.letGo(a)
	default:
		s.partly.Set(a, true)
	}
}

// noRoom is stay for an ask that finds no free slot. A background question is given up.
func (s *Service) noRoom(st *step, a *ask, left int) bool {
	if a.background() && a.step != st.number {
		s.shed(a)
		return false
	}
	s.stay(st, a, left)
	return false
}

// find goes on along what is there of the context of a: what its session has used, and then what others have.
func (s *Service) find(st *step, a *ask) {
	at := a.at
	if at == nil {
		at, a.done = &a.tree.root, 0
	}
	for ; a.done < len(a.Context); a.done++ {
		next := at.below.at(a.Context[a.done])
		if next == nil {
			c := at.cell.below.at(a.Context[a.done])
			if c == nil || st.lacksHead(a, c) {
				break
			}
			next = s.trees.use(at, c)
			s.stats.Shared++
		} else if a.lacks(next.cell) {
			break
		}
		at = next
		at.used = s.trees.clock
		if a.paid = at.guess; a.paid {
			s.asked(at)
		}
		s.wantAudit(st, a, at)
	}
	s.moveTo(a, at)
	s.trees.thin()
	if a.begun == 0 {
		if a.answer.Reused = a.done; a.Verify != terms.AsItComes {
			a.answer.Reused = max(a.further(a.at.cell, a.done)-a.before, 0)
		}
	}
}

// lacksHead reports whether a token that another session has computed is computed once more for the audit of a, which
// reaches as far back then as if nothing were shared; with it those behind it in the same step, as they wait for it.
// Nobody wants to know the audit of a background question.
func (st *step) lacksHead(a *ask, c *cell) bool {
	if a.Verify != terms.AsItComes {
		return a.lacks(c)
	}
	return c.step != st.number && (a.again == st.number || a.audits(c) && c.k == 0 && !a.background())
}

// audits reports whether a wants to know what follows a token of its context.
func (a *ask) audits(c *cell) bool { return a.AuditFrom >= 1 && int(c.pos) >= a.AuditFrom-1 }

// moveTo retains at for a, instead of what it retained before.
func (s *Service) moveTo(a *ask, at *node) {
	if at == a.at {
		return
	}
	s.trees.retain(at)
	if a.at != nil {
		s.trees.release(a.at)
	}
	a.at = at
}

// grow adds up to n tokens of the context of a to the step, as far as there is room, and returns their price.
func (s *Service) grow(st *step, a *ask, n int, ends bool) (cost uint64) {
	if a.Verify != terms.AsItComes {
		return s.growVerified(st, a, n, ends)
	}
	for range s.room(a, n, ends) {
		token := a.Context[a.done]
		var next *node
		if c := a.at.cell.below.at(token); c != nil {
			next, a.again = s.trees.use(a.at, c), st.number
			if c.step != st.number {
				s.repeat(st, next)
				a.answer.Computed++
			}
		} else {
			next = s.trees.add(a.at, token)
			st.add(stepRow{node: next, slot: next.slot})
			a.answer.Computed++
		}
		s.moveTo(a, next)
		a.done++
		st.used++
		cost += rowPrice + s.wantAudit(st, a, next)
	}
	return cost
}

// add adds a row.
func (st *step) add(r stepRow) {
	r.step, r.row = st.number, len(st.rows)
	st.rows = append(st.rows, r)
}

// repeat adds a row for n, which has been computed before. Where other sessions use it that is done in a free slot, of
// which there may be one: so they lose nothing if the step fails.
func (s *Service) repeat(st *step, n *node) {
	r := stepRow{node: n, again: true, slot: n.slot}
	if !n.isAlone() && s.trees.free.n > 0 {
		r.slot = s.trees.free.take(0)
	}
	st.add(r)
}

// vacate frees the slots that were only for the step.
func (s *Service) vacate(st *step) {
	for _, r := range st.rows {
		if r.aside() {
			s.trees.free.put(r.slot)
		}
	}
}

// wantAudit asks the head for the token after n, if a wants to know it, n is of this step, and returns the price.
func (s *Service) wantAudit(st *step, a *ask, n *node) uint64 {
	if a.Verify != terms.AsItComes || !a.audits(n.cell) || n.step != st.number {
		return 0
	}
	if r := &st.rows[n.row]; r.k == 0 {
		r.k = 1
		return headPrice(1, false)
	}
	return 0
}

// need is what the answer of a takes of the head.
func (a *ask) need() backend.Want {
	if a.part {
		return a.heads
	}
	return a.sampler.Want(backend.Want{K: a.K})
}

// headFits reports whether the head of this step can serve a, whose last token it has or gets. One deep ask always has
// its turn.
func (s *Service) headFits(st *step, a *ask) bool {
	w := a.need()
	d, n := depth(w.K, w.Logits), 1
	if a.atOnce() {
		d = max(d, depth(a.heads.K, a.heads.Logits))
		n = len(a.Context) - max(min(a.done, len(a.Context)-1), a.AuditFrom-1)
	}
	return d <= plainDepth || st.deep == 0 || (st.deep+n)*max(st.most, d) <= s.deepest()
}

// deepest is the most that the head does in one call: rows times depth.
func (s *Service) deepest() int { return plainDepth * s.o.Rows }

// wantLast asks the head for what follows the context of a, unless enough is kept of it, and returns the price.
func (s *Service) wantLast(st *step, a *ask) uint64 {
	n, w := a.at, a.need()
	if !w.Logits && n.k >= w.K {
		return 0
	}
	if n.step != st.number {
		if !n.isAlone() {
			s.room(a, 1, true)
		}
		s.repeat(st, n)
		st.used++
		a.answer.Computed++
	}
	r := &st.rows[n.row]
	r.k, r.logits = max(r.k, w.K), r.logits || w.Logits
	if d := depth(w.K, w.Logits); d > plainDepth {
		st.deep, st.most = st.deep+1, max(st.most, d)
	}
	return headPrice(w.K, w.Logits)
}

// undo takes the tokens of a step, and what follows them, out of memory and from all sessions: their slots are
// undefined. No ask of the step holds any.
func (s *Service) undo(st *step) {
	for _, r := range st.rows {
		if r.again && !r.aside() { // others may hold what follows it
			for s.partly.Len() > 0 {
				s.letGo(s.partly.First())
			}
		}
	}
	for _, r := range slices.Backward(st.rows) { // children come after parents
		for !r.aside() && r.first != nil {
			s.trees.cut(r.first)
		}
	}
}
