package translate

import (
	"strings"
)

// vectorTypes are the scalar types that have vectors of two, three and four.
const vectorTypes = " float half bfloat int uint short ushort char uchar long ulong "

func isVector(name string) bool {
	n := len(name) - 1
	return n > 0 && name[n] >= '2' && name[n] <= '4' && strings.Contains(vectorTypes, " "+name[:n]+" ")
}

// rewriteConstructors turns float4(a, b) into a call of a template, because clang's vectors have no constructors, and
// refuses casts that would mean something else.
func (u *unit) rewriteConstructors() {
	for i := range u.tokens {
		t := u.tokenAt(i)
		if t.kind != word || u.tokenAt(i-1).isAny(".", "->") {
			continue
		}
		named := isVector(t.text) || u.types[t.text]
		switch {
		case named && u.tokenAt(i+1).isText("(") && u.isConstructorCall(i):
			u.insertText(i, "msl_make<")
			u.insertText(i+1, ">")
		case t.isText("vec") && u.tokenAt(i+1).isText("<") && u.skipAngles(i+1) > i+1 &&
			u.tokenAt(u.skipAngles(i+1)).isText("("):
			u.insertText(i, "msl_make<")
			u.insertText(u.skipAngles(i+1), ">")
		case isVector(t.text) && u.tokenAt(i-1).isText("(") && u.tokenAt(i+1).isText(")") && u.beginsOperand(i+2) &&
			!u.tokenAt(i-2).isText("decltype"):
			u.addProblem(t.at, "cast (%s) of a vector: write %s(...)", t.text, t.text)
		case t.isText("static_cast") && u.tokenAt(i+1).isText("<") && isVector(u.tokenAt(i+2).text) &&
			u.tokenAt(i+3).isText(">"):
			u.addProblem(t.at, "static_cast to a vector: write %s(...)", u.tokenAt(i+2).text)
		}
	}
}

// isConstructorCall reports whether T( at i is an expression and not a declaration of a function or its parameter.
func (u *unit) isConstructorCall(i int) bool {
	before := u.tokenAt(i - 1)
	if before.kind == word {
		return before.isAny("return", "else", "case")
	}
	return !u.tokenAt(i+2).isAny("*", "&")
}

func (u *unit) beginsOperand(i int) bool {
	t := u.tokenAt(i)
	return t.kind == number || t.isText("(") || t.kind == word && !t.isAny("const")
}
