package grammar

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

func newBuilder() *Builder { return NewBuilder(&regular.Maker{Stop: func() error { return nil }}) }

// built returns the grammar of a rule.
func built(t *testing.T, b *Builder, start int32) *Grammar {
	t.Helper()
	g, some := b.Build(start, nil)
	require.True(t, some)
	return g
}

// whole reports whether a text is a value of a grammar.
func whole(g *Grammar, text string) bool {
	s := g.Next(g.Start(), []byte(text)...)
	return s != nil && s.Done()
}

// TestString: a string has a number of characters, each of which counts once, however it is written.
func TestString(t *testing.T) {
	texts := map[string]int32{`""`: 0, `"a"`: 1, `"\n"`: 1, `"é"`: 1, `"🐟"`: 1, `"\u0001"`: 1, `"ab"`: 2, `"日\\"`: 2,
		`"abc"`: 3, `"\"\"\""`: 3, `"` + strings.Repeat("é", 70) + `"`: 70}
	for _, length := range []regular.Bounds{regular.Any(), {Max: 0}, {Max: 2}, {Min: 1, Max: 2}, {Min: 2, Max: 2},
		{Min: 3, Max: regular.Unbounded}, {Min: 70, Max: 70}} {
		b := newBuilder()
		start, err := b.String(length)
		require.NoError(t, err)
		again, err := b.String(length)
		require.NoError(t, err)
		assert.Equal(t, start, again, "it is built once")
		other, err := b.String(regular.Bounds{Min: length.Min + 1, Max: regular.Unbounded})
		require.NoError(t, err)
		assert.NotEqual(t, start, other)
		g := built(t, b, start)
		for text, n := range texts {
			want := n >= length.Min && (length.Max < 0 || n <= length.Max)
			assert.Equal(t, want, whole(g, text), "%v: %s", length, text)
		}
		for _, text := range []string{``, `"`, `"a`, `"\x"`, "\"\n\"", "\"\xff\"", `""a`, `"\u00e9"`} {
			assert.False(t, whole(g, text), text)
		}
	}
}

// TestList: a list has a number of further values, with an optional space after each comma.
func TestList(t *testing.T) {
	for _, more := range []regular.Bounds{regular.Any(), {Max: 0}, {Min: 1, Max: 2}, {Min: 2, Max: 2},
		{Min: 1, Max: regular.Unbounded}} {
		b := newBuilder()
		item, start, from := b.State(), b.State(), b.State()
		b.Literal(item, "1", b.End())
		b.Literal(start, "[", from)
		b.List([]int32{from}, [][]Step{{{item, 0}}}, 0, more, b.End())
		g := built(t, b, start)
		for n := range int32(5) {
			want := n >= more.Min && (more.Max < 0 || n <= more.Max)
			for _, comma := range []string{",1", ", 1"} {
				assert.Equal(t, want, whole(g, "[1"+strings.Repeat(comma, int(n))+"]"), "%v: %d", more, n)
			}
		}
		for _, text := range []string{"[]", "[1,]", "[1,  1]", "[ 1]", "[1 ]", "[1", "[1,1,]", "[1 1]", "[1]]"} {
			assert.False(t, whole(g, text), text)
		}
	}
}

// TestPart: a part with a key is built once, one without each time. One without texts leads nowhere.
func TestPart(t *testing.T) {
	b, made := newBuilder(), 0
	add := func(key string, texts ...string) int32 {
		start, err := b.Part(key, func() (*regular.Set, error) { made++; return regular.Of(texts) })
		require.NoError(t, err)
		return start
	}
	one, two := add("one", "a", "ab"), add("two", "b")
	assert.Equal(t, one, add("one", "a", "ab"))
	assert.NotEqual(t, one, two)
	assert.NotEqual(t, add("", "c"), add("", "c"))
	assert.Equal(t, 4, made)
	start := b.State()
	for _, part := range []int32{one, two, add("")} {
		b.Jump(start, part)
	}
	g := built(t, b, start)
	for text, want := range map[string]bool{"a": true, "ab": true, "b": true, "c": false, "": false, "abb": false} {
		assert.Equal(t, want, whole(g, text), text)
	}
	empty := newBuilder()
	nowhere, err := empty.Part("", func() (*regular.Set, error) { return new(regular.Set), nil })
	require.NoError(t, err)
	_, some := empty.Build(nowhere, nil)
	assert.False(t, some)
	why := errors.New("why")
	_, err = b.Part("three", func() (*regular.Set, error) { return nil, why })
	assert.Equal(t, why, err)
	stopped := NewBuilder(&regular.Maker{Stop: func() error { return why }})
	_, err = stopped.Part("", func() (*regular.Set, error) { return regular.Of([]string{strings.Repeat("a", 1000)}) })
	assert.Equal(t, why, err, "its states take steps")
}

// TestPruned: what leads to no end is left out: every text that begins a value can be completed.
func TestPruned(t *testing.T) {
	b := newBuilder()
	start, end, empty, endless := b.State(), b.End(), b.State(), b.State()
	dead := b.State()
	b.Literal(start, "a", end)
	b.Literal(start, "b", dead)   // nothing follows
	b.Call(start, empty, end)     // a value of a rule without any
	b.Call(endless, endless, end) // a value that contains itself
	b.Jump(start, endless)
	b.Call(start, start, dead) // nothing follows after the value
	b.Literal(dead, "c", dead)
	g := built(t, b, start)
	assert.True(t, whole(g, "a"))
	for _, text := range []string{"b", "bc", "aa", "c"} {
		assert.Nil(t, g.Next(g.Start(), []byte(text)...), text)
	}
	assert.Equal(t, 1, g.Least(g.Start()))
	for _, start := range []int32{0, 1} { // a rule without a value, although another state has one
		b := newBuilder()
		b.State()
		b.Jump(0, b.State())
		b.End()
		_, some := b.Trim(start)
		assert.False(t, some)
	}
}

// TestSameWays: equal ways to read a text are followed once, and those that wait for different rules apart.
func TestSameWays(t *testing.T) {
	b := newBuilder()
	start, item, one, other := b.State(), b.State(), b.State(), b.State()
	b.Literal(item, "1", b.End())
	b.Literal(one, "]", b.End())
	b.Literal(other, "}", b.End())
	for range 3 {
		b.Call(start, item, one)
		b.Jump(start, one)
	}
	b.Call(start, item, other)
	g := built(t, b, start)
	assert.Len(t, g.Start().threads, 3)
	for text, want := range map[string]bool{"]": true, "1]": true, "1}": true, "1": false, "}": false} {
		assert.Equal(t, want, whole(g, text), text)
	}
}

// TestFull: a grammar may have so many states, and no more.
func TestFull(t *testing.T) {
	held.Bounded(t)
	b := newBuilder()
	b.g.states = make([]state, maxStates)
	assert.False(t, b.Full())
	b.State()
	assert.True(t, b.Full())
}

// TestError: an error begins with the path, and has the cause.
func TestError(t *testing.T) {
	why := errors.New("why")
	err := &Error{"#/a", why}
	assert.EqualError(t, err, "#/a: why")
	assert.ErrorIs(t, err, why)
}

// nested returns a grammar of values in values: strings of a length, numbers, a word, and lists and objects of any of
// these, with names that match a pattern.
func nested(t *testing.T, length, more regular.Bounds, names string) *Grammar {
	t.Helper()
	b := newBuilder()
	value, list, object, item, key, colon := b.State(), b.State(), b.State(), b.State(), b.State(), b.State()
	text, err := b.String(length)
	require.NoError(t, err)
	number, err := b.Part("", func() (*regular.Set, error) {
		return b.make.Numbers(regular.Numbers{}, true, true)
	})
	require.NoError(t, err)
	name, err := b.Part("", func() (*regular.Set, error) { return b.make.Matching(names) })
	require.NoError(t, err)
	b.Jump(value, text)
	b.Jump(value, number)
	b.Literal(value, "null", b.End())
	b.Jump(value, list)
	b.Jump(value, object)
	b.Literal(list, "[", item)
	b.List([]int32{item}, [][]Step{{{value, 0}}}, 0, more, b.End())
	b.Literal(object, "{", key)
	after, end := b.State(), b.End()
	b.Literal(key, "}", end)
	b.Call(key, name, colon)
	found := b.State()
	b.Spaced(colon, ":", found)
	b.Call(found, value, after)
	b.Spaced(after, ",", key)
	b.Literal(after, "}", end)
	return built(t, b, value)
}

// TestMasks: along random values, a mask has exactly the tokens that can follow byte by byte, an end can be reached in
// exactly the least number of bytes, and the shortest tokens lead to it.
func TestMasks(t *testing.T) {
	racing.Spare(t)
	texts := []string{"", `":`, `": "`, `",`, `"]`, `"}]`, `]]`, `],[`, `}}`, "ab", "abcdef", `"a`, `"ab"`, "null",
		"nul", "1,", "12", "-1", ".5", "e1", "é", "日", "\xe6\x97", "\xa5", "\xc3", `\n`, `\"`, `\\`, `\u00`, "x", "axb",
		"\u2028", " ", "[1", `{"`, "00", "], ", `[[`, `{}`, "日本語", "\x00", "1,2,3", ",2]",
		"1,-2,3", "-2],3", ""}
	for i := range 256 {
		texts = append(texts, string([]byte{byte(i)}))
	}
	v, err := NewVocabulary(len(texts), func(id int32) []byte { return []byte(texts[id]) },
		func(id int32) bool { return id == 0 })
	require.NoError(t, err)
	assert.Equal(t, len(texts), v.size)
	r := rand.New(rand.NewPCG(1, 2))
	var mask Mask
	for _, length := range []regular.Bounds{regular.Any(), {Max: 0}, {Min: 2, Max: 6}, {Min: 5, Max: -1}} {
		for _, more := range []regular.Bounds{regular.Any(), {Max: 0}, {Min: 2, Max: 3}, {Min: 9, Max: -1}} {
			names := []string{"^.*$", "^[^x]*$"}[r.IntN(2)]
			m := NewMatcher(nested(t, length, more, names), v)
			for range 3 {
				s := m.Start()
				for range 20 {
					mask = m.Mask(mask, s)
					var can []int32
					for id, text := range texts {
						want := text != "" && m.g.Next(s, []byte(text)...) != nil || id == 0 && s.Done()
						require.Equal(t, want, mask.Has(int32(id)), "%q", text)
						require.Equal(t, want, m.Allows(s, int32(id)))
						if want && id > 0 {
							can = append(can, int32(id))
						}
					}
					checkEnd(t, m, s)
					if len(can) == 0 {
						require.True(t, len(s.threads) == 0 && s.Done())
						break
					}
					s = m.Next(s, can[r.IntN(len(can))])
				}
			}
		}
	}
}

// checkEnd checks the shortest end of a text.
func checkEnd(t *testing.T, m *Matcher, s *State) {
	t.Helper()
	least, text := m.g.Least(s), m.g.Shortest(s)
	require.Len(t, text, least)
	require.Equal(t, s.Done(), least == 0)
	require.True(t, m.g.Next(s, text...).Done())
	for b := range 256 {
		if next := m.g.Next(s, byte(b)); next != nil {
			require.GreaterOrEqual(t, m.g.Least(next), least-1)
		}
	}
	tokens, joined := m.Shortest(s), []byte(nil)
	for _, id := range tokens {
		joined = append(joined, m.v.tokens[id]...)
	}
	require.Equal(t, string(text), string(joined))
	require.True(t, m.Fits(s, least) && m.Fits(s, len(tokens)))
	require.False(t, m.Fits(s, len(tokens)-1))
}

// TestLeast: the least number of bytes counts repetitions that are not stored one by one, up to a limit.
func TestLeast(t *testing.T) {
	for _, c := range []struct {
		name               string
		chars, items, want int32
	}{
		{"an empty string", 0, 0, 4}, {"a character", 1, 0, 5}, {"four characters", 4, 0, 8},
		{"a thousand characters", 1000, 0, 1004}, {"another string", 0, 1, 7}, {"five other strings", 0, 5, 19},
		{"ten strings of seven", 7, 9, 101}, {"the longest string", 1 << 30, 0, 1<<30 + 4},
		{"two of the longest", 1 << 30, 1, endless}, {"most of the longest", 1 << 30, 1 << 30, endless},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			start, from := b.State(), b.State()
			text, err := b.String(regular.Bounds{Min: c.chars, Max: regular.Unbounded})
			require.NoError(t, err)
			b.Literal(start, "[", from)
			more := regular.Bounds{Min: c.items, Max: regular.Unbounded}
			b.List([]int32{from}, [][]Step{{{text, 0}}}, 0, more, b.End())
			g := built(t, b, start)
			assert.EqualValues(t, c.want, g.Least(g.Start()))
			if c.want < 2000 {
				assert.Len(t, g.Shortest(g.Start()), int(c.want))
				assert.True(t, whole(g, string(g.Shortest(g.Start()))))
			}
		})
	}
}

// TestFits: a text fits if its completion by the longest tokens has few enough of them.
func TestFits(t *testing.T) {
	b := newBuilder()
	start := b.State()
	b.Literal(start, "abcdefgh", b.End())
	v, err := NewVocabulary(260, func(id int32) []byte {
		if id > 256 {
			return []byte([]string{"abc", "ab", "defgh"}[id-257])
		}
		return []byte{byte(id)}
	}, func(id int32) bool { return id == 256 })
	require.NoError(t, err)
	m := NewMatcher(built(t, b, start), v)
	assert.Equal(t, []int32{257, 259}, m.Shortest(m.Start()))
	for tokens, want := range map[int]bool{0: false, 1: false, 2: true, 3: true, 8: true} {
		assert.Equal(t, want, m.Fits(m.Start(), tokens), tokens)
	}
	whole := m.Next(m.Next(m.Start(), 257), 259)
	assert.True(t, m.Fits(whole, 0))
	assert.Empty(t, m.Shortest(whole))
}
