package group

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNumbers: a list replaces the default; a wrong one changes nothing, and its error is short.
func TestNumbers(t *testing.T) {
	for text, want := range map[string][]int{"7": {7}, "16, 512": {16, 512}, "-1,0": {-1, 0}} {
		l := Numbers("1,2")
		require.NoError(t, l.Set(text))
		assert.Equal(t, want, l.Values, "instead of the default")
	}
	for _, wrong := range []string{"", ",", "1,", "x", "1.5", "1,1", "99999999999999999999",
		strings.Repeat("1", 1<<16)} {
		l := Numbers("1")
		err := l.Set(wrong)
		require.Error(t, err, "%.20q", wrong)
		assert.Equal(t, []int{1}, l.Values)
		assert.Equal(t, "1", l.String())
		assert.Less(t, len(err.Error()), 120)
	}
}

// TestParseDurations: a number takes the unit of the next one that has a unit.
func TestParseDurations(t *testing.T) {
	for text, want := range map[string]string{
		"100ms": "100ms", "0": "0s", "0,50,100ms": "0s 50ms 100ms", "1, 2s ,3ms": "1s 2s 3ms", "0,1s": "0s 1s",
		"1.5,2ms": "1.5ms 2ms", "1m30s": "1m30s", "5,1m30s": "", "1ms,2": "", "x": "", "": "", "1ms,,2ms": "",
		"1,2":    "",
		"-5,1ms": "-5ms 1ms",
	} {
		all, err := parseDurations(strings.Split(strings.ReplaceAll(text, " ", ""), ","))
		if want == "" {
			assert.Error(t, err, text)
			continue
		}
		var got []string
		for _, d := range all {
			got = append(got, d.String())
		}
		assert.Equal(t, want, strings.Join(got, " "), text)
	}
}

// FuzzNumbers: an accepted list is printed in a form that is accepted again, without duplicates.
func FuzzNumbers(f *testing.F) {
	for _, text := range []string{"16,512", " 1 , 2", "-1", "1,1", "", "+5,05", "9223372036854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, again := Numbers(""), Numbers("")
		if l.Set(text) != nil {
			return
		}
		require.NoError(t, again.Set(l.String()))
		assert.Equal(t, l.Values, again.Values)
		slices.Sort(again.Values)
		assert.Len(t, slices.Compact(again.Values), len(l.Values))
	})
}
