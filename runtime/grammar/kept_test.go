package grammar

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKeptTogether: goroutines may get masks and store them at the same time, and a mask that several store at once
// counts once. Each goroutine only gets or only stores: the lock between calls of both would hide a race.
func TestKeptTogether(t *testing.T) {
	k, r := newKept(), &reach{base: make(Mask, 3)}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for g := range uint64(50) {
				k.put(local{grammar: g}, r)
			}
		})
		all.Go(func() {
			for g := range uint64(50) {
				assert.Contains(t, []*reach{nil, r}, k.get(local{grammar: g}))
			}
		})
	}
	all.Wait()
	assert.Equal(t, 50, k.masks.Len())
	assert.Equal(t, 50*r.bytes(), k.bytes)
}
