//go:build seeded

package client

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReplay: a world has the same course each time, to the last byte that is sent.
func TestReplay(t *testing.T) {
	for seed := range uint64(6) { // twice each kind of engine
		w := world{seed, scriptOf(seed)}
		c := w.play(t)
		require.Empty(t, c.Wrong, "seed %d", seed)
		for range 3 {
			assert.Equal(t, c, w.play(t), "seed %d", seed)
		}
	}
}
