package regular

import "strings"

// Pattern is a regular expression of JSON schema that strings match or, with Not, do not match.
type Pattern struct {
	Text string
	Not  bool
}

// splitLookaheads splits a pattern with lookaheads at its beginning, such as ^(?!a)(?=.*b)c: a string matches text
// exactly if it satisfies all returned patterns.
func splitLookaheads(text string) []Pattern {
	all, rest := []Pattern(nil), text
	for strings.HasPrefix(rest, "^(?!") || strings.HasPrefix(rest, "^(?=") {
		end, _ := scanGroup(rest[1:])
		if end < 0 {
			break
		}
		all = append(all, Pattern{"^(?:" + rest[4:end] + ")", rest[3] == '!'})
		rest = "^" + rest[end+1:]
	}
	if _, alternatives := scanGroup("(" + rest + ")"); alternatives {
		return []Pattern{{Text: text}} // at most the first alternative has a lookahead
	}
	return append(all, Pattern{Text: rest})
}

// Patterns returns the conditions of a pattern on strings, or an error if it is not supported.
func Patterns(text string) ([]Pattern, error) {
	parts := splitLookaheads(text)
	for _, p := range parts {
		if _, err := parsePattern(p.Text); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// scanGroup returns the end of the group at the beginning of a text, as an index of the text with one byte before it,
// or -1; and whether the group has alternatives.
func scanGroup(text string) (end int, alternatives bool) {
	depth, class := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i + 1, alternatives
			}
		case c == '|':
			alternatives = alternatives || depth == 1
		}
	}
	return -1, false
}

// Strings describes a set of strings, which satisfy all of its conditions.
type Strings struct {
	Length     Bounds   // in characters
	Match, Not []string // patterns
	Except     []string // strings in JSON's spelling
}

// Any reports whether s has no condition except a length.
func (s Strings) Any() bool { return len(s.Match)+len(s.Not)+len(s.Except) == 0 }

// Strings returns the set that s describes, in JSON's spelling.
func (m *Maker) Strings(s Strings) (*Set, error) {
	first := `^` // any
	if len(s.Match) > 0 {
		first = s.Match[0]
	}
	p, err := parsePattern(first)
	if err == nil {
		p, err = p.limitLength(s.Length)
	}
	if err != nil {
		return nil, err
	}
	d, err := p.toByteSet(m, `"`)
	for _, one := range s.Match[min(1, len(s.Match)):] {
		d, err = m.filterMatching(d, err, Pattern{one, false})
	}
	for _, one := range s.Not {
		d, err = m.filterMatching(d, err, Pattern{one, true})
	}
	if err != nil || len(s.Except) == 0 {
		return d, err
	}
	not, err := Of(s.Except)
	if err != nil {
		return nil, err
	}
	return m.Without(d, not)
}

// filterMatching returns the strings of d that satisfy a pattern, unless err is set.
func (m *Maker) filterMatching(d *Set, err error, p Pattern) (*Set, error) {
	if err != nil {
		return nil, err
	}
	matches, err := m.Matching(p.Text)
	if err != nil {
		return nil, err
	}
	return m.buildProduct(d, matches, p.Not)
}

// Matching returns the strings that match a pattern, in JSON's spelling.
func (m *Maker) Matching(text string) (d *Set, err error) {
	if d = m.matchers[text]; d != nil {
		return d, nil
	}
	parts := splitLookaheads(text)
	last := len(parts) - 1
	p, err := parsePattern(parts[last].Text)
	if err != nil {
		return nil, err
	}
	d, err = p.toByteSet(m, `"`)
	for _, part := range parts[:last] {
		d, err = m.filterMatching(d, err, part)
	}
	if err != nil {
		return nil, err
	}
	if m.matchers == nil {
		m.matchers = map[string]*Set{}
	}
	m.matchers[text] = d
	return d, nil
}

// AnyString returns all strings.
func (m *Maker) AnyString() (*Set, error) { return m.Matching("^") }

// Char returns any character, in JSON's spelling within a string.
func (m *Maker) Char() (*Set, error) {
	if m.char == nil {
		a := newNFA()
		end := a.addState()
		a.markAccepting(end)
		a.addRuneRanges(0, anyChar, end)
		d, err := a.determinize(m)
		if err != nil {
			return nil, err
		}
		m.char = d
	}
	return m.char, nil
}
