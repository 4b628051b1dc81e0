package reuse

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSlice: memory that is large enough is taken again, whatever the length of the slice was.
func TestSlice(t *testing.T) {
	s := make([]int, 2, 5)
	for _, n := range []int{0, 1, 5} {
		got := Slice(s, n)
		assert.Len(t, got, n)
		assert.Equal(t, &s[0], &got[:1][0])
	}
	assert.Len(t, Slice(s, 6), 6)
	assert.NotEqual(t, cap(s), cap(Slice(s, 6)))
	assert.Empty(t, Slice[int](nil, 0))
}
