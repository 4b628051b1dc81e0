package upstream

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// Stats has the statistics of an Upstream. Counts only increase.
type Stats struct {
	Engines   []EngineStats
	Repeats   uint64 // questions that were answered from memory
	Differing uint64 // answers of an engine that differed from the stored one, which was used instead
}

// EngineStats has the statistics of one engine.
type EngineStats struct {
	URL     string
	Facts   dialect.Facts
	In      bool   // in service
	Why     error  // why it is out of service; nil if it is in service
	Open    int    // open questions
	Outages uint64 // how often it went out of service

	Answered  uint64
	Failed    uint64 // not answered, by the engine's fault
	Cancelled uint64 // by the client
	Context   uint64 // tokens of the contexts of answers with known use of the cache
	Cached    uint64 // of these, in its cache

	took time.Duration // from question to answer, of all answers
}

func (s *EngineStats) countAnswer(a dialect.Ask, r dialect.Reply, took time.Duration) {
	s.Answered++
	s.took += took
	if r.Cached >= 0 {
		s.Context += uint64(len(a.Context))
		s.Cached += uint64(min(r.Cached, len(a.Context)))
	}
}

func (s *EngineStats) usualTime() time.Duration {
	const least = 20 * time.Millisecond
	return least + 2*s.took/time.Duration(max(s.Answered, 1))
}

// Stats returns the counts so far. It does not wait for an engine.
func (u *Upstream) Stats() Stats {
	s := Stats{Repeats: u.cache.repeats.Load(), Differing: u.cache.differing.Load()}
	for _, m := range u.engines {
		m.mu.Lock()
		one := m.stats
		one.URL, one.Facts, one.In, one.Why = m.url, m.facts, m.in, m.why
		m.mu.Unlock()
		s.Engines = append(s.Engines, one)
	}
	return s
}

// Ready returns why no question can be answered; nil if at least one engine is in service.
func (u *Upstream) Ready() error {
	for _, m := range u.engines {
		if _, in := m.serviceState(); in {
			return nil
		}
	}
	return u.noEngineError()
}
