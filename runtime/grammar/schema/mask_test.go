package schema

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
)

// matcher returns a matcher of a schema, for a vocabulary with some texts, an end token and all bytes.
func matcher(t *testing.T, schema string, texts ...string) *grammar.Matcher {
	t.Helper()
	g := compiled(t, []byte(schema), false)
	var tokens [][]byte
	for _, text := range append(texts, "") {
		tokens = append(tokens, []byte(text))
	}
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	v, err := grammar.NewVocabulary(len(tokens), func(id int32) []byte { return tokens[id] },
		func(id int32) bool { return int(id) == len(texts) })
	require.NoError(t, err)
	return grammar.NewMatcher(g, v)
}

// TestMaskNearBounds: states of a string that differ in whether the longest token fits are distinguished, in any order.
func TestMaskNearBounds(t *testing.T) {
	for _, order := range [][]int{{0, 6, 7, 8}, {8, 7, 6, 0}} {
		m := matcher(t, `{"type":"string","maxLength":10}`, "aaaa")
		for _, n := range order {
			s := m.Start()
			for _, c := range `"` + strings.Repeat("a", n) {
				s = m.Next(s, 2+c)
			}
			assert.Equal(t, n <= 6, m.Mask(nil, s).Has(0), "%d of 10", n)
		}
	}
}

// TestBlanksInMasks: a class without blanks leaves out all that ECMA-262 has, alone and within a token.
func TestBlanksInMasks(t *testing.T) {
	blanks := []string{" ", "\u00a0", "\u2003", "\ufeff", "a\u00a0", "\u2003a", "a\ufeffa", "\u3000", "\u202f"}
	texts := append(blanks, "a", "é", "日本", "\u200b", "aé")
	for pattern, blank := range map[string]bool{
		`^\S+$`: false, `^[\S]+$`: false, `^[^\s]+$`: false, `^[^\s_]{1,9}$`: false, `^(a|\S)*$`: false,
		`^[^\W_]*\S*$`: false, `^[^\S]+$`: true, `^\s*$`: true, `^[\s]{0,9}$`: true, `^[^\w\S]+$`: true,
	} {
		raw, err := json.Marshal(obj{"type": "string", "pattern": pattern})
		require.NoError(t, err)
		m := matcher(t, string(raw), texts...)
		mask := m.Mask(nil, m.Next(m.Start(), int32(len(texts))+1+'"'))
		for id, text := range texts {
			want := !blank && id >= len(blanks) || blank && id < len(blanks) && !strings.Contains(text, "a")
			assert.Equal(t, want, mask.Has(int32(id)), "%s: %q", pattern, text)
		}
	}
}

// TestFits: a text that only the longest tokens can complete fits if there is room for exactly these.
func TestFits(t *testing.T) {
	m := matcher(t, `{"const":"abcdef"}`, `"abc`, `def"`)
	assert.True(t, m.Fits(m.Start(), 2))
	assert.False(t, m.Fits(m.Start(), 1))
	assert.Equal(t, []int32{0, 1}, m.Shortest(m.Start()))
}

// TestMostDifferent: a list without equal items may have up to maxDifferent different values, and no more.
func TestMostDifferent(t *testing.T) {
	schema := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, strconv.Itoa(i))
		}
		return `{"items":{"enum":[` + strings.Join(all, ",") + `]},"uniqueItems":true}`
	}
	compiled(t, []byte(schema(maxDifferent)), false)
	_, err := Compile(t.Context(), []byte(schema(maxDifferent+1)), false)
	require.ErrorContains(t, err, "#/uniqueItems: ")
}
