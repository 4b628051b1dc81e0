package regular

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// chars is a graph over characters.
type chars struct{ graph[charArc] }

// charArc is a transition with a character of ranges, pairs of first and last.
type charArc struct {
	ranges []rune
	to     int32
}

// Sets of characters.
var (
	anyChar = []rune{0, utf8.MaxRune}
	notNL   = []rune{0, '\n' - 1, '\n' + 1, utf8.MaxRune}
)

func (c *chars) arc(from int32, ranges []rune, to int32) int32 {
	c.places[from].arcs = append(c.places[from].arcs, charArc{ranges, to})
	return to
}

func (c *chars) any(from int32) int32 {
	at := c.place()
	c.jump(from, at)
	return c.arc(at, anyChar, at)
}

// foreign are parts of patterns that are not valid in regular expressions of JavaScript, or mean something else there.
var foreign = []string{`\A`, `\z`, `\Q`, `\E`, `\C`, `\a`, `[[:`, `(?i`, `(?m`, `(?s`, `(?U`, `(?P`, `(?-`}

// parsePattern parses a regular expression of JSON schema: one of JavaScript without the parts that are not regular. It
// matches anywhere in a string unless ^ and $ restrict it; these are supported at its ends or those of its
// alternatives.
func parsePattern(pattern string) (*chars, error) {
	for _, f := range foreign {
		if strings.Contains(strings.ReplaceAll(pattern, `\\`, ""), f) {
			return nil, fmt.Errorf("%s is not part of the regular expressions of JSON schema", f)
		}
	}
	if !utf8.ValidString(pattern) {
		return nil, errors.New("it is not UTF-8")
	}
	pattern, err := translated(pattern)
	if err != nil {
		return nil, err
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("this part of regular expressions is not supported: %w", err)
	}
	c := &chars{newGraph[charArc]()}
	end, err := c.search(0, re, false, false)
	if err != nil {
		return nil, err
	}
	c.ends(end)
	return c, nil
}

// search adds paths for the strings in which re is found: anywhere, or at the beginning, or at the end.
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
	from, err := c.all(from, parts)
	if err == nil && !ends {
		from = c.any(from)
	}
	return from, err
}

// alternatives adds paths for the strings of any of some parts.
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

func (c *chars) all(from int32, parts []*syntax.Regexp) (_ int32, err error) {
	for _, p := range parts {
		if from, err = c.match(from, p); err != nil {
			return 0, err
		}
	}
	return from, nil
}

func (c *chars) match(from int32, re *syntax.Regexp) (int32, error) {
	if len(c.places) > maxStates {
		return 0, ErrSize
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
			from = c.arc(from, ranges, c.place())
		}
		return from, nil
	case syntax.OpCharClass:
		return c.arc(from, re.Rune, c.place()), nil
	case syntax.OpAnyCharNotNL:
		return c.arc(from, notNL, c.place()), nil
	case syntax.OpAnyChar:
		return c.arc(from, anyChar, c.place()), nil
	case syntax.OpCapture, syntax.OpConcat:
		return c.all(from, re.Sub)
	case syntax.OpAlternate:
		return c.alternatives(from, re.Sub, c.match)
	case syntax.OpStar:
		return c.repeat(from, re.Sub, 0, -1)
	case syntax.OpPlus:
		return c.repeat(from, re.Sub, 1, -1)
	case syntax.OpQuest:
		return c.repeat(from, re.Sub, 0, 1)
	case syntax.OpRepeat:
		return c.repeat(from, re.Sub, re.Min, re.Max)
	case syntax.OpBeginText, syntax.OpEndText:
		return 0, errors.New("^ and $ are supported at the ends of a pattern or of its alternatives alone")
	case syntax.OpNoMatch:
		return c.place(), nil
	}
	return 0, fmt.Errorf("%s is not supported", re)
}

// repeat adds paths for low to high repetitions of some parts; a negative high is any number.
func (c *chars) repeat(from int32, parts []*syntax.Regexp, low, high int) (_ int32, err error) {
	for range low {
		if from, err = c.all(from, parts); err != nil {
			return 0, err
		}
	}
	if high < 0 {
		loop, end := c.place(), c.place()
		c.jump(from, loop)
		c.jump(loop, end)
		to, err := c.all(loop, parts)
		if err != nil {
			return 0, err
		}
		c.jump(to, loop)
		return end, nil
	}
	end := c.place()
	for range high - low {
		c.jump(from, end)
		if from, err = c.all(from, parts); err != nil {
			return 0, err
		}
	}
	c.jump(from, end)
	return end, nil
}

// maxCounted limits places times counted characters: if a bound needs more, only strings of fewer characters remain.
const maxCounted = 1 << 13

// bound returns the strings with a number of characters within b.
func (c *chars) bound(b Bounds) (*chars, error) {
	if b == Any() {
		return c, nil
	}
	top := b.Min // counted up to there
	if b.Bounded() {
		top = max(min(b.Max, max(maxCounted/int32(len(c.places)), 64)), b.Min, min(b.Max, c.shortest()))
	}
	if int64(len(c.places))*(int64(top)+1) > maxStates {
		return nil, fmt.Errorf("with lengths of up to %d characters %w", top, ErrSize)
	}
	out, width := &chars{}, int32(len(c.places))
	for n := range top + 1 {
		for _, at := range c.places {
			next := place[charArc]{end: at.end && n >= b.Min}
			for _, j := range at.jumps {
				next.jumps = append(next.jumps, n*width+j)
			}
			for _, a := range at.arcs {
				if n < top {
					next.arcs = append(next.arcs, charArc{a.ranges, (n+1)*width + a.to})
				} else if !b.Bounded() {
					next.arcs = append(next.arcs, charArc{a.ranges, n*width + a.to})
				}
			}
			out.places = append(out.places, next)
		}
	}
	return out, nil
}

// shortest returns the number of characters of the shortest string; 0 if there is none.
func (c *chars) shortest() int32 {
	known := make([]bool, len(c.places))
	here := []int32{0}
	for n := int32(0); len(here) > 0; n++ {
		var next []int32
		for len(here) > 0 {
			p := here[len(here)-1]
			if here = here[:len(here)-1]; known[p] {
				continue
			}
			if known[p] = true; c.places[p].end {
				return n
			}
			here = append(here, c.places[p].jumps...)
			for _, a := range c.places[p].arcs {
				next = append(next, a.to)
			}
		}
		here = next
	}
	return 0
}

// bytes returns the strings with their characters in JSON's spelling, between quotes or without.
func (c *chars) bytes(m *Maker, quote string) (*Set, error) {
	a := newNFA()
	first := int32(len(a.places))
	for range c.places {
		a.place()
	}
	a.jump(a.text(0, quote), first)
	end := a.place()
	a.ends(end)
	for p, at := range c.places {
		from := first + int32(p)
		for _, j := range at.jumps {
			a.jump(from, first+j)
		}
		for _, x := range at.arcs {
			a.chars(from, x.ranges, first+x.to)
			if len(a.places) > maxPlaces {
				return nil, ErrSize
			}
		}
		if at.end {
			a.jump(a.text(from, quote), end)
		}
	}
	return a.determine(m)
}
