package mtl

import (
	"slices"
	"sync"
)

// lifetime keeps closed objects until no command buffer uses them. Command buffers are made with unretained references:
// they do not retain the objects that they use, so that encoding counts no references.
type lifetime struct {
	mu    sync.Mutex
	begun uint64   // number of command buffers begun so far
	live  []uint64 // numbers of those that are not over, rising
	gone  []closed // in the order of their closing
}

// closed is a closed object. It is released when all command buffers with numbers up to last, which were begun before
// it was closed, are over.
type closed struct {
	release func(s *scope)
	last    uint64
}

// begin returns the number of a new command buffer.
func (l *lifetime) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	l.live = append(l.live, l.begun)
	return l.begun
}

// end marks a command buffer as over.
func (l *lifetime) end(s *scope, number uint64) {
	l.change(s, func() {
		if i, found := slices.BinarySearch(l.live, number); found {
			l.live = slices.Delete(l.live, i, i+1)
		}
	})
}

// close releases an object as soon as no command buffer can use it.
func (l *lifetime) close(s *scope, release func(s *scope)) {
	l.change(s, func() { l.gone = append(l.gone, closed{release, l.begun}) })
}

// all releases all closed objects. It is called when the device is closed and no command buffer runs.
func (l *lifetime) all(s *scope) {
	l.change(s, func() { l.live = nil })
}

// change makes a change, and then releases the closed objects that no command buffer can use any more.
func (l *lifetime) change(s *scope, by func()) {
	l.mu.Lock()
	by()
	n := len(l.gone)
	if len(l.live) > 0 {
		first := l.live[0]
		if n = slices.IndexFunc(l.gone, func(c closed) bool { return c.last >= first }); n < 0 {
			n = len(l.gone)
		}
	}
	free := slices.Clone(l.gone[:n])
	l.gone = slices.Delete(l.gone, 0, n)
	l.mu.Unlock()
	for _, c := range free {
		c.release(s)
	}
}
