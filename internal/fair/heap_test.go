package fair

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type element struct{ value, place int }

// TestHeapAgainstList: a heap agrees with a list that is searched, for any elements added, changed and removed.
func TestHeapAgainstList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := Heap[*element]{Before: func(a, b *element) bool { return a.value < b.value },
		Place: func(e *element) *int { return &e.place }}
	byValue := func(a, b *element) int { return a.value - b.value }
	var in []*element
	for range 20_000 {
		switch n := r.IntN(10); {
		case n < 4 || len(in) == 0:
			e := &element{value: r.IntN(50)}
			in = append(in, e)
			h.Set(e, true)
		case n < 7:
			e := in[r.IntN(len(in))]
			e.value = r.IntN(50)
			h.Set(e, true)
		default:
			i := r.IntN(len(in))
			h.Set(in[i], false)
			require.Zero(t, in[i].place)
			h.Set(in[i], false) // a second call changes nothing
			in = slices.Delete(in, i, i+1)
		}
		require.Equal(t, len(in), h.Len())
		if len(in) == 0 {
			_, ok := h.FirstThat(func(*element) bool { return true })
			require.False(t, ok)
			continue
		}
		require.Equal(t, slices.MinFunc(in, byValue).value, h.First().value)
		but := h.First()
		second, ok := h.FirstThat(func(e *element) bool { return e != but })
		require.Equal(t, len(in) > 1, ok)
		if ok {
			others := slices.DeleteFunc(slices.Clone(in), func(e *element) bool { return e == but })
			require.Equal(t, slices.MinFunc(others, byValue).value, second.value)
		}
	}
}
