package translate

import (
	"slices"
	"strings"
)

// banned are words of C++ that Metal does not have.
var banned = map[string]string{
	"double": "Metal has no double", "goto": "Metal has no goto",
	"new": "Metal has no new", "delete": "Metal has no delete",
	"virtual": "Metal has no virtual functions", "thread_local": "Metal has no thread_local", "asm": "Metal has no asm",
	"noexcept": "Metal has no exceptions", "register": "Metal has no register",
	"__attribute__": "write attributes as [[...]]",
}

func (u *unit) lint() {
	for i, t := range u.tokens {
		switch {
		case t.kind == word && banned[t.text] != "" && !u.tokenAt(i-1).isAny(".", "->"):
			u.addProblem(t.at, "%s", banned[t.text])
		case t.kind == word && isReservedName(t.text) && !strings.HasPrefix(t.text, "__METAL"):
			u.addProblem(t.at, "%s is a name for the compiler's own use", t.text)
		case t.isText("long") && u.tokenAt(i+1).isText("long"):
			u.addProblem(t.at, "Metal has no long long: long has 64 bits")
		case t.isText("[") && u.tokenAt(i-1).isAny("=", "(", ",", "return", "{", ";", "&&", "||", "?", ":"):
			u.addProblem(t.at, "Metal has no lambda expressions")
		case t.kind == directive && !isKnownDirective(t.text):
			u.addProblem(t.at, "%s is not known", strings.TrimSpace(t.text))
		}
	}
	u.checkRecursion()
	slices.SortStableFunc(u.problems, func(a, b problem) int {
		if a.at.file != b.at.file {
			return 0
		}
		return a.at.line - b.at.line
	})
}

// checkGlobalVariable refuses a variable at namespace scope, in tokens [i,end), outside constant memory.
func (u *unit) checkGlobalVariable(i, end int) {
	first := i
	for u.tokenAt(first).isAny("static", "const", "constexpr", "inline", "volatile") {
		first++
	}
	if !u.tokenAt(end-1).isText(";") || u.findToken("constant", i, end) >= 0 ||
		u.tokenAt(first).isAny("struct", "class", "enum", "union", "using", "typedef", "template", "static_assert",
			"namespace", "kernel") {
		return
	}
	u.addProblem(u.tokenAt(i).at, "a variable outside functions must be constant")
}

func isReservedName(name string) bool {
	return strings.HasPrefix(name, "__") || strings.HasPrefix(name, "msl_") || strings.HasPrefix(name, "MSL_")
}

func isKnownDirective(text string) bool {
	text = strings.TrimSpace(strings.TrimPrefix(text, "#"))
	pragma, ok := strings.CutPrefix(text, "pragma")
	if !ok {
		return text == "" || isDigit(text[0]) || strings.HasPrefix(text, "line")
	}
	fields := strings.Fields(strings.ReplaceAll(pragma, "(", " "))
	if len(fields) == 0 {
		return false
	}
	return slices.Contains([]string{"unroll", "nounroll"}, fields[0]) ||
		strings.Join(fields, "") == "METALfpcontractoff)" || // as all code is compiled
		len(fields) > 1 && fields[0] == "clang" && fields[1] == "loop"
}

// checkRecursion refuses functions that call themselves, directly or indirectly: a GPU has no call stack.
func (u *unit) checkRecursion() {
	overloads := map[string]int{}
	for _, f := range u.functions {
		overloads[f.name]++
	}
	for _, f := range u.functions {
		if overloads[f.name] > 1 {
			continue // one may call the other
		}
		for m := range f.mentions {
			if m == f.name || overloads[m] == 1 && u.reachableNames(m)[f.name] {
				u.addProblem(f.at, "function %s calls itself", f.name)
				break
			}
		}
	}
}
