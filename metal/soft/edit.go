package soft

import (
	"fmt"
)

// edit replaces text[start:end].
type edit struct {
	start, end int
	text       string
}

// at returns token i, or one of kind none.
func (u *unit) at(i int) token {
	if i < 0 || i >= len(u.tokens) {
		end := place{"", 0}
		if n := len(u.tokens); n > 0 {
			end = u.tokens[n-1].at
		}
		return token{kind: none, start: len(u.text), end: len(u.text), at: end}
	}
	return u.tokens[i]
}

func (u *unit) fail(at place, format string, a ...any) {
	u.problems = append(u.problems, problem{at, fmt.Sprintf(format, a...)})
}

// replace edits the tokens [i,j) in both versions. Line breaks stay.
func (u *unit) replace(i, j int, text string) {
	u.replaceIn(&u.run, i, j, text)
	u.replaceIn(&u.strict, i, j, text)
}

func (u *unit) replaceIn(list *[]edit, i, j int, text string) {
	if i < j {
		*list = append(*list, edit{u.at(i).start, u.at(j - 1).end, text})
	}
}

// insert puts text before token i in both versions.
func (u *unit) insert(i int, text string) {
	at := u.at(i).start
	u.run = append(u.run, edit{at, at, text})
	u.strict = append(u.strict, edit{at, at, text})
}

// matching returns the index after the bracket that closes the one at i.
func (u *unit) matching(i int) int {
	var open []string
	for ; u.at(i).kind != none; i++ {
		switch t := u.at(i); {
		case t.isAny("(", "[", "{", "[["):
			open = append(open, t.text)
		case t.isAny(")", "]", "}", "]]"):
			open = open[:len(open)-1]
			if len(open) == 0 {
				return i + 1
			}
		}
	}
	return i
}

// angles returns the index after the > that closes the < at i, or i if none does before the statement ends.
func (u *unit) angles(i int) int {
	depth := 0
	for j := i; u.at(j).kind != none; j++ {
		switch t := u.at(j); {
		case t.is("<"):
			depth++
		case t.is(">"):
			if depth--; depth == 0 {
				return j + 1
			}
		case t.isAny("(", "["):
			j = u.matching(j) - 1
		case t.isAny(";", "{", "}", ")", "]"):
			return i
		}
	}
	return i
}
