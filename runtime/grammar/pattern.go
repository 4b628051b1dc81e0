package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// chars is a regular set of strings, as a graph of places with arcs of characters. Place 0 is where strings begin.
type chars struct {
	places []charPlace
	end    []bool
}

type charPlace struct {
	arcs  []charArc
	jumps []int32
}

// charArc leads on with a character of ranges, pairs of first and last.
type charArc struct {
	ranges []rune
	to     int32
}

// Sets of characters.
var (
	anyChar = []rune{0, utf8.MaxRune}
	// what a dot of a pattern stands for: all but the ends of lines
	dot = []rune{0, '\n' - 1, '\n' + 1, '\r' - 1, '\r' + 1, '\u2027', '\u202a', utf8.MaxRune}
)

func newChars() *chars { return &chars{make([]charPlace, 1), make([]bool, 1)} }

func (c *chars) place() int32 {
	c.places, c.end = append(c.places, charPlace{}), append(c.end, false)
	return int32(len(c.places) - 1)
}

func (c *chars) jump(from, to int32) { c.places[from].jumps = append(c.places[from].jumps, to) }

// char leads on with a character.
func (c *chars) char(from int32, ranges []rune) int32 {
	to := c.place()
	c.places[from].arcs = append(c.places[from].arcs, charArc{ranges, to})
	return to
}

// any leads on with any number of any characters.
func (c *chars) any(from int32) int32 {
	at := c.place()
	c.jump(from, at)
	c.places[at].arcs = append(c.places[at].arcs, charArc{anyChar, at})
	return at
}

// foreign are parts of patterns that are no regular expressions of JavaScript, or mean something else there.
var foreign = []string{`\A`, `\z`, `\Q`, `\E`, `\C`, `\a`, `[[:`, `(?i`, `(?m`, `(?s`, `(?U`, `(?P`, `(?-`}

// parsePattern reads a regular expression of JSON schema: that of JavaScript without what is not regular. It is found
// anywhere in a string unless ^ and $ say otherwise, and these stand at the ends of it or of its alternatives alone.
func parsePattern(pattern string) (*chars, error) {
	for _, f := range foreign {
		if strings.Contains(strings.ReplaceAll(pattern, `\\`, ""), f) {
			return nil, fmt.Errorf("%s is not part of the regular expressions of JSON schema", f)
		}
	}
	if !utf8.ValidString(pattern) {
		return nil, errors.New("it is not UTF-8")
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("this part of regular expressions is not supported: %w", err)
	}
	c := newChars()
	end, err := c.search(0, re, false, false)
	if err != nil {
		return nil, err
	}
	c.end[end] = true
	return c, nil
}

// search leads along the strings in which re is found: anywhere, or where they begin, or end.
func (c *chars) search(from int32, re *syntax.Regexp, begins, ends bool) (int32, error) {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op == syntax.OpAlternate {
		return c.alternatives(from, re.Sub, func(from int32, re *syntax.Regexp) (int32, error) {
			return c.search(from, re, begins, ends)
		})
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	for len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
		begins, parts = true, parts[1:]
	}
	for n := len(parts); n > 0 && parts[n-1].Op == syntax.OpEndText; n = len(parts) {
		ends, parts = true, parts[:n-1]
	}
	if len(parts) == 1 && (parts[0].Op == syntax.OpAlternate || parts[0].Op == syntax.OpCapture) {
		return c.search(from, parts[0], begins, ends)
	}
	if !begins {
		from = c.any(from)
	}
	var err error
	for _, p := range parts {
		if from, err = c.match(from, p); err != nil {
			return 0, err
		}
	}
	if !ends {
		from = c.any(from)
	}
	return from, nil
}

// alternatives leads along the strings of any of some parts.
func (c *chars) alternatives(
	from int32, parts []*syntax.Regexp, along func(int32, *syntax.Regexp) (int32, error),
) (int32, error) {
	end := c.place()
	for _, p := range parts {
		begin := c.place()
		c.jump(from, begin)
		to, err := along(begin, p)
		if err != nil {
			return 0, err
		}
		c.jump(to, end)
	}
	return end, nil
}

// match leads along the strings that re is.
func (c *chars) match(from int32, re *syntax.Regexp) (int32, error) {
	if len(c.places) > maxRegular {
		return 0, errSize
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return from, nil
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			ranges := []rune{r, r}
			if re.Flags&syntax.FoldCase != 0 { // such as [aA]
				for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
					ranges = append(ranges, other, other)
				}
			}
			from = c.char(from, ranges)
		}
		return from, nil
	case syntax.OpCharClass:
		return c.char(from, re.Rune), nil
	case syntax.OpAnyCharNotNL:
		return c.char(from, dot), nil
	case syntax.OpAnyChar:
		return c.char(from, anyChar), nil
	case syntax.OpCapture:
		return c.match(from, re.Sub[0])
	case syntax.OpConcat:
		var err error
		for _, p := range re.Sub {
			if from, err = c.match(from, p); err != nil {
				return 0, err
			}
		}
		return from, nil
	case syntax.OpAlternate:
		return c.alternatives(from, re.Sub, c.match)
	case syntax.OpStar:
		return c.repeat(from, re.Sub[0], 0, -1)
	case syntax.OpPlus:
		return c.repeat(from, re.Sub[0], 1, -1)
	case syntax.OpQuest:
		return c.repeat(from, re.Sub[0], 0, 1)
	case syntax.OpRepeat:
		return c.repeat(from, re.Sub[0], re.Min, re.Max)
	case syntax.OpBeginText, syntax.OpEndText:
		return 0, errors.New("^ and $ are supported at the ends of a pattern or of its alternatives alone")
	case syntax.OpNoMatch:
		return c.place(), nil
	}
	return 0, fmt.Errorf("%s is not supported", re)
}

// repeat leads along least to most times re; a negative most is any number.
func (c *chars) repeat(from int32, re *syntax.Regexp, least, most int) (_ int32, err error) {
	for range least {
		if from, err = c.match(from, re); err != nil {
			return 0, err
		}
	}
	if most < 0 {
		loop, end := c.place(), c.place()
		c.jump(from, loop)
		c.jump(loop, end)
		to, err := c.match(loop, re)
		if err != nil {
			return 0, err
		}
		c.jump(to, loop)
		return end, nil
	}
	end := c.place()
	for range most - least {
		c.jump(from, end)
		if from, err = c.match(from, re); err != nil {
			return 0, err
		}
	}
	c.jump(from, end)
	return end, nil
}

// maxCounted is how many places, times characters that are counted, are enough: where a bound takes more, strings up
// to fewer characters are left.
const maxCounted = 1 << 13

// bound leaves of the strings those with as many characters as b says.
func (c *chars) bound(b bounds) (*chars, error) {
	if b.least == 0 && b.most == unbounded {
		return c, nil
	}
	top := b.least // counted up to there
	if b.most != unbounded {
		top = max(min(b.most, max(maxCounted/int32(len(c.places)), 64)), b.least)
		b.most = top
	}
	if int64(len(c.places))*(int64(top)+1) > maxRegular {
		return nil, fmt.Errorf("with lengths of up to %d characters %w", top, errSize)
	}
	out := &chars{}
	width := int32(len(c.places))
	for n := range top + 1 {
		for p, at := range c.places {
			next := charPlace{jumps: slices.Clone(at.jumps)}
			for i := range next.jumps {
				next.jumps[i] += n * width
			}
			for _, a := range at.arcs {
				switch {
				case n < top:
					next.arcs = append(next.arcs, charArc{a.ranges, (n+1)*width + a.to})
				case b.most == unbounded:
					next.arcs = append(next.arcs, charArc{a.ranges, n*width + a.to})
				}
			}
			out.places, out.end = append(out.places, next), append(out.end, c.end[p] && n >= b.least)
		}
	}
	return out, nil
}

// quoted returns the strings as JSON spells them.
func (c *chars) quoted(e *effort) (*dfa, error) { return c.bytes(e, `"`) }

// bytes returns the strings with their characters as JSON spells them, between quotes or none.
func (c *chars) bytes(e *effort, quote string) (*dfa, error) {
	a := newNFA()
	first := int32(len(a.places))
	for range c.places {
		a.place()
	}
	a.jump(a.text(0, quote), first)
	end := a.place()
	a.end[end] = true
	for p, at := range c.places {
		from := first + int32(p)
		for _, j := range at.jumps {
			a.jump(from, first+j)
		}
		for _, x := range at.arcs {
			a.chars(from, x.ranges, first+x.to)
			if len(a.places) > maxPlaces {
				return nil, errSize
			}
		}
		if c.end[p] {
			a.jump(a.text(from, quote), end)
		}
	}
	return a.determine(e)
}
