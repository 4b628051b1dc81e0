package cli

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wrapped returns what a terminal gets for a text that comes in parts.
func wrapped(t *testing.T, columns int, plain bool, parts ...string) string {
	t.Helper()
	var out strings.Builder
	w := &Wrapper{out: &out, columns: func() int { return columns }, plain: plain}
	for _, part := range append(parts, "\n") {
		n, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	return out.String()
}

// TestWrapped: words move to the next line as a whole, by the columns that they take. Further lines of a list entry are
// indented. Code and tables are as they came.
func TestWrapped(t *testing.T) {
	for text, want := range map[string]string{
		"one two three":     "one two\nthree\n",
		"one 2345 7890":     "one 2345\n7890\n",
		"one two3 8901  2":  "one two3\n8901  2\n",
		"abcdefghijklm nop": "abcdefghij\nklm nop\n",
		"a abcdefghijklm":   "a\nabcdefghij\nklm\n",
		"日本語日本語":            "日本語日本\n語\n",
		"a 日本語日本":           "a 日本語日\n本\n",
		"ab \U0001F468\u200d\U0001F469\u200d\U0001F467 cd ef": "ab \U0001F468\u200d\U0001F469\u200d\U0001F467 cd\nef\n",
		"cafe\u0301 cafe\u0301 x":                             "cafe\u0301 cafe\u0301\nx\n",
		"- one two three\nfour five six":                      "- one two\n  three\nfour five\nsix\n",
		"         one two":                                    "     one\n     two\n",
		"   1000. one two":                                    "   1000.\n     one\n     two\n",
		"a\n   ":                                              "a\n\n",
		"  * one two three":                                   "  * one\n    two\n    three\n",
		"10. one two":                                         "10. one\n    two\n",
		"> one two three":                                     "> one two\n  three\n",
		"2001 was - a year":                                   "2001 was -\na year\n",
		"   one two three":                                    "   one two\n   three\n",
		"```\nlong lines  of code\n```\none two three":        "```\nlong lines  of code\n```\none two\nthree\n",
		"```c\nif a:\n\t~~~\n  ```\none two three":            "```c\nif a:\n\t~~~\n  ```\none two\nthree\n",
		"````\n```\none two three\n````":                      "````\n```\none two three\n````\n",
		"```one two three``` four":                            "```one two\nthree```\nfour\n",
		"| one | two | three |\none two three":                "| one | two | three |\none two\nthree\n",
		"is it /a/b/c or / b":                                 "is it\n/a/b/c or\n/ b\n",
		"a\n\n\nb ":                                           "a\n\n\nb\n",
		"one\ttwo 3x":                                         "one    two\n3x\n",
	} {
		assert.Equal(t, want, wrapped(t, 10, true, text), text)
	}
}

// TestMarkdownStyle: marks are dim, headings and strong text bold, emphasis italic, and no text that only looks like
// Markdown has a style. The large model's tokens keep their colour, and without colours there is no sequence at all.
func TestMarkdownStyle(t *testing.T) {
	names := strings.NewReplacer("\x1b[2m", "{d}", "\x1b[1m", "{b}", "\x1b[3m", "{i}", "\x1b[1;3m", "{bi}",
		boldCyan, "{c}", PlainAgain, "{}")
	for text, want := range map[string]string{
		"## A *b* c":                     "{d}## {}{b}A {}{d}*{}{bi}b{}{d}*{} {b}c{}",
		"a **b c** d":                    "a {d}**{}{b}b c{}{d}**{} d",
		"***a***, _b_.":                  "{d}***{}{bi}a{}{d}***{}, {d}_{}{i}b{}{d}_{}.",
		"**a *b* c**":                    "{d}**{}{b}a {}{d}*{}{bi}b{}{d}*{} {b}c{}{d}**{}",
		"*a\nb":                          "{d}*{}{i}a{}\nb",
		"重点**是**这":                       "重点{d}**{}{b}是{}{d}**{}这",
		"`a*b*` ``c`d`` e":               "{d}`{}a*b*{d}` ``{}c`d{d}``{} e",
		"`\\` *a*":                       "{d}`{}\\{d}`{} {d}*{}{i}a{}{d}*{}",
		"# `a` b":                        "{d}# `{}{b}a{}{d}`{} {b}b{}",
		"- **a**: b":                     "{d}- **{}{b}a{}{d}**{}: b",
		"1. a":                           "{d}1.{} a",
		"> a":                            "{d}>{} a",
		"```go\na *b* # c\n```\n*d*":     "{d}```go{}\na *b* # c\n{d}```{}\n{d}*{}{i}d{}{d}*{}",
		"2 * 3 * 4, 2*3*4, f(x)*g(x)*h":  "2 * 3 * 4, 2*3*4, f(x)*g(x)*h",
		"snake_case_name, \\*a\\*, ****": "snake_case_name, \\*a\\*, ****",
		"#hash, ####### seven, 1.5 2.":   "#hash, ####### seven, 1.5 2.",
		"a\u0301 " + boldCyan + "**b" + PlainAgain + "c**": "a\u0301 {c}**b{}{b}c{}{d}**{}",
	} {
		assert.Equal(t, want+"\n", names.Replace(wrapped(t, 80, false, text)), text)
		assert.Equal(t, text+"\n", wrapped(t, 80, true, text), text)
	}
}

// TestWrapperResized: a line goes on where a terminal that became narrower has put its end; a wider one has more room.
func TestWrapperResized(t *testing.T) {
	var out strings.Builder
	columns := 20
	w := &Wrapper{out: &out, columns: func() int { return columns }, plain: true}
	for _, c := range []struct {
		columns int
		text    string
	}{{20, "one two three four five"}, {12, " six seven"}, {30, " eight nine "}, {40, "\n            - ten end"},
		{10, " twe x "}} {
		columns = c.columns
		_, err := w.Write([]byte(c.text))
		require.NoError(t, err)
	}
	assert.Equal(t, "one two three four five\nsix seven eight nine\n            - ten\n     end\n     twe",
		out.String())
}

// TestWrapperHolds: a word is written when its end is known, also if it is longer than a line; lines that are whole are
// written at once.
func TestWrapperHolds(t *testing.T) {
	var out strings.Builder
	w := &Wrapper{out: &out, columns: func() int { return 8 }}
	for _, c := range []struct{ text, shown string }{{"on", ""}, {"e", ""}, {" tw", "one"}, {"elve", "one"},
		{" and", "one\ntwelve"}, {"abcdefghijk", "one\ntwelve\nandabcde"}, {"\n", "one\ntwelve\nandabcde\nfghijk\n"}} {
		_, err := w.Write([]byte(c.text))
		require.NoError(t, err)
		assert.Equal(t, c.shown, out.String())
	}
	out.Reset()
	w.whole = true
	_, err := w.Write([]byte(">>> "))
	require.NoError(t, err)
	assert.Equal(t, ">>> ", out.String())
}

// FuzzWrapper: a text that comes in any parts is shown as if it came at once, up to the places where lines break. No
// line of it is too wide, unless it is code or a table; words are whole where they fit; and what is written is text,
// colours and line ends, which take nothing back.
func FuzzWrapper(f *testing.F) {
	for _, s := range []string{"one two three", "- **a** b\n  1. c d `e f` g", "# a\n\n```go\ncode\n```\nb | c",
		"日本語 e\u0301 \t x",
		"* \U0001F1E9\U0001F1EA\U0001F468\u200d\U0001F469 > a_b_ - c", "> |a|b| https://example.org/a/b?c=d#e"} {
		f.Add(s, uint8(20), uint64(1))
	}
	f.Add(strings.Repeat("words ", 60), uint8(200), uint64(1))
	f.Add("*\t\x7f", uint8(5), uint64(0))
	sequence := regexp.MustCompile("\x1b\\[[0-9;]+m")
	space := regexp.MustCompile(`\s`)
	f.Fuzz(func(t *testing.T, text string, columns uint8, seed uint64) {
		text = Harmless(strings.ToValidUTF8(text, ""))
		width := max(4, int(columns))
		var parts []string
		for r, rest := rand.New(rand.NewPCG(seed, 0)), text; rest != ""; rest = rest[len(parts[len(parts)-1]):] {
			n := min(len(rest), 1+r.IntN(9))
			for !utf8.ValidString(rest[:n]) {
				n++
			}
			parts = append(parts, rest[:n])
		}
		styled := wrapped(t, width, false, parts...)
		plain := wrapped(t, width, true, parts...)
		require.Equal(t, plain, sequence.ReplaceAllString(styled, ""), "styles change no text")
		require.NotContains(t, plain, "\x1b")
		require.Equal(t, space.ReplaceAllString(text, ""), space.ReplaceAllString(plain, ""))
		if strings.ContainsAny(text, "|`~") {
			return
		}
		for line := range strings.Lines(plain) {
			require.LessOrEqual(t, uniseg.StringWidth(strings.TrimRight(line, "\n")), min(width, maxColumns),
				"%q", line)
		}
		words := strings.FieldsFunc(text, func(r rune) bool { return r < 'a' || r > 'z' })
		for _, word := range words {
			if len(word) > width {
				return
			}
		}
		require.Equal(t, words, strings.Fields(wrapped(t, width, true, strings.Join(words, " "))))
	})
}
