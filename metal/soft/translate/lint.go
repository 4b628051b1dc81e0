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

// lint refuses code that clang accepts and Metal does not.
func (u *unit) lint() {
	for i, t := range u.tokens {
		switch {
		case t.kind == word && banned[t.text] != "" && !u.at(i-1).isAny(".", "->"):
			u.fail(t.at, "%s", banned[t.text])
		case t.kind == word && reserved(t.text) && !strings.HasPrefix(t.text, "__METAL"):
			u.fail(t.at, "%s is a name for the compiler's own use", t.text)
		case t.is("long") && u.at(i+1).is("long"):
			u.fail(t.at, "Metal has no long long: long has 64 bits")
		case t.is("[") && u.at(i-1).isAny("=", "(", ",", "return", "{", ";", "&&", "||", "?", ":"):
			u.fail(t.at, "Metal has no lambda expressions")
		case t.kind == directive && !knownDirective(t.text):
			u.fail(t.at, "%s is not known", strings.TrimSpace(t.text))
		}
	}
	u.recursion()
	slices.SortStableFunc(u.problems, func(a, b problem) int {
		if a.at.file != b.at.file {
			return 0
		}
		return a.at.line - b.at.line
	})
}

// global refuses a variable at namespace scope, in tokens [i,end), outside constant memory.
func (u *unit) global(i, end int) {
	first := i
	for u.at(first).isAny("static", "const", "constexpr", "inline", "volatile") {
		first++
	}
	if !u.at(end-1).is(";") || u.find("constant", i, end) >= 0 ||
		u.at(first).isAny("struct", "class", "enum", "union", "using", "typedef", "template", "static_assert",
			"namespace", "kernel") {
		return
	}
	u.fail(u.at(i).at, "a variable outside functions must be constant")
}

// reserved reports whether a name is reserved for the compiler or the translation: those of clang and msl_.
func reserved(name string) bool {
	return strings.HasPrefix(name, "__") || strings.HasPrefix(name, "msl_") || strings.HasPrefix(name, "MSL_")
}

// knownDirective reports whether a line that remains after preprocessing is a line marker or a pragma of Metal.
func knownDirective(text string) bool {
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

// recursion refuses functions that call themselves, directly or indirectly: a GPU has no call stack.
func (u *unit) recursion() {
	overloads := map[string]int{}
	for _, f := range u.functions {
		overloads[f.name]++
	}
	for _, f := range u.functions {
		if overloads[f.name] > 1 {
			continue // one may call the other
		}
		for m := range f.mentions {
			if m == f.name || overloads[m] == 1 && u.reach(m)[f.name] {
				u.fail(f.at, "function %s calls itself", f.name)
				break
			}
		}
	}
}
