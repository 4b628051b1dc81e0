package translate

import (
	"fmt"
	"slices"
	"strings"
)

// unit is a translation unit: a preprocessed source for the parser. Its methods read the tokens and record their
// results here.
type unit struct {
	text      string
	tokens    []token
	kernels   []kernel
	constants []Constant
	functions []function
	types     map[string]bool // names that may be a vector type: template parameters and aliases
	run       []edit          // edits that turn it into C++ for this machine
	strict    []edit          // edits that turn it into C++ for the strict pass
	opencl    []edit          // edits that turn it into C++ for OpenCL
	problems  []problem
}

// problem is something that Metal does not allow.
type problem struct {
	at   location
	text string
}

// function is a top-level function with a body, for the graph of calls.
type function struct {
	name     string
	at       location
	mentions map[string]bool
	computed bool // not a function, but a constant that depends on function constants
}

func (u *unit) fail(at location, format string, a ...any) {
	u.problems = append(u.problems, problem{at, fmt.Sprintf(format, a...)})
}

// at returns token i, or a token of kind none.
func (u *unit) at(i int) token {
	if i < 0 || i >= len(u.tokens) {
		end := location{"", 0}
		if n := len(u.tokens); n > 0 {
			end = u.tokens[n-1].at
		}
		return token{kind: none, start: len(u.text), end: len(u.text), at: end}
	}
	return u.tokens[i]
}

// find returns the index of a word in [i,j), outside brackets, or -1.
func (u *unit) find(text string, i, j int) int {
	for ; i < j; i++ {
		switch t := u.at(i); {
		case t.is(text):
			return i
		case t.isAny("(", "[", "{", "[["):
			i = u.matching(i) - 1
		}
	}
	return -1
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

// flat returns tokens [i,j) on one line.
func (u *unit) flat(i, j int) string {
	var words []string
	for ; i < j; i++ {
		if u.at(i).kind != directive {
			words = append(words, u.at(i).text)
		}
	}
	return strings.Join(words, " ")
}

// includes reports whether the source includes a header of Metal, according to line markers.
func (u *unit) includes(header string) bool {
	return slices.ContainsFunc(u.tokens, func(t token) bool {
		return t.kind == directive && strings.Contains(t.text, "\"stubs/"+header+"\"")
	})
}
