package draft

import "sync"

// results are what asks returned and the decoder has not looked at yet, in the order in which they came. Whoever puts
// one in never waits.
type results struct {
	bell chan struct{} // holds something while there are any

	mu  sync.Mutex
	all []result
}

func newResults() *results { return &results{bell: make(chan struct{}, 1)} }

// put adds one.
func (q *results) put(r result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all = append(q.all, r); len(q.all) == 1 {
		q.bell <- struct{}{}
	}
}

// take returns the oldest one, if there is any.
func (q *results) take() (r result, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.all) == 0 {
		return r, false
	}
	r, q.all = q.all[0], q.all[1:]
	if len(q.all) == 0 {
		select {
		case <-q.bell:
		default: // whoever waited for it has taken it
		}
		return r, true
	}
	select {
	case q.bell <- struct{}{}: // whoever waited has taken it, and there are more
	default:
	}
	return r, true
}

// any reports whether there are any.
func (q *results) any() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.all) > 0
}
