package grammar

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxCacheBytes is the maximum number of bytes of masks that a vocabulary keeps, for all grammars together. The least
// recently used ones are dropped first.
const maxCacheBytes = 32 << 20

// maskCache holds masks of places.
type maskCache struct {
	grammars atomic.Uint64 // number of grammars used with the vocabulary

	mu    sync.Mutex
	masks *simplelru.LRU[reachKey, *reach]
	bytes int
}

func newMaskCache() *maskCache {
	k := new(maskCache)
	// NewLRU fails only for an invalid size; the number of bytes is the actual limit.
	k.masks, _ = simplelru.NewLRU(1<<30, func(_ reachKey, r *reach) { k.bytes -= r.memoryBytes() })
	return k
}

// loadReach returns the kept reach of a place; nil if there is none.
func (k *maskCache) loadReach(at reachKey) *reach {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, _ := k.masks.Get(at)
	return r
}

func (k *maskCache) storeReach(at reachKey, r *reach) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.masks.Contains(at) {
		return // another goroutine was faster
	}
	k.masks.Add(at, r)
	for k.bytes += r.memoryBytes(); k.bytes > maxCacheBytes && k.masks.Len() > 1; {
		k.masks.RemoveOldest()
	}
}
