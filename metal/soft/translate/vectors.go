package translate

import (
	"strings"
)

// vectorTypes are the scalar types that have vectors of two, three and four.
const vectorTypes = " float half bfloat int uint short ushort char uchar long ulong "

// isVector reports whether a word is the name of a vector type such as float4.
func isVector(name string) bool {
	n := len(name) - 1
	return n > 0 && name[n] >= '2' && name[n] <= '4' && strings.Contains(vectorTypes, " "+name[:n]+" ")
}

// constructors turns float4(a, b) into a call of a template, because clang's vectors have no constructors, and refuses
// casts that would mean something else.
func (u *unit) constructors() {
	for i := range u.tokens {
		t := u.at(i)
		if t.kind != word || u.at(i-1).isAny(".", "->") {
			continue
		}
		named := isVector(t.text) || u.types[t.text]
		switch {
		case named && u.at(i+1).is("(") && u.constructs(i):
			u.insert(i, "msl_make<")
			u.insert(i+1, ">")
		case t.is("vec") && u.at(i+1).is("<") && u.angles(i+1) > i+1 && u.at(u.angles(i+1)).is("("):
			u.insert(i, "msl_make<")
			u.insert(u.angles(i+1), ">")
		case isVector(t.text) && u.at(i-1).is("(") && u.at(i+1).is(")") && u.operand(i+2) && !u.at(i-2).is("decltype"):
			u.fail(t.at, "cast (%s) of a vector: write %s(...)", t.text, t.text)
		case t.is("static_cast") && u.at(i+1).is("<") && isVector(u.at(i+2).text) && u.at(i+3).is(">"):
			u.fail(t.at, "static_cast to a vector: write %s(...)", u.at(i+2).text)
		}
	}
}

// constructs reports whether T( at i is an expression and not a declaration of a function or its parameter.
func (u *unit) constructs(i int) bool {
	before := u.at(i - 1)
	if before.kind == word {
		return before.isAny("return", "else", "case")
	}
	return !u.at(i+2).isAny("*", "&")
}

// operand reports whether token i can begin the operand of a cast.
func (u *unit) operand(i int) bool {
	t := u.at(i)
	return t.kind == number || t.is("(") || t.kind == word && !t.isAny("const")
}
