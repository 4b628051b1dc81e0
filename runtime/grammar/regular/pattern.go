package regular

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// charNFA is a graph over characters.
type charNFA struct{ graph[charArc] }

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

func (c *charNFA) addArc(from int32, ranges []rune, to int32) int32 {
	c.states[from].arcs = append(c.states[from].arcs, charArc{ranges, to})
	return to
}

func (c *charNFA) addAnyChars(from int32) int32 {
	at := c.addState()
	c.addJump(from, at)
	return c.addArc(at, anyChar, at)
}

// foreign are parts of patterns that are not valid in regular expressions of JavaScript, or mean something else there.
var foreign = []string{`\A`, `\z`, `\Q`, `\E`, `\C`, `\a`, `[[:`, `(?i`, `(?m`, `(?s`, `(?U`, `(?P`, `(?-`}

// parsePattern parses a regular expression of JSON schema: one of JavaScript without the parts that are not regular. It
// matches anywhere in a string unless ^ and $ restrict it; these are supported at its ends or those of its
// alternatives.
func parsePattern(pattern string) (*charNFA, error) {
	for _, f := range foreign {
		if strings.Contains(strings.ReplaceAll(pattern, `\\`, ""), f) {
			return nil, fmt.Errorf("%s is not part of the regular expressions of JSON schema", f)
		}
	}
	if !utf8.ValidString(pattern) {
		return nil, errors.New("it is not UTF-8")
	}
	pattern, err := translateJSPattern(pattern)
	if err != nil {
		return nil, err
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("this part of regular expressions is not supported: %w", err)
	}
	c := &charNFA{newGraph[charArc]()}
	end, err := c.addSearch(0, re, false, false)
	if err != nil {
		return nil, err
	}
	c.markAccepting(end)
	return c, nil
}

func (c *charNFA) addSearch(from int32, re *syntax.Regexp, begins, ends bool) (int32, error) {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op == syntax.OpAlternate {
		return c.addAlternatives(from, re.Sub, func(from int32, re *syntax.Regexp) (int32, error) {
			return c.addSearch(from, re, begins, ends)
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
		return c.addSearch(from, parts[0], begins, ends)
	}
	if !begins {
		from = c.addAnyChars(from)
	}
	from, err := c.addSequence(from, parts)
	if err == nil && !ends {
		from = c.addAnyChars(from)
	}
	return from, err
}

func (c *charNFA) addAlternatives(
	from int32, parts []*syntax.Regexp, along func(int32, *syntax.Regexp) (int32, error),
) (int32, error) {
	end := c.addState()
	for _, p := range parts {
		begin := c.addState()
		c.addJump(from, begin)
		to, err := along(begin, p)
		if err != nil {
			return 0, err
		}
		c.addJump(to, end)
	}
	return end, nil
}

func (c *charNFA) addSequence(from int32, parts []*syntax.Regexp) (_ int32, err error) {
	for _, p := range parts {
		if from, err = c.addRegexp(from, p); err != nil {
			return 0, err
		}
	}
	return from, nil
}

func (c *charNFA) addRegexp(from int32, re *syntax.Regexp) (int32, error) {
	if len(c.states) > maxStates {
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
			from = c.addArc(from, ranges, c.addState())
		}
		return from, nil
	case syntax.OpCharClass:
		return c.addArc(from, re.Rune, c.addState()), nil
	case syntax.OpAnyCharNotNL:
		return c.addArc(from, notNL, c.addState()), nil
	case syntax.OpAnyChar:
		return c.addArc(from, anyChar, c.addState()), nil
	case syntax.OpCapture, syntax.OpConcat:
		return c.addSequence(from, re.Sub)
	case syntax.OpAlternate:
		return c.addAlternatives(from, re.Sub, c.addRegexp)
	case syntax.OpStar:
		return c.addRepetition(from, re.Sub, 0, -1)
	case syntax.OpPlus:
		return c.addRepetition(from, re.Sub, 1, -1)
	case syntax.OpQuest:
		return c.addRepetition(from, re.Sub, 0, 1)
	case syntax.OpRepeat:
		return c.addRepetition(from, re.Sub, re.Min, re.Max)
	case syntax.OpBeginText, syntax.OpEndText:
		return 0, errors.New("^ and $ are supported at the ends of a pattern or of its alternatives alone")
	case syntax.OpNoMatch:
		return c.addState(), nil
	}
	return 0, fmt.Errorf("%s is not supported", re)
}

// addRepetition adds paths for low to high repetitions; a negative high is any number.
func (c *charNFA) addRepetition(from int32, parts []*syntax.Regexp, low, high int) (_ int32, err error) {
	for range low {
		if from, err = c.addSequence(from, parts); err != nil {
			return 0, err
		}
	}
	if high < 0 {
		loop, end := c.addState(), c.addState()
		c.addJump(from, loop)
		c.addJump(loop, end)
		to, err := c.addSequence(loop, parts)
		if err != nil {
			return 0, err
		}
		c.addJump(to, loop)
		return end, nil
	}
	end := c.addState()
	for range high - low {
		c.addJump(from, end)
		if from, err = c.addSequence(from, parts); err != nil {
			return 0, err
		}
	}
	c.addJump(from, end)
	return end, nil
}

// maxCounted limits states times counted characters: if a bound needs more, only strings of fewer characters remain.
const maxCounted = 1 << 13

func (c *charNFA) limitLength(b Bounds) (*charNFA, error) {
	if b == Any() {
		return c, nil
	}
	top := b.Min // counted up to there
	if b.Bounded() {
		top = max(min(b.Max, max(maxCounted/int32(len(c.states)), 64)), b.Min, min(b.Max, c.shortestLength()))
	}
	if int64(len(c.states))*(int64(top)+1) > maxStates {
		return nil, fmt.Errorf("with lengths of up to %d characters %w", top, ErrSize)
	}
	out, width := &charNFA{}, int32(len(c.states))
	for n := range top + 1 {
		for _, at := range c.states {
			next := nfaState[charArc]{end: at.end && n >= b.Min}
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
			out.states = append(out.states, next)
		}
	}
	return out, nil
}

// shortestLength returns the number of characters of the shortest string; 0 if there is none.
func (c *charNFA) shortestLength() int32 {
	known := make([]bool, len(c.states))
	here := []int32{0}
	for n := int32(0); len(here) > 0; n++ {
		var next []int32
		for len(here) > 0 {
			p := here[len(here)-1]
			if here = here[:len(here)-1]; known[p] {
				continue
			}
			if known[p] = true; c.states[p].end {
				return n
			}
			here = append(here, c.states[p].jumps...)
			for _, a := range c.states[p].arcs {
				next = append(next, a.to)
			}
		}
		here = next
	}
	return 0
}

// toByteSet returns the strings in JSON's spelling, between quotes or without.
func (c *charNFA) toByteSet(m *Maker, quote string) (*Set, error) {
	a := newNFA()
	first := int32(len(a.states))
	for range c.states {
		a.addState()
	}
	a.addJump(a.addText(0, quote), first)
	end := a.addState()
	a.markAccepting(end)
	for p, at := range c.states {
		from := first + int32(p)
		for _, j := range at.jumps {
			a.addJump(from, first+j)
		}
		for _, x := range at.arcs {
			a.addRuneRanges(from, x.ranges, first+x.to)
			if len(a.states) > maxNFAStates {
				return nil, ErrSize
			}
		}
		if at.end {
			a.addJump(a.addText(from, quote), end)
		}
	}
	return a.determinize(m)
}
