// Package lease lets any number of goroutines use a thing until it is closed, and closing wait for them.
package lease

import "sync"

// Lease counts the uses of a thing. The zero value is open.
type Lease struct {
	mu     sync.Mutex
	closed bool
	uses   sync.WaitGroup
}

// Take begins a use, which [Lease.Give] ends. It reports false, and begins none, once Close has been called.
func (l *Lease) Take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.uses.Add(1)
	return true
}

// Give ends a use.
func (l *Lease) Give() { l.uses.Done() }

// Close lets no use begin any more and waits for those that have begun. It reports whether it is the first call.
func (l *Lease) Close() (first bool) {
	l.mu.Lock()
	first, l.closed = !l.closed, true
	l.mu.Unlock()
	l.uses.Wait()
	return first
}
