package batch

// Callers choose from logits while the next step runs. Those that they have not looked at are bounded: a step that
// wants more waits while they are more rows than one step can have.

// hand counts the rows of logits that the caller of a gets.
func (s *Service) hand(a *ask) {
	n := min(1, len(a.out.Logits))
	for i := range a.found {
		n += min(1, len(a.found[i].Logits))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.gone {
		a.lent = n
		s.lent += n
	}
}

// look says that the caller of a needs no logits any more.
func (s *Service) look(a *ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen(a)
}

// seen is look, under mu: once for each a.
func (s *Service) seen(a *ask) {
	s.lent -= a.lent
	s.looked.Signal()
}

// awaitCallers waits until there is room for the logits of a step.
func (s *Service) awaitCallers(c *call) {
	if !c.want.Logits {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.lent > max(1, s.deepest()/depth(1, true)) {
		s.looked.Wait()
	}
}
