package draft

import "sync"

// resultQueue is a queue of the results of asks, for the decoder. pushResult never blocks.
type resultQueue struct {
	bell chan struct{} // capacity 1; full while there are results, unless a waiter has emptied it

	mu  sync.Mutex
	all []result
}

func newResultQueue() *resultQueue { return &resultQueue{bell: make(chan struct{}, 1)} }

func (q *resultQueue) pushResult(r result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all = append(q.all, r); len(q.all) == 1 {
		q.bell <- struct{}{}
	}
}

func (q *resultQueue) popResult() (r result, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.all) == 0 {
		return r, false
	}
	select {
	case <-q.bell:
	default: // a waiter has taken it
	}
	if r, q.all = q.all[0], q.all[1:]; len(q.all) > 0 {
		q.bell <- struct{}{}
	}
	return r, true
}

func (q *resultQueue) hasResults() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.all) > 0
}
