package upstream

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// Stats says what an Upstream has done. Counts only rise.
type Stats struct {
	Engines   []EngineStats
	Repeats   uint64 // questions that were answered from memory, since they had been asked before
	Differing uint64 // answers of an engine other than the one before to the same question, which stood
}

// EngineStats says what one engine has done.
type EngineStats struct {
	URL     string
	Facts   dialect.Facts
	In      bool      // it is in service
	Since   time.Time // when it went in or out
	Why     error     // it is out; nil if it is in
	Open    int       // questions under way
	Outages uint64    // times that it went out

	Asks      uint64 // questions that it was asked
	Requests  uint64 // HTTP requests for those answered
	Answered  uint64
	Failed    uint64 // no answer, by its own fault
	Crowded   uint64 // of these, it said that it takes no more
	Cancelled uint64 // given up by whoever asked
	Late      uint64 // of these, as their deadline had gone by
	Warmed    uint64 // texts that it was given ahead

	Context    uint64        // tokens of the contexts answered where it tells what its cache had
	Cached     uint64        // of these, in its cache
	Audited    uint64        // positions that audits looked at
	Found      uint64        // of these, where it would have chosen another token
	AuditExtra uint64        // tokens that were computed for audits alone
	Unheard    uint64        // audits that came back without sense; the answer stood
	Evicted    uint64        // sessions that lost their slot in the engine to others
	Time       time.Duration // from question to answer, of all answered
	Compute    time.Duration // of this, within the engine, as far as it says so
}

func (s *EngineStats) count(a dialect.Ask, r dialect.Reply, took time.Duration) {
	s.Answered++
	s.Time += took
	s.Compute += min(r.Compute, took)
	if r.Cached >= 0 {
		s.Context += uint64(len(a.Context))
		s.Cached += uint64(min(r.Cached, len(a.Context)))
	}
	s.Audited += uint64(max(r.Audited, 0))
	s.Found += uint64(len(r.Audit))
	s.AuditExtra += uint64(max(r.Extra, 0))
	if r.Unheard != nil {
		s.Unheard++
	}
}

// usual is a time within which most answers come.
func (s *EngineStats) usual() time.Duration {
	const least = 20 * time.Millisecond
	return least + 2*s.Time/time.Duration(max(s.Answered, 1))
}

// Stats returns the counts so far. It waits for no engine.
func (u *Upstream) Stats() Stats {
	s := Stats{Repeats: u.memory.repeats.Load(), Differing: u.memory.differing.Load()}
	for _, m := range u.members {
		m.mu.Lock()
		one := m.stats
		one.Evicted += m.evicted()
		one.URL, one.Facts, one.In, one.Since, one.Why = m.url, m.facts, m.in, m.since, m.why
		m.mu.Unlock()
		s.Engines = append(s.Engines, one)
	}
	return s
}

// evicted is how many sessions lost their slot since the engine is in service. The lock is held.
func (m *member) evicted() uint64 {
	if s, ok := m.e.(dialect.Slotted); ok {
		return s.Evicted()
	}
	return 0
}

// Ready returns why no question can be answered; nil if one engine at least is in service.
func (u *Upstream) Ready() error {
	for _, m := range u.members {
		if _, in := m.serves(); in {
			return nil
		}
	}
	return u.noEngine()
}
