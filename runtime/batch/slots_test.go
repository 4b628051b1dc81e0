package batch

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSlotSet: the set returns the next free slot, as a linear search does.
func TestSlotSet(t *testing.T) {
	for _, n := range []int{1, 2, 63, 64, 65, 4096, 4097, 5000, 300_000} {
		s, free, left := newSlotSet(n), make([]bool, n), n
		for i := range free {
			free[i] = true
		}
		r := rand.New(rand.NewPCG(uint64(n), 1))
		for range 3000 {
			if hint := r.IntN(n + 1); left > 0 && r.IntN(5) > 0 {
				want := -1
				for i := range n {
					if want = (hint + i) % n; free[want] {
						break
					}
				}
				require.EqualValues(t, want, s.takeSlot(int32(hint)))
				free[want], left = false, left-1
			} else if i := r.IntN(n); !free[i] {
				s.addSlot(int32(i))
				free[i], left = true, left+1
			}
		}
		assert.Equal(t, left, s.n)
	}
}
