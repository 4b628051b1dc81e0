package files

import "sync"

// Lease counts the uses of a resource, so that closing it can wait for them. The zero value is open.
type Lease struct {
	mu     sync.Mutex
	closed bool
	uses   sync.WaitGroup
}

// Take begins a use, which [Lease.Give] ends. After Close it returns false and begins none.
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

// Close prevents new uses and waits for the current ones. It reports whether this is the first call.
func (l *Lease) Close() (first bool) {
	l.mu.Lock()
	first, l.closed = !l.closed, true
	l.mu.Unlock()
	l.uses.Wait()
	return first
}
