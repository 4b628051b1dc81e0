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

	Asks      uint64 // questions sent to it
	Requests  uint64 // HTTP requests for those answered
	Answered  uint64
	Failed    uint64 // not answered, by the engine's fault
	Crowded   uint64 // of these, refused because it was full
	Cancelled uint64 // cancelled by the client
	Late      uint64 // of these, because their deadline had passed
	Warmed    uint64 // prefilled texts

	Context    uint64        // tokens of the contexts of answers with known use of the cache
	Cached     uint64        // of these, in its cache
	Audited    uint64        // audited positions
	Found      uint64        // of these, with another choice of the engine
	AuditExtra uint64        // tokens that were computed for audits alone
	Unheard    uint64        // invalid audits; the answers were used
	Evicted    uint64        // sessions that lost their slot in the engine
	Time       time.Duration // from question to answer, of all answers
	Compute    time.Duration // of this, in the engine, if it reports that
}

func (s *EngineStats) count(a dialect.Ask, r dialect.Reply, took time.Duration) {
	s.Answered++
	s.Time += took
	s.Compute += min(r.Compute, took)
	if r.Cached >= 0 {
		s.Context += uint64(len(a.Context))
		s.Cached += uint64(min(r.Cached, len(a.Context)))
	}
	s.Audited += uint64(len(r.Rows))
	for i, row := range r.Rows {
		if row.Top[0].ID != a.Context[len(a.Context)-len(r.Rows)+i] {
			s.Found++
		}
	}
	s.AuditExtra += uint64(max(r.Extra, 0))
	if r.Unheard != nil {
		s.Unheard++
	}
}

// usual returns a time within which most answers arrive.
func (s *EngineStats) usual() time.Duration {
	const least = 20 * time.Millisecond
	return least + 2*s.Time/time.Duration(max(s.Answered, 1))
}

// Stats returns the counts so far. It does not wait for an engine.
func (u *Upstream) Stats() Stats {
	s := Stats{Repeats: u.memory.repeats.Load(), Differing: u.memory.differing.Load()}
	for _, m := range u.members {
		m.mu.Lock()
		one := m.stats
		one.Evicted += m.evicted()
		one.URL, one.Facts, one.In, one.Why = m.url, m.facts, m.in, m.why
		m.mu.Unlock()
		s.Engines = append(s.Engines, one)
	}
	return s
}

// evicted returns how many sessions have lost their slot since the engine went in service. The lock is held.
func (m *member) evicted() uint64 {
	if s, ok := m.e.(dialect.Slotted); ok {
		return s.Evicted()
	}
	return 0
}

// Ready returns why no question can be answered; nil if at least one engine is in service.
func (u *Upstream) Ready() error {
	for _, m := range u.members {
		if _, in := m.serves(); in {
			return nil
		}
	}
	return u.noEngine()
}
