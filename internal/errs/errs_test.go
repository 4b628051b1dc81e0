package errs

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuote(t *testing.T) {
	assert.Equal(t, `""`, Quote(""))
	assert.Equal(t, `"qwen2\n\x00"`, Quote([]byte("qwen2\n\x00")))
	assert.Equal(t, `"`+strings.Repeat("a", 100)+`"`, Quote(strings.Repeat("a", 100)))
	assert.Equal(t, `"`+strings.Repeat("a", 100)+`…" (101 bytes)`, Quote(strings.Repeat("a", 101)))
	assert.Equal(t, `"`+strings.Repeat("a", 99)+`…" (900099 bytes)`,
		Quote(strings.Repeat("a", 99)+strings.Repeat("é", 450000)))
	assert.Equal(t, `"`+strings.Repeat(`\xbf`, 100)+`…" (150 bytes)`, Quote(strings.Repeat("\xbf", 150)))
}

// FuzzQuote: the result is a prefix of any text, of at most 100 bytes, and of whole characters if it has valid ones.
func FuzzQuote(f *testing.F) {
	f.Add("qwen2", 1)
	f.Add("a€", 99)
	f.Add("\xff𝄞", 60)
	f.Fuzz(func(t *testing.T, s string, times int) {
		s = strings.Repeat(s, min(max(times, 0), 300))
		shown, _, cut := strings.Cut(Quote(s), `…" (`)
		if cut = cut && len(s) > Most; cut {
			shown += `"`
		} else {
			shown = Quote(s)
		}
		text, err := strconv.Unquote(shown)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(s, text))
		require.Equal(t, !cut, text == s)
		require.LessOrEqual(t, len(text), Most)
		if utf8.ValidString(s) {
			require.True(t, utf8.ValidString(text))
		}
	})
}

// TestDifferences: fields are named as in JSON, and long values are shortened between characters.
func TestDifferences(t *testing.T) {
	type pair struct {
		A int    `json:"a,omitempty"`
		B string `json:"b"`
	}
	assert.Empty(t, Differences(pair{1, "x"}, pair{1, "x"}))
	for text, want := range map[string]string{
		strings.Repeat("x", 78): `"` + strings.Repeat("x", 78) + `"`,
		strings.Repeat("x", 79): `"` + strings.Repeat("x", 79) + `…`,
		strings.Repeat("€", 99): `"` + strings.Repeat("€", 26) + `…`,
	} {
		assert.Equal(t, `a (there 1, here 2), b (there "", here `+want+")", Differences(pair{1, ""}, pair{2, text}))
	}
}
