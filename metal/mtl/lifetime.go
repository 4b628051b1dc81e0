package mtl

import (
	"slices"
	"sync"
)

// lifetime keeps what is closed until no command buffer uses it. Command buffers are made with unretained references:
// they hold nothing that they use, and encoding counts no references.
type lifetime struct {
	mu    sync.Mutex
	begun uint64   // command buffers that were begun so far
	live  []uint64 // of these, by rising number, those that are not over
	gone  []closed // in the order of their closing
}

// closed is an object that is released when all command buffers are over that were begun before it was closed: up to
// number last.
type closed struct {
	release func(s *scope)
	last    uint64
}

// begin numbers a command buffer.
func (l *lifetime) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	l.live = append(l.live, l.begun)
	return l.begun
}

// end says that a command buffer is over, and releases what was closed and only it could still use.
func (l *lifetime) end(s *scope, number uint64) {
	l.mu.Lock()
	if i, found := slices.BinarySearch(l.live, number); found {
		l.live = slices.Delete(l.live, i, i+1)
	}
	free := l.take()
	l.mu.Unlock()
	for _, c := range free {
		c.release(s)
	}
}

// close releases an object as soon as no command buffer can use it.
func (l *lifetime) close(s *scope, release func(s *scope)) {
	l.mu.Lock()
	l.gone = append(l.gone, closed{release, l.begun})
	free := l.take()
	l.mu.Unlock()
	for _, c := range free {
		c.release(s)
	}
}

// take removes from gone what may be released.
func (l *lifetime) take() []closed {
	n := len(l.gone)
	if len(l.live) > 0 {
		first := l.live[0]
		if n = slices.IndexFunc(l.gone, func(c closed) bool { return c.last >= first }); n < 0 {
			n = len(l.gone)
		}
	}
	free := slices.Clone(l.gone[:n])
	l.gone = slices.Delete(l.gone, 0, n)
	return free
}

// all releases everything that is closed: the device goes, and no command buffer runs.
func (l *lifetime) all(s *scope) {
	l.mu.Lock()
	l.live = nil
	free := l.take()
	l.mu.Unlock()
	for _, c := range free {
		c.release(s)
	}
}
