package grammar

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxKept is the maximum number of bytes of masks that a vocabulary keeps, for all grammars together. The least
// recently used ones are dropped first.
const maxKept = 32 << 20

// kept are masks of places.
type kept struct {
	grammars atomic.Uint64 // number of grammars used with the vocabulary

	mu    sync.Mutex
	masks *simplelru.LRU[local, *reach]
	bytes int
}

func newKept() *kept {
	k := new(kept)
	// NewLRU fails only for an invalid size; the number of bytes is the actual limit.
	k.masks, _ = simplelru.NewLRU(1<<30, func(_ local, r *reach) { k.bytes -= r.bytes() })
	return k
}

// get returns the kept reach of a place; nil if there is none.
func (k *kept) get(at local) *reach {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, _ := k.masks.Get(at)
	return r
}

func (k *kept) put(at local, r *reach) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.masks.Contains(at) {
		return // another goroutine was faster
	}
	k.masks.Add(at, r)
	for k.bytes += r.bytes(); k.bytes > maxKept && k.masks.Len() > 1; {
		k.masks.RemoveOldest()
	}
}
