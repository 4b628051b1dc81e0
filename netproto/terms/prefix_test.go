package terms

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommonPrefix: the prefixes of this length are equal, and the next elements differ, or one of the slices has
// ended.
func TestCommonPrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() []int32 {
		ids := make([]int32, r.IntN(6))
		for i := range ids {
			ids[i] = r.Int32N(2)
		}
		return ids
	}
	for range 2000 {
		a, b := text(), text()
		n := CommonPrefix(a, b)
		require.Equal(t, n, CommonPrefix(b, a))
		require.True(t, slices.Equal(a[:n], b[:n]))
		require.True(t, n == len(a) || n == len(b) || a[n] != b[n], "%v %v: %d", a, b, n)
	}
}
