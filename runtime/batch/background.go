package batch

import "github.com/pilotfish-ai/pilotfish/netproto/terms"

// backPatience is how many steps of others in a row a background question waits out.
const backPatience = 16

// admitBackground takes in a background question, of which so many tokens are known. It is given up at once if what is
// free, or its session's own, is not enough. It takes the place of an older one of its session, unless it is about a
// token ahead: of these a session may have several.
func (s *Service) admitBackground(a *ask, known int) {
	if a.Priority != terms.Ahead {
		if old := a.tree.waiting; old != nil {
			s.shed(old)
		}
		a.tree.waiting = a
	}
	a.order = s.backOrder.PushBack(a)
	a.patience = s.frontSteps + backPatience
	free := s.trees.free.n + s.trees.guessed - a.tree.unasked() // those of its own are among the slots of its session
	if len(a.Context)-known > free+a.tree.spare(a.Context) {
		s.shed(a)
	}
}

// spare counts the slots that t can give for a context: those that no other session uses, but for the context's own.
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

// leaveBackground forgets a background question that is answered or given up.
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

// shedOf gives up the background questions of a session, whose tree may be nil.
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

// renew gives a background question that was computed in part its patience back.
func (s *Service) renew(a *ask) {
	if a.order != nil {
		a.patience = s.frontSteps + backPatience
		s.backOrder.MoveToBack(a.order)
	}
}

// givesWay says which of two partly computed questions loses its place in memory first: that in the background, and
// the one that began later.
func givesWay(a, b *ask) bool {
	if a.background() != b.background() {
		return a.background()
	}
	return a.begun > b.begun
}
