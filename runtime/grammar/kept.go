package grammar

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxKept is how many bytes of masks a vocabulary keeps: those of all grammars together. Others make room for them,
// the ones that were not used for the longest time first.
const maxKept = 32 << 20

// kept are masks of places.
type kept struct {
	grammars atomic.Uint64 // that have been put together with the vocabulary

	mu    sync.Mutex
	masks *simplelru.LRU[local, *reach]
	bytes int
}

func newKept() *kept {
	k := new(kept)
	// An error is of the number alone, which the bytes bound long before.
	k.masks, _ = simplelru.NewLRU(1<<30, func(_ local, r *reach) { k.bytes -= r.bytes() })
	return k
}

// get returns what is kept of a place; nil if it is not known.
func (k *kept) get(at local) *reach {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, _ := k.masks.Get(at)
	return r
}

// put keeps what a place allows.
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
