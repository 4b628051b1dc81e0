package grammar

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// TestMaskSet: a set of tokens, also outside its bounds.
func TestMaskSet(t *testing.T) {
	m := make(Mask, 2)
	m.addToken(70)
	assert.True(t, m.Has(70))
	for range 2 {
		m.Remove(70)
		assert.False(t, m.Has(70), "once removed, twice removed")
	}
	for _, id := range []int32{-1, -64, -65, 128, 1 << 30} {
		assert.False(t, m.Has(id))
	}
}

// TestVocabularyRefused: a vocabulary can write every value, and end it.
func TestVocabularyRefused(t *testing.T) {
	make := func(missing, end int32) error {
		_, err := NewVocabulary(256, func(id int32) []byte {
			if id == missing {
				return []byte("more")
			}
			return []byte{byte(id)}
		}, func(id int32) bool { return id == end })
		return err
	}
	require.NoError(t, make(7, 0))
	assert.ErrorContains(t, make(-1, -1), "no token of the vocabulary ends a text")
	for _, b := range []int32{' ', '"', '}', 0x7e, 0x80, 0xbf, 0xc2, 0xf4} {
		assert.ErrorContains(t, make(b, 0), fmt.Sprintf("no token of the vocabulary is the byte %#02x alone", b))
	}
	for _, b := range []int32{'\n', 0x7f, 0xc0, 0xc1, 0xf5, 0xff} {
		assert.NoError(t, make(b, 0), "no value contains it")
	}
}

// TestBytes: the memory of a grammar is about what the program allocates for it: a part is not left out.
func TestBytes(t *testing.T) {
	const many = 10_000
	for name, step := range map[string]func(b *Builder, from, to int32){
		"arcs":  func(b *Builder, from, to int32) { b.Literal(from, "a", to) },
		"jumps": func(b *Builder, from, to int32) { b.Jump(from, to) },
		"calls": func(b *Builder, from, to int32) { b.Call(from, 0, to) },
		"counts": func(b *Builder, from, _ int32) {
			b.stateAt(from).bounds = b.addBounds(regular.Bounds{Min: 3, Max: 9})
		},
	} {
		b := NewBuilder(&regular.Maker{Stop: func() error { return nil }})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		at := b.End()
		for range many {
			next := at
			at = b.State()
			step(b, at, next)
		}
		g, some := b.Build(0, nil)
		require.True(t, some)
		b = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		held := float64(after.HeapAlloc - before.HeapAlloc)
		assert.InEpsilon(t, held, float64(g.Bytes()), 0.2, "%s: %v bytes", name, held)
	}
}

// TestEnds: any of several tokens may end a whole value, and no token outside the vocabulary may follow.
func TestEnds(t *testing.T) {
	b := NewBuilder(&regular.Maker{Stop: func() error { return nil }})
	start, end := b.State(), b.End()
	b.Literal(start, "7", end)
	b.Literal(end, "7", end)
	b.Literal(start, "n", b.End())
	g, some := b.Build(start, []string{"#/odd"})
	require.True(t, some)
	const size, one, other, empty = 259, 256, 257, 258
	v, err := NewVocabulary(size, func(id int32) []byte {
		if id == empty {
			return nil
		}
		return []byte{byte(id)}
	}, func(id int32) bool { return id == one || id == other })
	require.NoError(t, err)
	m := NewMatcher(g, v)
	assert.Equal(t, []string{"#/odd"}, m.Ignored())
	for _, c := range []struct {
		name, text   string
		done, over   bool
		follows, not []int32
	}{
		{"before the text", "", false, false, []int32{'7', 'n'}, []int32{one, other, '8'}},
		{"an end that may go on", "7", true, false, []int32{'7', one, other}, []int32{'n'}},
		{"the only end", "n", true, true, []int32{one, other}, []int32{'7', 'n'}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := m.Start()
			for _, b := range []byte(c.text) {
				s = m.Next(s, int32(b))
			}
			assert.Equal(t, c.done, s.Done(), "a whole value")
			assert.Equal(t, c.over, len(s.threads) == 0, "nothing may follow")
			mask := m.Mask(nil, s)
			for _, id := range c.follows {
				assert.True(t, mask.Has(id) && m.Allows(s, id), "and then %d", id)
			}
			for _, id := range append(c.not, -1, empty, size, size+1, 1<<30) {
				assert.False(t, mask.Has(id) || m.Allows(s, id), "and then %d", id)
			}
			for _, id := range []int32{one, other} {
				assert.True(t, m.Ends(id))
				assert.Same(t, s, m.Next(s, id), "an end token changes nothing")
			}
		})
	}
}

// TestManyWays: of the ways to read a text, some are followed, and lead to its end.
func TestManyWays(t *testing.T) {
	b := NewBuilder(&regular.Maker{Stop: func() error { return nil }})
	start, end := b.State(), b.End()
	for range 2 * maxThreads {
		b.Literal(start, "ab", end)
	}
	g, some := b.Build(start, nil)
	require.True(t, some)
	s := g.Next(g.Start(), 'a')
	assert.Len(t, s.threads, maxThreads)
	assert.True(t, g.Next(s, 'b').Done())
}

// matcher returns a matcher of strings of a length or with a pattern, for a vocabulary with some texts, all bytes and
// an end token.
func matcher(t *testing.T, length int32, pattern string, texts ...string) *Matcher {
	t.Helper()
	b := NewBuilder(&regular.Maker{Stop: func() error { return nil }})
	start, err := b.String(regular.Bounds{Max: length})
	if pattern != "" {
		start, err = b.Part("", func() (*regular.Set, error) { return b.make.Matching(pattern) })
	}
	require.NoError(t, err)
	g, some := b.Build(start, nil)
	require.True(t, some)
	for i := range 256 {
		texts = append(texts, string([]byte{byte(i)}))
	}
	v, err := NewVocabulary(len(texts)+1, func(id int32) []byte { return []byte(texts[id]) },
		func(id int32) bool { return int(id) == len(texts) })
	require.NoError(t, err)
	return NewMatcher(g, v)
}

// TestLines: the dot of a pattern matches all characters except ends of lines, also in tokens and in escapes.
func TestLines(t *testing.T) {
	for name, c := range map[string]struct {
		pattern string
		want    []bool
	}{
		"any":                 {"", []bool{true, true, true, true}},
		"no line end":         {"^.*$", []bool{true, false, false, true}},
		"all but a character": {`^[^\x1f]*$`, []bool{true, true, true, false}},
	} {
		m := matcher(t, regular.Unbounded, c.pattern, "ab é", "a\u2028", `\n`, `\u001f`)
		s := m.g.Next(m.Start(), '"')
		assert.NotNil(t, m.threadReach(s.threads[0]).base, "it starts from the common states of these strings")
		mask := m.Mask(nil, s)
		for id, want := range c.want {
			assert.Equal(t, want, mask.Has(int32(id)), "%s: %q", name, m.v.tokens[id])
		}
	}
}

// TestMasksKept: the number of kept masks is limited.
func TestMasksKept(t *testing.T) {
	m := matcher(t, 10, "")
	m.Mask(nil, m.Start())
	k := m.v.cache
	require.Equal(t, 1, k.masks.Len())
	first := k.bytes
	assert.Positive(t, first)
	k.bytes += maxCacheBytes - first // as if there were many masks
	m.Mask(nil, m.g.Next(m.Start(), '"'))
	assert.Equal(t, 1, k.masks.Len(), "the first one was evicted")
	assert.Equal(t, maxCacheBytes-first+k.masks.Values()[0].memoryBytes(), k.bytes)
}
