package schema

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
)

// TestTogether: goroutines that generate answers with a shared matcher get the same answers as with separate ones.
func TestTogether(t *testing.T) {
	g, err := Compile(t.Context(), []byte(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array",`+
		`"items":{"enum":["ab","more",120,null]}}},"required":["a","b"],"additionalProperties":false}`), false)
	require.NoError(t, err)
	v := smallVocabulary(t)
	shared := v.matcher(g)
	var texts, alone [4]string
	var all sync.WaitGroup
	for i := range texts {
		all.Go(func() { texts[i], _ = draw(rand.New(rand.NewPCG(uint64(i), 1)), shared, v, 200) })
		alone[i], _ = draw(rand.New(rand.NewPCG(uint64(i), 1)), v.matcher(g), v, 200)
	}
	all.Wait()
	assert.Equal(t, alone, texts)
}

// matcher returns a matcher of a schema, for a vocabulary with some texts, an end token and all bytes.
func matcher(t *testing.T, schema string, texts ...string) *grammar.Matcher {
	t.Helper()
	g, err := Compile(t.Context(), []byte(schema), false)
	require.NoError(t, err)
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
	_, err := Compile(t.Context(), []byte(schema(maxDifferent)), false)
	require.NoError(t, err)
	_, err = Compile(t.Context(), []byte(schema(maxDifferent+1)), false)
	require.ErrorContains(t, err, "#/uniqueItems: ")
}

// TestEqualBounds: if an inclusive and an exclusive bound are equal, the exclusive one applies, in any order.
func TestEqualBounds(t *testing.T) {
	for _, schema := range []string{
		`{"type":"integer","maximum":5,"exclusiveMaximum":5,"minimum":3,"exclusiveMinimum":3}`,
		`{"type":"integer","exclusiveMaximum":5,"maximum":5,"exclusiveMinimum":3,"minimum":3}`,
		`{"allOf":[{"type":"integer","exclusiveMaximum":5,"minimum":3},{"maximum":5,"exclusiveMinimum":3}]}`,
	} {
		g, err := Compile(t.Context(), []byte(schema), false)
		require.NoError(t, err)
		for digit := byte('0'); digit <= '9'; digit++ {
			s := g.Next(g.Start(), digit)
			assert.Equal(t, digit == '4', s != nil && s.Done(), "%c by %s", digit, schema)
		}
	}
}
