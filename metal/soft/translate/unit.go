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

func (u *unit) addProblem(at location, format string, a ...any) {
	u.problems = append(u.problems, problem{at, fmt.Sprintf(format, a...)})
}

// tokenAt returns token i, or a token of kind none.
func (u *unit) tokenAt(i int) token {
	if i < 0 || i >= len(u.tokens) {
		end := location{"", 0}
		if n := len(u.tokens); n > 0 {
			end = u.tokens[n-1].at
		}
		return token{kind: none, start: len(u.text), end: len(u.text), at: end}
	}
	return u.tokens[i]
}

// findToken returns the index of a word in [i,j), outside brackets, or -1.
func (u *unit) findToken(text string, i, j int) int {
	for ; i < j; i++ {
		switch t := u.tokenAt(i); {
		case t.isText(text):
			return i
		case t.isAny("(", "[", "{", "[["):
			i = u.skipBrackets(i) - 1
		}
	}
	return -1
}

// skipBrackets returns the index after the bracket that closes the one at i.
func (u *unit) skipBrackets(i int) int {
	var open []string
	for ; u.tokenAt(i).kind != none; i++ {
		switch t := u.tokenAt(i); {
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

// skipAngles returns the index after the > that closes the < at i, or i if none does before the statement ends.
func (u *unit) skipAngles(i int) int {
	depth := 0
	for j := i; u.tokenAt(j).kind != none; j++ {
		switch t := u.tokenAt(j); {
		case t.isText("<"):
			depth++
		case t.isText(">"):
			if depth--; depth == 0 {
				return j + 1
			}
		case t.isAny("(", "["):
			j = u.skipBrackets(j) - 1
		case t.isAny(";", "{", "}", ")", "]"):
			return i
		}
	}
	return i
}

func (u *unit) joinTokens(i, j int) string {
	var words []string
	for ; i < j; i++ {
		if u.tokenAt(i).kind != directive {
			words = append(words, u.tokenAt(i).text)
		}
	}
	return strings.Join(words, " ")
}

func (u *unit) includesHeader(header string) bool {
	return slices.ContainsFunc(u.tokens, func(t token) bool {
		return t.kind == directive && strings.Contains(t.text, "\"stubs/"+header+"\"")
	})
}
