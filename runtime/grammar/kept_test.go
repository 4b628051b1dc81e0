package grammar

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKeptLongest: of the kept masks, those that were used last stay.
func TestKeptLongest(t *testing.T) {
	k := newMaskCache()
	at := func(g uint64) reachKey { return reachKey{grammar: g} }
	for g := range uint64(3) {
		k.storeReach(at(g), new(reach))
	}
	k.loadReach(at(0))
	k.bytes += maxCacheBytes - 3*new(reach).memoryBytes() // as if all were full
	k.storeReach(at(3), new(reach))
	k.storeReach(at(4), new(reach))
	for g, stays := range []bool{true, false, false, true, true} {
		assert.Equal(t, stays, k.loadReach(at(uint64(g))) != nil, g)
	}
}

// TestKeptTogether: goroutines may get masks and store them at the same time, and a mask that several store at once
// counts once. Each goroutine only gets or only stores: the lock between calls of both would hide a race.
func TestKeptTogether(t *testing.T) {
	k, r := newMaskCache(), &reach{base: make(Mask, 3)}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for g := range uint64(50) {
				k.storeReach(reachKey{grammar: g}, r)
			}
		})
		all.Go(func() {
			for g := range uint64(50) {
				assert.Contains(t, []*reach{nil, r}, k.loadReach(reachKey{grammar: g}))
			}
		})
	}
	all.Wait()
	assert.Equal(t, 50, k.masks.Len())
	assert.Equal(t, 50*r.memoryBytes(), k.bytes)
}
