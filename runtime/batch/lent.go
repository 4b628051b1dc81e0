package batch

// Callers choose from logits while the next step runs. The number of rows of logits that callers have not finished
// reading is limited: a step with logits waits while there are more rows than one step can have.

// hand counts the rows of logits that the caller of a receives.
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

// look records that the caller of a no longer reads logits.
func (s *Service) look(a *ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen(a)
}

// seen is look with mu held. It is called once for each ask.
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
