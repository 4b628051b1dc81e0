package capacity

import "github.com/pilotfish-ai/pilotfish/internal/fair"

// Limits of a pass that streams share, as for sessions of package engine: rows of a pass, rows of all prompts if there
// is no stream, and rows of all prompts beside streams.
const (
	streamRows   = 128
	promptAlone  = 128
	promptBeside = 16
)

// streams is the large model that generates whole answers: the passes of the sessions of one engine. Each stream has a
// row in each pass, and prompts take a few rows in addition. If there is not enough room, those that took part in the
// fewest passes go first.
type streams struct {
	w       *Workload
	queue   fair.Heap[*device]
	prompts int // in the queue
	decoded int // streams in the queue
	count   uint64
	served  uint64 // minimum of the streams of the last pass
	taken   []*device
	apart   []*device
}

func newStreams(w *Workload) *streams {
	return &streams{w: w, queue: fair.Heap[*device]{
		Before: func(a, b *device) bool {
			return a.served < b.served || a.served == b.served && a.since < b.since
		},
		Place: func(d *device) *int { return &d.active },
	}}
}

// add implements [scheduler].
func (s *streams) add(d *device) {
	d.have, d.tokens, d.served = 0, 0, s.served
	s.put(d)
}

// put queues a device for a pass.
func (s *streams) put(d *device) {
	s.count++
	d.since = s.count
	s.enter(d)
}

func (s *streams) enter(d *device) {
	if d.have < s.w.Prompt {
		s.prompts++
	} else {
		s.decoded++
	}
	s.queue.Set(d, true)
}

// plan implements [scheduler].
func (s *streams) plan() (rows, heads int) {
	piece := max(1, promptAlone/max(1, s.prompts))
	if s.decoded > 0 {
		piece = max(1, promptBeside/max(1, s.prompts))
	}
	s.taken, s.apart = s.taken[:0], s.apart[:0]
	for rows < streamRows && s.queue.Len() > 0 {
		d := s.queue.First()
		s.queue.Set(d, false)
		d.rows = 1
		if left := s.w.Prompt - d.have; left > 0 {
			d.rows = min(left, piece)
		}
		if rows > 0 && rows+d.rows > streamRows {
			s.apart = append(s.apart, d)
			continue
		}
		if d.have < s.w.Prompt {
			s.prompts--
		} else {
			s.decoded--
		}
		rows += d.rows
		if d.have+d.rows >= s.w.Prompt {
			heads++
		}
		s.taken = append(s.taken, d)
	}
	for _, d := range s.apart {
		s.queue.Set(d, true)
	}
	return rows, heads
}

// end implements [scheduler].
func (s *streams) end(done func(*device)) {
	s.served++
	for _, d := range s.taken {
		d.served++
		s.served = min(s.served, d.served)
	}
	for _, d := range s.taken {
		if d.have += d.rows; d.have < s.w.Prompt {
			s.enter(d)
			continue
		}
		if d.tokens++; d.tokens == s.w.Tokens {
			done(d)
			continue
		}
		s.put(d)
	}
}
