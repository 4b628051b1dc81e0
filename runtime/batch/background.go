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
			s.shed(old)
		}
		a.tree.waiting = a
	}
	a.order = s.backOrder.PushBack(a)
	a.patience = s.frontSteps + backPatience
	free := s.trees.free.n + s.trees.guessed - a.tree.unasked() // a.tree.spare includes the session's own guesses
	if len(a.Context)-known > free+a.tree.spare(a.Context) {
		s.shed(a)
	}
}

// spare counts the slots of t that can be freed for a context: those that no other session uses, except those of the
// context itself.
func (t *tree) spare(context []int32) int {
	n, at := t.alone, &t.root
	for _, token := range context {
		if at = at.below.at(token); at == nil {
			break
		}
		if at.isAlone() {
			n--
		}
	}
	return n
}

// leaveBackground removes a background question that is answered or given up from the lists.
func (s *Service) leaveBackground(a *ask) {
	if a.order == nil {
		return
	}
	s.backOrder.Remove(a.order)
	a.order = nil
	if a.tree.waiting == a {
		a.tree.waiting = nil
	}
}

// shed gives up a background question that is not in the running step.
func (s *Service) shed(a *ask) {
	s.stats.Shed++
	if a.Priority == terms.Ahead {
		s.stats.AheadShed++
	}
	s.drop(a, ErrShed)
}

// shedOf gives up the background questions of a session. t may be nil.
func (s *Service) shedOf(t *tree) {
	for e := s.backOrder.Front(); t != nil && t.open > 0 && e != nil; {
		a := e.Value.(*ask)
		if e = e.Next(); a.tree == t {
			s.shed(a)
		}
	}
}

// shedStale gives up the background questions that have waited too long for others.
func (s *Service) shedStale() {
	for e := s.backOrder.Front(); e != nil && e.Value.(*ask).patience < s.frontSteps; e = s.backOrder.Front() {
		s.shed(e.Value.(*ask))
	}
}

// renew resets the patience of a background question that was partly computed.
func (s *Service) renew(a *ask) {
	if a.order != nil {
		a.patience = s.frontSteps + backPatience
		s.backOrder.MoveToBack(a.order)
	}
}

// givesWay reports whether the partly computed question a loses its place in memory before b: background questions
// first, then those that began later.
func givesWay(a, b *ask) bool {
	if a.background() != b.background() {
		return a.background()
	}
	return a.begun > b.begun
}
