package grammar

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKeptTogether: goroutines that find masks and those that keep them may do so at once, and a mask that several have
// found at the same time counts once. Each does one of both: a lock between its own calls would hide a race.
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
