package group

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNumberList(t *testing.T) {
	for text, want := range map[string]NumberList{"7": {7}, "16, 512": {16, 512}, "-1,0": {-1, 0}} {
		l := NumberList{1, 2}
		require.NoError(t, l.Set(text))
		assert.Equal(t, want, l, "instead of the default")
	}
	for _, wrong := range []string{"", ",", "1,", "x", "1.5", "1,1", "99999999999999999999",
		strings.Repeat("1", 1<<16)} {
		l := NumberList{1}
		err := l.Set(wrong)
		require.Error(t, err, "%.20q", wrong)
		assert.Equal(t, NumberList{1}, l)
		assert.Less(t, len(err.Error()), 120)
	}
	var many []string
	for n := range maxNumbers + 1 {
		many = append(many, new(NumberList{n}).String())
	}
	l := NumberList{}
	assert.NoError(t, l.Set(strings.Join(many[:maxNumbers], ",")))
	assert.ErrorContains(t, l.Set(strings.Join(many, ",")), "more than 1000 numbers")
}

// FuzzNumberList: an accepted list is printed in a form that is accepted again, without duplicates.
func FuzzNumberList(f *testing.F) {
	for _, text := range []string{"16,512", " 1 , 2", "-1", "1,1", "", "+5,05", "9223372036854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var l, again NumberList
		if l.Set(text) != nil {
			return
		}
		require.NoError(t, again.Set(l.String()))
		assert.Equal(t, l, again)
		slices.Sort(again)
		assert.Len(t, slices.Compact(again), len(l))
	})
}
