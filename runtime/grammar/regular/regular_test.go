package regular

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// newMaker returns a maker that nothing stops.
func newMaker() *Maker { return &Maker{Stop: func() error { return nil }} }

// TestSpend: a maker asks whether to stop once in so many steps, and ends the work when there were too many.
func TestSpend(t *testing.T) {
	asked, why := 0, errors.New("enough")
	m := &Maker{Stop: func() error {
		if asked++; asked == 3 {
			return why
		}
		return nil
	}}
	for _, c := range []struct {
		name         string
		steps, asked int
		want         error
	}{
		{"too few to ask", stopEach - 1, 0, nil}, {"enough with the last ones", 1, 1, nil},
		{"too few again", stopEach - 1, 1, nil}, {"enough again", stopEach, 2, nil},
		{"Stop ends it", 5 * stopEach, 3, why}, {"all that are left", maxSteps - 8*stopEach + 1, 4, nil},
		{"one too many", 1, 4, ErrWork}, {"none, after too many", 0, 4, ErrWork},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, m.Spend(c.steps))
			assert.Equal(t, c.asked, asked)
		})
	}
}

// TestStopped: whatever a maker makes ends with the error of Stop, or when there were too many steps.
func TestStopped(t *testing.T) {
	any, err := newMaker().AnyString()
	require.NoError(t, err)
	not := Strings{Length: Any(), Not: []string{"a"}}
	for name, work := range map[string]func(m *Maker) error{
		"pattern":   func(m *Maker) error { _, err := m.Matching("^a$"); return err },
		"lookahead": func(m *Maker) error { _, err := m.Matching("^(?!a)b"); return err },
		"strings":   func(m *Maker) error { _, err := m.Strings(not); return err },
		"char":      func(m *Maker) error { _, err := m.Char(); return err },
		"and":       func(m *Maker) error { _, err := m.And(any, any); return err },
		"or":        func(m *Maker) error { _, err := m.Or(any); return err },
		"freedom":   func(m *Maker) error { _, err := m.Freedom(any); return err },
		"unquote":   func(m *Maker) error { _, err := m.Unquote(any); return err },
		"before":    func(m *Maker) error { _, err := m.Before(any, "x"); return err },
		"integers":  func(m *Maker) error { _, err := m.Numbers(Numbers{}, true, false); return err },
		"numbers":   func(m *Maker) error { _, err := m.Numbers(Numbers{}, true, true); return err },
		"fractions": func(m *Maker) error { _, err := m.Numbers(Numbers{}, false, true); return err },
		"multiples": func(m *Maker) error { _, err := m.Numbers(Numbers{Step: rat("7")}, true, false); return err },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaker()
			require.NoError(t, work(m))
			why := errors.New("enough")
			assert.Equal(t, why, work(&Maker{Stop: func() error { return why }, steps: stopEach - 1}))
			assert.Equal(t, ErrWork, work(&Maker{Stop: m.Stop, steps: maxSteps}))
		})
	}
}

// TestBounds: the bounds of a count, and those of two conditions together.
func TestBounds(t *testing.T) {
	all := []Bounds{Any(), {0, 0}, {0, 3}, {2, Unbounded}, {2, 2}, {2, 5}, {4, 3}}
	within := func(b Bounds, n int32) bool { return n >= b.Min && (b.Max == Unbounded || n <= b.Max) }
	for _, a := range all {
		assert.Equal(t, a.Max != -1, a.Bounded())
		some := false
		for n := range int32(9) {
			some = some || within(a, n)
			for _, b := range all {
				assert.Equal(t, within(a, n) && within(b, n), within(a.And(b), n), "%v and %v: %d", a, b, n)
			}
		}
		assert.Equal(t, !some, a.Empty(), "%v", a)
	}
}

// TestSets: sets of texts, and what is in both of two, in one of them, or in the first alone.
func TestSets(t *testing.T) {
	r, m := rand.New(rand.NewPCG(1, 2)), newMaker()
	words := []string{""}
	for i := 0; len(words) < 63; i++ {
		words = append(words, words[i]+"a", words[i]+"b")
	}
	some := func() (texts []string) {
		for range r.IntN(12) {
			texts = append(texts, words[r.IntN(len(words))])
		}
		return texts
	}
	for range 300 {
		x, y := some(), some()
		a, err := Of(x)
		require.NoError(t, err)
		b, err := Of(y)
		require.NoError(t, err)
		both, err := m.And(a, b)
		require.NoError(t, err)
		either, err := m.Or(a, b)
		require.NoError(t, err)
		one, err := m.Without(a, b)
		require.NoError(t, err)
		for name, c := range map[string]struct {
			set *Set
			has func(inA, inB bool) bool
		}{
			"the first":          {a, func(inA, _ bool) bool { return inA }},
			"both":               {both, func(inA, inB bool) bool { return inA && inB }},
			"either":             {either, func(inA, inB bool) bool { return inA || inB }},
			"only the first one": {one, func(inA, inB bool) bool { return inA && !inB }},
		} {
			some := false
			for _, word := range append(words, "c", "aaaaaaa") {
				want := c.has(slices.Contains(x, word), slices.Contains(y, word))
				require.Equal(t, want, c.set.Has(word), "%s of %v and %v: %q", name, x, y, word)
				some = some || want
			}
			require.Equal(t, !some, c.set.Empty(), "%s of %v and %v", name, x, y)
		}
	}
}

// TestSorts: each text of a set is in one of its parts, and neighbours are in different ones.
func TestSorts(t *testing.T) {
	m := newMaker()
	for _, pattern := range []string{"^", "^[a-e]*$", "é|^a", "^$"} {
		d, err := m.Matching(pattern)
		require.NoError(t, err)
		parts, err := m.Sorts(d, 5)
		require.NoError(t, err)
		require.Len(t, parts, 5)
		sort := map[string]int{}
		for _, text := range []string{"", "a", "b", "e", "ab", "ba", "aab", "é", "日本", "a\nb", `"`, "dea", "deb",
			"\u07ff"} {
			in := 0
			for i, part := range parts {
				if part.Has(Quote(text)) {
					in, sort[text] = in+1, i
				}
			}
			require.Equal(t, d.Has(Quote(text)), in == 1, "%s: %q", pattern, text)
			require.LessOrEqual(t, in, 1)
		}
		if pattern == "^" {
			assert.NotEqual(t, sort["a"], sort["b"])
			assert.NotEqual(t, sort["dea"], sort["deb"])
			assert.NotEqual(t, sort["ab"], sort["ba"])
		}
	}
	any, err := m.AnyString()
	require.NoError(t, err)
	_, err = (&Maker{Stop: m.Stop, steps: maxSteps}).Sorts(any, 5)
	assert.Equal(t, ErrWork, err)
}

// TestTrimmed: each state of a set leads to an end, and its arcs are sorted and apart.
func TestTrimmed(t *testing.T) {
	m := newMaker()
	for _, pattern := range []string{"^", "^(a|bc)*d?$", `^[^\s\S]a|b$`, "^.{2,3}$", `x[^\s\S]`} {
		d, err := m.Matching(pattern)
		require.NoError(t, err)
		for i, arcs := range d.Arcs {
			next := [][]int32{}
			for _, all := range d.Arcs {
				to := []int32{}
				for _, x := range all {
					to = append(to, x.To)
				}
				next = append(next, to)
			}
			live := slices.Clone(d.End)
			markReachingStates(next, live)
			assert.True(t, live[i], "%s: state %d", pattern, i)
			for k, x := range arcs {
				assert.LessOrEqual(t, x.Lo, x.Hi)
				assert.True(t, k == 0 || arcs[k-1].Hi < x.Lo, "%s: state %d: %v", pattern, i, arcs)
			}
		}
	}
}

// TestTooLarge: a set may have so many states, and no more.
func TestTooLarge(t *testing.T) {
	held.Bounded(t)
	racing.Spare(t)
	texts := []string{strings.Repeat("a", maxStates-1)}
	_, err := Of(texts)
	require.NoError(t, err)
	texts = append(texts, "b")
	_, err = Of(texts)
	assert.ErrorIs(t, err, ErrSize)
	_, err = Values(texts)
	assert.ErrorIs(t, err, ErrSize)
	_, err = newMaker().Strings(Strings{Length: Any(), Except: texts})
	assert.ErrorIs(t, err, ErrSize)
	m := newMaker()
	for _, pattern := range []string{strings.Repeat("a{1000}", 70), "^(a|b)*a(a|b){16}$"} {
		_, err = m.Matching(pattern)
		assert.ErrorIs(t, err, ErrSize, pattern)
	}
	for step, want := range map[string]error{"65536": nil, "65537": ErrSize} {
		_, err = m.Numbers(Numbers{Step: rat(step), Min: Limit{At: rat("0")}, Max: Limit{At: rat("99")}}, true, false)
		assert.ErrorIs(t, err, want, step)
	}
}

// TestPlain: the characters that need no escape, in UTF-8, are plain, but for those that end lines, and <. A byte that
// belongs to none is not.
func TestPlain(t *testing.T) {
	plain := func(text string) bool {
		state := int32(0)
		for i := range len(text) {
			if state = PlainNext(state, text[i]); state < 0 {
				return false
			}
		}
		return state == 0
	}
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if utf8.ValidRune(r) {
			want := r >= 0x20 && r != '"' && r != '\\' && r != '<' && r != '\u2028' && r != '\u2029'
			if plain(string(r)) != want {
				t.Fatalf("%U: %v", r, !want)
			}
		}
	}
	for _, text := range []string{"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
		"\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x90"} {
		assert.False(t, plain(text), "%q", text)
	}
}

// TestUnquote: a set without quotes and escapes has the same strings as before, and each with a text after it.
func TestUnquote(t *testing.T) {
	m := newMaker()
	texts := []string{"", "a", "b", "ab", "\"", "\\", "\n", "a\tb", "\x00", "\x1f", "é\r", "\u2028", "🐟\"\\", `\n`,
		"aé", "bbb"}
	for _, pattern := range []string{"^", "a", "^[^a]*$", `^.?$`, `["\\]`, "^[\x00-\x1f]+$", "^(b|é)+", "^$",
		"[^\\s\\S]"} {
		d, err := m.Matching(pattern)
		require.NoError(t, err, pattern)
		plain, err := m.Unquote(d)
		require.NoError(t, err)
		before, err := m.Before(plain, "a\n")
		require.NoError(t, err)
		for _, text := range texts {
			assert.Equal(t, d.Has(Quote(text)), plain.Has(text), "%s: %q", pattern, text)
			assert.Equal(t, d.Has(Quote(text)), before.Has(text+"a\n"), "%s: %q", pattern, text)
			assert.False(t, before.Has(text))
		}
	}
}

// TestFreedom: after the quote of a string, any characters can follow, or all but line ends, or only some.
func TestFreedom(t *testing.T) {
	m := newMaker()
	for pattern, want := range map[string]Freedom{
		"^": InString, "": InString, "^.*$": Free, `^[^\x01]*$`: Free, "^a*$": Bound, "^.{0,9}$": Bound, "a$": Free,
		`^[^é]*$`: Bound, "^[^a]*$": Bound, `^[^\x{2028}]*$`: Free, "a": Free,
	} {
		d, err := m.Matching(pattern)
		require.NoError(t, err, pattern)
		free, err := m.Freedom(d)
		require.NoError(t, err)
		require.Len(t, free, len(d.Arcs))
		begun, _ := d.nextState(0, '"', '"')
		assert.Equal(t, want, free[begun], pattern)
		assert.Equal(t, Bound, free[0], "before the quote")
	}
}

// TestValues: listed values may have a space after each comma and colon that is not within a string.
func TestValues(t *testing.T) {
	d, err := Values([]string{`[1,{"a,":"b:\",","c":2}]`, `[1,2]`, `"x,y"`, `{}`, `-1`})
	require.NoError(t, err)
	for text, want := range map[string]bool{
		`[1,{"a,":"b:\",","c":2}]`: true, `[1, {"a,": "b:\",", "c": 2}]`: true, `[1, {"a,":"b:\",","c": 2}]`: true,
		`[1,{"a, ":"b:\",","c":2}]`: false, `[1,{"a,":"b: \",","c":2}]`: false, `[1,{"a,":"b:\", ","c":2}]`: false,
		`[1,  2]`: false, `[1, 2]`: true, `[ 1,2]`: false, `[1,]`: false, `"x,y"`: true, `"x, y"`: false, `{}`: true,
		`-1`: true, `1`: false, ``: false, "[1,\x1f2]": false,
	} {
		assert.Equal(t, want, d.Has(text), text)
	}
	none, err := Values(nil)
	require.NoError(t, err)
	assert.True(t, none.Empty())
}
