package mtl

import (
	"slices"
	"sync"
)

// lifetime keeps closed objects until no command buffer uses them. Command buffers are made with unretained references:
// they do not retain the objects that they use, so that encoding counts no references.
type lifetime struct {
	mu    sync.Mutex
	begun uint64         // number of command buffers begun so far
	live  []uint64       // numbers of those that are not over, rising
	gone  []closedObject // in the order of their closing
}

// closedObject is a closed object. It is released when all command buffers with numbers up to last, which were begun
// before it was closed, are over.
type closedObject struct {
	release func(s *scope)
	last    uint64
}

func (l *lifetime) addCommandBuffer() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	l.live = append(l.live, l.begun)
	return l.begun
}

func (l *lifetime) removeCommandBuffer(s *scope, number uint64) {
	l.updateAndRelease(s, func() {
		if i, found := slices.BinarySearch(l.live, number); found {
			l.live = slices.Delete(l.live, i, i+1)
		}
	})
}

func (l *lifetime) releaseLater(s *scope, release func(s *scope)) {
	l.updateAndRelease(s, func() { l.gone = append(l.gone, closedObject{release, l.begun}) })
}

// releaseAll releases all closed objects. It is called when the device is closed and no command buffer runs.
func (l *lifetime) releaseAll(s *scope) {
	l.updateAndRelease(s, func() { l.live = nil })
}

// updateAndRelease makes a change, and then releases the closed objects that no command buffer can use any more.
func (l *lifetime) updateAndRelease(s *scope, by func()) {
	l.mu.Lock()
	by()
	n := len(l.gone)
	if len(l.live) > 0 {
		first := l.live[0]
		if n = slices.IndexFunc(l.gone, func(c closedObject) bool { return c.last >= first }); n < 0 {
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
