package batch

// Stats says what a service has done since its start, and what it keeps. Counters never decrease.
type Stats struct {
	Slots    int    // tokens that the KV store can keep
	InUse    int    // tokens that it keeps now
	InCommon int    // of these, tokens that more than one session uses
	Sessions int    // sessions with tokens in the store
	Waiting  int    // questions that are not answered yet
	Steps    uint64 // calls of the model
	Computed uint64 // rows of these calls: tokens computed
	Guessed  uint64 // of these rows, guesses of what would follow in a stream: see [Options.Lookup]
	Accepted uint64 // guesses that a question later included
	Reused   uint64 // tokens of answered questions that were in memory when their computation began
	Shared   uint64 // tokens that a session used from others, instead of computing them
	Evicted  uint64 // tokens that made room for others
	Repeated uint64 // rows of tokens that were computed again for their heads
	Shed     uint64 // background questions that were given up

	Ahead     uint64 // answers to questions with priority [terms.Ahead]
	AheadShed uint64 // of Shed, questions with priority [terms.Ahead]

	// Recomputed counts tokens that were computed again after their eviction. If it is a large part of Computed, the
	// store is too small for the sessions in use. It does not count tokens of sessions that [Service.Forget] dropped,
	// nor tokens evicted more than 8 times Slots evictions ago.
	Recomputed uint64
}

// Stats returns the state after the last step.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.published
	st.Waiting = s.waiting
	return st
}

// Rows returns the maximum number of new tokens in a step, for which a question may have to wait.
func (s *Service) Rows() int { return s.o.Rows }

// InUse returns the number of slots of the KV store with tokens of sessions, as of the last step.
func (s *Service) InUse() int { return s.Stats().InUse }

func (s *Service) publishStats() {
	f := s.trees
	s.stats.Slots, s.stats.InUse, s.stats.InCommon = f.slots, f.slots-f.free.n, f.shared
	s.stats.Sessions, s.stats.Evicted = f.sessions, f.evicted
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published = s.stats
}
