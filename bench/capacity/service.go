package capacity

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
)

// serviceRows is the maximum number of rows of a step of the service, the default of package batch.
const serviceRows = 128

// work is the work of a device at the large model.
type work struct {
	ask  ask
	have int // computed tokens of its text

	start         uint64 // tag of its next work, in units
	left          int    // rows that it still needs
	active, light int    // places

	rows          int    // of a stream, in the current pass
	tokens        int    // of a stream, so far
	served, since uint64 // of a stream: passes, and its order among those with the same number
}

// service is the large model at a gateway: the steps of package batch, for devices with one open ask at a time. Short
// asks go first, with a few rows of other asks in the same step; otherwise devices take turns by the work that they
// have caused. The names are those of package batch.
type service struct {
	limit         int    // per step
	now, spent    uint64 // virtual time, in units of work; work since it last advanced
	active, light fair.Heap[*device]
	used, heads   int // of the step
	uncut         int // asks that need up to this number of tokens are not split
	ended, aside  []*device
}

// Prices and shares, as in package batch.
const (
	rowPrice  = 4
	headPrice = 1
	headStart = 128
)

func newService(limit int) *service {
	heap := func(place func(*device) *int) fair.Heap[*device] {
		return fair.Heap[*device]{Before: func(a, b *device) bool { return a.start < b.start }, Place: place}
	}
	return &service{
		limit: limit, active: heap(func(d *device) *int { return &d.active }),
		light: heap(func(d *device) *int { return &d.light }),
	}
}

// short is the maximum number of rows of a short ask, trickle the number of rows for others beside short asks.
func (s *service) short() int   { return max(1, s.limit/4) }
func (s *service) trickle() int { return max(1, s.limit/8) }

// add implements [scheduler].
func (s *service) add(d *device) {
	d.have = min(d.have, d.ask.keep)
	d.start = max(d.start, s.now)
	d.left = max(1, d.ask.text-d.have)
	s.put(d, true)
}

// put puts d into its queue.
func (s *service) put(d *device, waits bool) {
	s.active.Set(d, waits)
	s.light.Set(d, waits && d.left <= s.short())
}

// plan implements [scheduler].
func (s *service) plan() (rows, heads int) {
	s.used, s.heads, s.ended = 0, 0, s.ended[:0]
	if s.active.Len() == 0 {
		return 0, 0
	}
	s.now = max(s.now, min(s.active.First().start, s.now+s.spent))
	s.spent = 0
	if s.planShort(); s.used > 0 {
		s.planTurns(min(s.limit, s.used+s.trickle()))
	} else {
		s.planTurns(s.limit)
	}
	return s.used, s.heads
}

// planShort adds the short asks.
func (s *service) planShort() {
	limit := s.limit
	if s.light.Len() < s.active.Len() {
		limit = max(1, limit-s.trickle())
	}
	s.uncut = math.MaxInt
	lead := uint64(headStart * s.limit * rowPrice)
	for s.used < limit && s.light.Len() > 0 && s.light.First().start <= s.now+lead {
		d := s.light.First()
		if s.join(d, min(s.short(), limit-s.used)); d.active > 0 {
			s.putAside(d)
		}
	}
	s.putBack()
}

// planTurns gives each device a turn, up to limit rows in total.
func (s *service) planTurns(limit int) {
	s.uncut = 0
	if limit == s.limit {
		s.uncut = s.short()
	}
	for s.used < limit && s.active.Len() > 0 {
		d := s.active.First()
		most := limit - s.used
		if s.active.Len() > 1 {
			most = min(most, s.short())
		}
		if !s.join(d, most) {
			s.putAside(d)
		}
	}
	s.putBack()
}

func (s *service) putAside(d *device) {
	s.put(d, false)
	s.aside = append(s.aside, d)
}

func (s *service) putBack() {
	for _, d := range s.aside {
		s.put(d, true)
	}
	s.aside = s.aside[:0]
}

// join gives d up to most rows of the step, and reports whether it got any.
func (s *service) join(d *device, most int) bool {
	left := max(1, d.ask.text-d.have)
	ends := left <= most
	if !ends && left <= s.uncut {
		return false
	}
	rows := min(left, most)
	end := d.have + rows
	heads := d.ask.heads(d.have, end)
	d.have = end
	s.used, s.heads = s.used+rows, s.heads+heads
	cost := uint64(rows*rowPrice + heads*headPrice)
	d.start, s.spent = d.start+cost, s.spent+cost
	d.left = max(1, d.ask.text-d.have)
	if s.put(d, !ends); ends {
		s.ended = append(s.ended, d)
	}
	return true
}

// end implements [scheduler].
func (s *service) end(done func(*device)) {
	for _, d := range s.ended {
		done(d)
	}
}
