//go:build seeded

package client

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestReplay: a world has the same course each time, to the last byte that is sent.
func TestReplay(t *testing.T) {
	for seed := range uint64(6) { // twice each kind of engine
		w := world{seed, scriptOf(seed)}
		c := w.play(t)
		for range 3 {
			assert.Equal(t, c, w.play(t), "seed %d", seed)
		}
	}
}
