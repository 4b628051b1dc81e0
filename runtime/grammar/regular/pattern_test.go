package regular

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// someTexts returns short texts.
func someTexts() []string {
	all := []string{""}
	for i := 0; len(all[i]) < 4; i++ {
		for _, c := range "abA1" {
			all = append(all, all[i]+string(c))
		}
	}
	return append(all, "é", "日本", "a日", "\n", "a\nb", `"`, `\`, `a"`, "\x00", "\x1f", "\x7f", "\u0080", "\u07ff",
		"\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "x🐟y", "_", " ", "-", "aaaaab", "c", "ſ",
		"K")
}

// TestPatterns: a string matches a pattern as with package regexp.
func TestPatterns(t *testing.T) {
	m := newMaker()
	for _, pattern := range []string{
		"", "^", "$", "a", "^a", "a$", "^a$", "^(a|b)+1{2,3}$", "[^a-z]b?", "^$", "a|^b|1$", `^\pL{1,3}$`, "(ab){2}",
		`"\\`, "^.{3}$", ".", `[\x00-\x1f]`, "(|a)+b", `[^\s]$`, "a{0,2}b{2}", "^[aA]b", `\d`, `^\W`, `^\S+$`,
		"日本?", "(^a)", "a$$", "(a$|b)", "^(a|^b)$", "^(ab?|b)*1$", "^a{2}$", "^a{2,}$", "^a{0,1}b", `[^\s\S]`,
		`[^\s\S]|a`, "^[^a]$", `^[\x{80}-\x{7ff}]$`, `^[\x{800}-\x{ffff}]$`, `^[\x{10000}-\x{10ffff}]$`,
		`^[\x{7f0}-\x{801}]$`, `^[\x20-\x7f]$`, `^[^"\\]$`, "^(?:a|b)c?$", "^(a)(b)$", `^\x00`, "^((a$)|(^b$))", "k|ſ",
		"[kK]$",
	} {
		re := regexp.MustCompile(pattern)
		d, err := m.Matching(pattern)
		require.NoError(t, err, pattern)
		again, err := m.Matching(pattern)
		require.NoError(t, err)
		assert.Same(t, d, again, "it is made once")
		for _, text := range someTexts() {
			require.Equal(t, re.MatchString(text), d.Has(Quote(text)), "%s: %q", pattern, text)
			require.False(t, d.Has(text), "without quotes")
		}
	}
	lines, err := m.Matching("^.$")
	require.NoError(t, err)
	for _, end := range []string{"\n", "\r", "\u2028", "\u2029"} {
		assert.False(t, lines.Has(Quote(end)), "a dot is no line end: %q", end)
	}
	for _, other := range []string{"\x0b", "\u0085", "\u2027", "\u202a"} {
		assert.True(t, lines.Has(Quote(other)), "%q", other)
	}
	for _, text := range []string{`"\u0061"`, `"\/"`, "\"\x01\"", "\"\xff\"", "\"\xed\xa0\x80\"", `"a`, `"`, `"""`,
		`"a"b`} {
		d, err := m.AnyString()
		require.NoError(t, err)
		assert.False(t, d.Has(text), "another spelling: %q", text)
	}
}

// TestBlanks: \s and \S are those of ECMA-262 (WhiteSpace and LineTerminator) for each character, in classes, too.
func TestBlanks(t *testing.T) {
	m := newMaker()
	is := func(r rune) bool {
		return r >= '\t' && r <= '\r' || r == '\u2028' || r == '\u2029' || r == '\ufeff' || unicode.Is(unicode.Zs, r)
	}
	not := func(r rune) bool { return !is(r) }
	for pattern, want := range map[string]func(r rune) bool{
		`^\s$`: is, `^\S$`: not, `^[^\s]$`: not, `^[\S]$`: not, `^[^\S]$`: is,
		`^[\sa]$`:   func(r rune) bool { return is(r) || r == 'a' },
		`^[\]\s]$`:  func(r rune) bool { return is(r) || r == ']' },
		`^[^\]\s]$`: func(r rune) bool { return !is(r) && r != ']' },
		`^[^\w\s]$`: func(r rune) bool {
			return !is(r) && !strings.ContainsRune("_0123456789", r) && (r > 'z' || !unicode.IsLetter(r))
		},
		`^[\W]$`:       func(r rune) bool { return r != '_' && (r > 'z' || !unicode.In(r, unicode.L, unicode.Nd)) },
		`^[^\D]$`:      func(r rune) bool { return r >= '0' && r <= '9' },
		`^[^\n]$`:      func(r rune) bool { return r != '\n' },
		`^[.\u002C]$`:  func(r rune) bool { return r == '.' || r == ',' },
		`^.$`:          func(r rune) bool { return r != '\n' && r != '\r' && r != '\u2028' && r != '\u2029' },
		`^[a]\s|^\\s$`: func(rune) bool { return false }, `^[\s\S]$`: func(rune) bool { return true },
	} {
		d, err := m.Matching(pattern)
		require.NoError(t, err, pattern)
		for r := rune(0); r < 0x11000; r++ {
			if utf8.ValidRune(r) {
				require.Equal(t, want(r), d.Has(Quote(string(r))), "%s: %U", pattern, r)
			}
		}
	}
}

// TestSpellings: parts of regular expressions that JavaScript has in Unicode mode and Go has not, or with another
// meaning.
func TestSpellings(t *testing.T) {
	m := newMaker()
	for pattern, want := range map[string]string{
		`^\u0041$`: "A", `^\u{41}$`: "A", `^\u{1f41f}$`: "🐟", `^\ud83d\uDC1F$`: "🐟", `^[\u4e00-\u9fff]+$`: "日本",
		`^[\ud83d\udc1f]$`: "🐟", `^\cA$`: "\x01", `^[\cz]$`: "\x1a", `^[\b]$`: "\b", `^[^][^]$`: "\n日", `^(a|[])$`: "a",
		`^\p{Script=Greek}$`: "α", `^\p{sc=Greek}\P{gc=Lu}$`: "αα", `^[\p{General_Category=Lu}]$`: "Ä", `^\\u$`: `\u`,
		`^\\[.]\.$`: `\..`, `^[a\]b]$`: "]", `^[[]$`: "[", `^\[.\]$`: "[.]", `^[\\\]]$`: `\`,
	} {
		d, err := m.Matching(pattern)
		if assert.NoError(t, err, pattern) {
			assert.True(t, d.Has(Quote(want)), pattern)
			assert.False(t, d.Has(Quote("x"+want)), pattern)
			assert.False(t, d.Has(Quote("u0041")), pattern)
		}
	}
	for _, pattern := range []string{`\u`, `\u12`, `\u{110000}`, `\u{}`, `\u{1f41f`, `\ud83d`, `\ud83dx`, `\udc1f`,
		`\ud83d\u0041`, `\u{99999999999999999999}`, `\c`, `\c1`, `\p{Alphabetic}`, `\p{Script=Nobody}`} {
		_, err := Patterns(pattern)
		assert.Error(t, err, pattern)
	}
}

// TestStrings: strings have a length in characters, match some patterns and not others, and are none of the exceptions.
func TestStrings(t *testing.T) {
	racing.Spare(t)
	m := newMaker()
	patterns := [][]string{nil, {"^a"}, {"b"}, {"^a", "b$"}, {"^.*1", "^[^A]*$", "a"}}
	for _, length := range []Bounds{Any(), {0, 0}, {1, 2}, {2, 2}, {0, 3}, {3, Unbounded}} {
		for _, match := range patterns {
			for _, not := range patterns {
				s := Strings{Length: length, Match: match, Not: not, Except: []string{`"ab"`, `"日本"`, `"\n"`}}
				d, err := m.Strings(s)
				require.NoError(t, err)
				for _, text := range someTexts() {
					n := int32(utf8.RuneCountInString(text))
					want := n >= length.Min && (length.Max < 0 || n <= length.Max) && text != "ab" && text != "日本" &&
						text != "\n"
					for _, p := range match {
						want = want && regexp.MustCompile(p).MatchString(text)
					}
					for _, p := range not {
						want = want && !regexp.MustCompile(p).MatchString(text)
					}
					require.Equal(t, want, d.Has(Quote(text)), "%+v: %q", s, text)
				}
			}
		}
	}
	assert.True(t, Strings{Length: Bounds{1, 2}}.Any())
	for _, s := range []Strings{{Match: []string{""}}, {Not: []string{"a"}}, {Except: []string{`""`}},
		{Match: []string{"a"}, Not: []string{"b"}}, {Match: []string{"a"}, Except: []string{`"c"`}}} {
		assert.False(t, s.Any(), "%+v", s)
	}
}

// TestChar: a character has one spelling: escaped if that is required.
func TestChar(t *testing.T) {
	d, err := newMaker().Char()
	require.NoError(t, err)
	for _, text := range someTexts() {
		quoted := Quote(text)
		assert.Equal(t, utf8.RuneCountInString(text) == 1, d.Has(quoted[1:len(quoted)-1]), quoted)
	}
	assert.False(t, d.Has(`"`))
}

// TestLongStrings: with a bound that would need too many states, only shorter strings remain, but not fewer characters
// than there must be; where even these are too many, it is an error.
func TestLongStrings(t *testing.T) {
	held.Bounded(t)
	m := newMaker()
	for _, c := range []struct {
		name   string
		min, n int // of up to 2²⁰ characters
		want   bool
	}{
		{"a short one", 0, 500, true}, {"a long one", 0, 1 << 13, false}, {"fewer than the minimum", 3, 2, false},
		{"as many as a large minimum", 5000, 5000, true}, {"more than a large minimum", 5000, 5001, false},
		{"fewer than a large minimum", 5000, 4999, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := m.Strings(Strings{Length: Bounds{int32(c.min), 1 << 20}, Match: []string{"^a*$"}})
			require.NoError(t, err)
			assert.Equal(t, c.want, d.Has(`"`+strings.Repeat("a", c.n)+`"`))
		})
	}
	_, err := m.Strings(Strings{Length: Bounds{1 << 16, Unbounded}, Match: []string{"^a*$"}})
	assert.ErrorIs(t, err, ErrSize)
	assert.ErrorContains(t, err, "with lengths of up to 65536 characters")
}

// TestLookaheads: lookaheads at the beginning of a pattern are patterns of their own.
func TestLookaheads(t *testing.T) {
	for text, want := range map[string][]Pattern{
		"a":                  {{"a", false}},
		"^(?!a)b":            {{"^(?:a)", true}, {"^b", false}},
		"^(?=a)b":            {{"^(?:a)", false}, {"^b", false}},
		"^(?!a)(?=.*b)c":     {{"^(?:a)", true}, {"^(?:.*b)", false}, {"^c", false}},
		`^(?!\))[)]b`:        {{`^(?:\))`, true}, {"^[)]b", false}},
		"^(?![)](a(b)))c":    {{"^(?:[)](a(b)))", true}, {"^c", false}},
		"^(?!a|b)(c|d)":      {{"^(?:a|b)", true}, {"^(c|d)", false}},
		"^(?!a)":             {{"^(?:a)", true}, {"^", false}},
		`^(?!a)[|]\|`:        {{"^(?:a)", true}, {`^[|]\|`, false}},
		"^(?!(?:a|b)c$).{2}": {{"^(?:(?:a|b)c$)", true}, {"^.{2}", false}},
	} {
		got, err := Patterns(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"^(?!a)b|c", "^(?!a", "b(?=a)", "^(?!(?!a))b", "^(?<!a)b", "a(?!b)$", "(?!a)b"} {
		_, err := Patterns(text)
		assert.Error(t, err, text)
		_, err = newMaker().Matching(text)
		assert.Error(t, err, text)
	}
	d, err := newMaker().Matching("^(?!ab)(?=.*1)[ab]")
	require.NoError(t, err)
	for _, text := range someTexts() {
		want := !strings.HasPrefix(text, "ab") && strings.Contains(text, "1") && text[0] != '1' && text[0] != 'A'
		assert.Equal(t, want, d.Has(Quote(text)), text)
	}
}

// TestPatternsRefused: what is no regular expression of JSON schema, or not regular, is refused with its reason.
func TestPatternsRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		"a(": "this part of regular expressions is not supported", `a\b`: "is not supported",
		"a(^b|c)d": "^ and $ are supported at the ends", "a$b": "^ and $ are supported at the ends",
		"\xff":  "it is not UTF-8",
		`(a)\1`: "this part of regular expressions is not supported",
	} {
		_, err := newMaker().Matching(pattern)
		assert.ErrorContains(t, err, want, pattern)
		own := []string{"a", pattern}
		for _, s := range []Strings{{Match: own[1:]}, {Match: own}, {Not: own}} {
			s.Length, s.Except = Any(), []string{`"a"`}
			_, err := newMaker().Strings(s)
			assert.ErrorContains(t, err, want, "%+v", s)
		}
	}
	for _, part := range []string{`\A`, `\z`, `\Q`, `\E`, `\C`, `\a`, `[[:alpha:]]`, `(?i)`, `(?m)`, `(?s)`, `(?U)`,
		`(?P<a>b)`, `(?-i)`} {
		_, err := newMaker().Matching("x" + part)
		assert.ErrorContains(t, err, " is not part of the regular expressions of JSON schema", part)
	}
	_, err := newMaker().Matching(`\\A\\\\z`)
	assert.NoError(t, err, "a backslash, and then a letter")
	_, err = newMaker().Matching(`\\\A`)
	assert.Error(t, err)
}

// formatCase has strings of a format, and strings that are not.
type formatCase struct{ yes, no []string }

// stringsOfFormats returns common strings, also at the limits of their formats.
func stringsOfFormats() map[string]formatCase {
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	label := many("a", 40)
	return map[string]formatCase{
		"date": {[]string{"2024-02-29", "2000-02-29", "1999-12-31", "2023-01-31", "2023-03-31", "2023-04-30",
			"2023-05-31", "2023-06-30", "2023-07-31", "2023-08-31", "2023-09-30", "2023-10-31", "2023-11-30",
			"2023-02-28", "1000-01-01"},
			[]string{"2023-02-29", "1900-02-29", "2100-02-29", "24-01-01", "2023-04-31", "2023-06-31", "2023-09-31",
				"2023-11-31", "2023-12-32", "2023-01-00", "2023-00-01", "2023-13-01", "0999-01-01", "2023-1-01"}},
		"time": {[]string{"10:00:00Z", "23:59:59.123+05:30", "00:00:00.123456789-23:59", "19:09:09Z"},
			[]string{"10:00", "24:00:00Z", "10:60:00Z", "10:00:60Z", "10:00:00", "10:00:00+24:00", "10:00:00+05:60",
				"10:00:00.Z", "10:00:00.1234567890Z", "1:00:00Z"}},
		"date-time": {[]string{"2024-02-29T10:00:00Z"},
			[]string{"2024-02-29 10:00:00Z", "2024-02-30T10:00:00Z", "2024-02-29T25:00:00Z", "2024-02-29"}},
		"duration": {[]string{"P1Y2M3DT4H5M6S", "P3W", "PT36H", "P1M", "P1Y", "P2D", "PT1M", "PT1S", "P1DT1H", "PT1M2S",
			"P999999999D"},
			[]string{"P", "P1S", "PT", "P1Y2D", "PT1H2S", "P1W1D", "P1DT", "1Y", "P1H", "P1234567890D"}},
		"uuid": {[]string{"3F2504E0-4f89-41d3-9a0c-0305e82c3301"},
			[]string{"3F2504E04f8941d39a0c0305e82c3301", "3G2504E0-4f89-41d3-9a0c-0305e82c3301",
				"3F2504E0-4f89-41d3-9a0c-0305e82c330"}},
		"email": {[]string{"John.Doe+x@Example.com", "a.b.c@d", many("a", 62) + "@b", "o'neil_&-@x-y.de"},
			[]string{"john", "a@-b.com", "a b@c.de", "a..b@c", ".a@b", "a.@b", "@b", "a@", "a@b@c",
				many("a", 63) + "@b"}},
		"hostname": {[]string{"www.Example.com", "localhost", "a-b.c", label, label + many("."+label, 5), "ab",
			"a-1-2--c", "ab-c", "a--b"},
			[]string{"a..b", "xn--a", "b.xn--a", "x---a", "-a.com", "a-.com", label + "a", "a" + many(".b", 6), "",
				"a_b"}},
		"ipv4": {[]string{"127.0.0.1", "255.249.199.0", "10.99.100.9"},
			[]string{"256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3.260", "300.1.1.1", "1.2.3."}},
		"ipv6": {[]string{"::1", "::", "2001:db8::8a2e:370:7334", "fe80::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::",
			"1:2:3:4:5:6::8", "1:2:3:4:5::7:8", "1:2:3:4::6:7:8", "1:2:3::5:6:7:8", "1:2::4:5:6:7:8", "1::3:4:5:6:7:8",
			"::2:3:4:5:6:7:8", "ABCD::ef01"},
			[]string{"1::2::3", "12345::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", ":1", "1:", "1:2:3:4:5:6:7:8::", "g::",
				"1:2:3:4:5:6:7::8", "1:2:3:4::5:6:7:8", "::1:2:3:4:5:6:7:8"}},
		"uri": {[]string{"https://example.com:8080/a/b?c=d&e=%20#f", "mailto:a@b.de", "urn:isbn:123", "a:/",
			"http://u:p@h/"},
			[]string{"://", "example.com", "http://a b", "http://a/%zz", "http://h:12345/", "1a:b", "http:?"}},
		"uri-reference": {[]string{"a/b", "/x?y", "#z", "", "https://a.de", "//h/x", "?a"},
			[]string{"://", "a b", `\`, "a%2"}},
		"uri-template": {[]string{"https://x.org/{user}/a{?q,page}", "/a/{+b}?c={d}", ""},
			[]string{"{a", "}", "/{}", "/{a,}", "/ "}},
		"json-pointer":          {[]string{"", "/a/b~1c/0", "/", "/~0"}, []string{"a", "/~2", "/~"}},
		"relative-json-pointer": {[]string{"0#", "12/a", "0", "1"}, []string{"01/a", "/a", "", "1a", "0#/a"}},
		"regex": {[]string{`^[a-z]+\d*$`, "(a|b)+c?", `\.[^A-Z]`, "(?:ab)", ""},
			[]string{"(", "[z-a]", "*", "a**", "[", `\p`, "()"}},
	}
}

// TestCommonForms: strings of each format match its pattern, and some invalid ones do not.
func TestCommonForms(t *testing.T) {
	for format, c := range stringsOfFormats() {
		t.Run(format, func(t *testing.T) {
			pattern, known := Format(format)
			require.True(t, known)
			d, err := newMaker().Matching(pattern)
			require.NoError(t, err)
			for _, text := range c.yes {
				assert.True(t, d.Has(Quote(text)), text)
			}
			for _, text := range c.no {
				assert.False(t, d.Has(Quote(text)), text)
			}
		})
	}
	for own, same := range map[string]string{
		"idn-email": "email", "idn-hostname": "hostname", "iri": "uri", "iri-reference": "uri-reference",
	} {
		a, known := Format(own)
		b, _ := Format(same)
		assert.Equal(t, b, a, own)
		assert.True(t, known)
	}
	for _, unknown := range []string{"", "int32", "Date"} {
		_, known := Format(unknown)
		assert.False(t, known, unknown)
	}
}
