package batch

import "github.com/pilotfish-ai/pilotfish/netproto/terms"

// backPatience is how many consecutive foreground steps a background question waits before it is given up.
const backPatience = 16

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
	a.order = s.backOrder.PushBack(a)
	a.patience = s.frontSteps + backPatience
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

func (s *Service) removeBackground(a *ask) {
	if a.order == nil {
		return
	}
	s.backOrder.Remove(a.order)
	a.order = nil
	if a.tree.waiting == a {
		a.tree.waiting = nil
	}
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
	for e := s.backOrder.Front(); t != nil && t.open > 0 && e != nil; {
		a := e.Value.(*ask)
		if e = e.Next(); a.tree == t {
			s.shedAsk(a)
		}
	}
}

func (s *Service) shedStale() {
	for e := s.backOrder.Front(); e != nil && e.Value.(*ask).patience < s.frontSteps; e = s.backOrder.Front() {
		s.shedAsk(e.Value.(*ask))
	}
}

func (s *Service) resetPatience(a *ask) {
	if a.order != nil {
		a.patience = s.frontSteps + backPatience
		s.backOrder.MoveToBack(a.order)
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
