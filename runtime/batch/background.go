package batch

import (
	"container/list"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// backPatience is how many consecutive foreground steps a background question waits before it is given up.
const backPatience = 16

// backgroundQueue holds the background questions, those with the least patience left first.
type backgroundQueue struct {
	order list.List
	steps uint64 // counts steps that were not for background questions
}

func (q *backgroundQueue) addAsk(a *ask) {
	a.order, a.patience = q.order.PushBack(a), q.steps+backPatience
}

// removeAsk does nothing with other questions, or a second time.
func (q *backgroundQueue) removeAsk(a *ask) {
	if a.order == nil {
		return
	}
	q.order.Remove(a.order)
	a.order = nil
	if a.tree.waiting == a {
		a.tree.waiting = nil
	}
}

// resetPatience does nothing with other questions.
func (q *backgroundQueue) resetPatience(a *ask) {
	if a.order != nil {
		a.patience = q.steps + backPatience
		q.order.MoveToBack(a.order)
	}
}

// firstStale returns the question that has waited longest if it is to be given up; else nil.
func (q *backgroundQueue) firstStale() *ask {
	if e := q.order.Front(); e != nil && e.Value.(*ask).patience < q.steps {
		return e.Value.(*ask)
	}
	return nil
}

// admitBackground admits a background question; known of its tokens are in memory. The question is given up at once if
// the free slots and those of its own session are not enough. It replaces an older background question of its session,
// unless it is about a token ahead: a session may have several of these.
func (s *Service) admitBackground(a *ask, known int) {
	if a.Priority != terms.Ahead {
		if old := a.tree.waiting; old != nil {
			s.shedAsk(old)
		}
		a.tree.waiting = a
	}
	s.background.addAsk(a)
	free := s.trees.free.n + s.trees.guessed - a.tree.unaskedGuesses() // the freeable slots include the guesses
	if len(a.Context)-known > free+a.tree.freeableSlots(a.Context) {
		s.shedAsk(a)
	}
}

// freeableSlots counts the slots of t that can be freed for a context: those that no other session uses, except those
// of the context itself.
func (t *sessionTree) freeableSlots(context []int32) int {
	n, at := t.alone, &t.root
	for _, token := range context {
		if at = at.below.lookupChild(token); at == nil {
			break
		}
		if at.isUnshared() {
			n--
		}
	}
	return n
}

func (s *Service) shedAsk(a *ask) {
	s.stats.Shed++
	if a.Priority == terms.Ahead {
		s.stats.AheadShed++
	}
	s.dropAsk(a, ErrShed)
}

// t may be nil.
func (s *Service) shedSession(t *sessionTree) {
	for e := s.background.order.Front(); t != nil && t.open > 0 && e != nil; {
		a := e.Value.(*ask)
		if e = e.Next(); a.tree == t {
			s.shedAsk(a)
		}
	}
}

func (s *Service) shedStale() {
	for a := s.background.firstStale(); a != nil; a = s.background.firstStale() {
		s.shedAsk(a)
	}
}

// evictedBefore reports whether the partly computed question a loses its place in memory before b: background questions
// first, then those that began later.
func evictedBefore(a, b *ask) bool {
	if a.isBackground() != b.isBackground() {
		return a.isBackground()
	}
	return a.begun > b.begun
}
