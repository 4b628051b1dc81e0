//go:build seeded

package client

import (
	"encoding/json"
	"fmt"
	"os"
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

// TestWorld plays the world in PILOTFISH_WORLD.
func TestWorld(t *testing.T) {
	var w world
	require.NoError(t, json.Unmarshal([]byte(os.Getenv("PILOTFISH_WORLD")), &w))
	c := w.playHere(t)
	text, err := json.Marshal(c)
	require.NoError(t, err)
	fmt.Printf("%s%s\n", courseMark, text)
	assert.Empty(t, c.Wrong)
}
