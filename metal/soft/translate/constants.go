package translate

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

func (u *unit) parseFunctionConstant(i, end int, index string) {
	at := u.tokenAt(i).at
	var words []string
	for j := i; j < end-1; j++ {
		if u.tokenAt(j).isText("[[") {
			j = u.skipBrackets(j) - 1
		} else {
			words = append(words, u.tokenAt(j).text)
		}
	}
	n, err := strconv.Atoi(strings.TrimRight(index, "uU"))
	if err != nil || n < 0 || n > 65535 {
		u.addProblem(at, "function_constant(%s) is not a number from 0 to 65535", index)
	}
	if len(words) != 3 || words[0] != "constant" {
		u.addProblem(at, "a function constant must be of the form constant type name [[function_constant(n)]];")
		return
	}
	c := Constant{Name: words[2], Type: words[1], Index: n}
	if !slices.Contains([]string{"bool", "int", "uint", "float", "int32_t", "uint32_t"}, c.Type) {
		u.addProblem(at, "function constant %s is %s: metal.Constant knows bool, int, uint and float", c.Name, c.Type)
	}
	for _, other := range u.constants {
		if other.Index == n {
			u.addProblem(at, "function constants %s and %s have the same index", other.Name, c.Name)
		}
	}
	u.constants = append(u.constants, c)
	u.replaceIn(&u.run, i, i+1, "MSL_FUNCTION_CONSTANT("+c.Name+")")
	u.replaceIn(&u.strict, i, i+1, "MSL_FUNCTION_CONSTANT("+c.Name+") constant")
	u.replaceIn(&u.opencl, i, end, "constant "+c.Type+" "+c.Name+" = MSL_VALUE_"+strconv.Itoa(n)+";")
}

// parseDerivedConstant reads constant T name = expression; with an expression that mentions function constants. The
// value is known only when the pipeline is made, so that the constant becomes an object that computes it.
func (u *unit) parseDerivedConstant(i, end int) {
	equals := u.findToken("=", i, end)
	if equals < 0 || u.tokenAt(equals-1).kind != word {
		return
	}
	name, depends := u.tokenAt(equals-1), false
	mentions := map[string]bool{}
	for j := equals + 1; j < end-1; j++ {
		mentions[u.tokenAt(j).text] = true
	}
	for _, c := range u.constants {
		depends = depends || mentions[c.Name]
	}
	for _, f := range u.functions {
		depends = depends || f.computed && mentions[f.name]
	}
	if !depends {
		return
	}
	u.functions = append(u.functions, function{name: name.text, at: name.at, mentions: mentions, computed: true})
	typ, value := u.joinTokens(i+1, equals-1), u.joinTokens(equals+1, end-1)
	u.replaceIn(&u.run, i, end, "static const struct { "+
		"operator "+typ+"() const { return ("+typ+")("+value+"); } } "+name.text+"{};")
}

// findConstants records which function constants each kernel mentions, directly or in functions that it calls, and
// other dependencies of constants.
func (u *unit) findConstants() {
	asked := map[string]bool{}
	for i, t := range u.tokens {
		if t.isText("is_function_constant_defined") && u.tokenAt(i+1).isText("(") {
			asked[u.tokenAt(i+2).text] = true
		}
	}
	for i := range u.constants {
		u.constants[i].Optional = asked[u.constants[i].Name]
	}
	for i := range u.kernels {
		k := &u.kernels[i]
		reached := u.reachableNames(k.function)
		for _, p := range k.Params {
			if p.If != "" {
				maps.Copy(reached, u.reachableNames(p.If))
			}
		}
		for _, c := range u.constants {
			if reached[c.Name] {
				k.Constants = append(k.Constants, c.Name)
			}
		}
	}
}

func (u *unit) reachableNames(name string) map[string]bool {
	reached := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		if reached[name] {
			return
		}
		reached[name] = true
		for _, f := range u.functions {
			if f.name == name {
				for m := range f.mentions {
					visit(m)
				}
			}
		}
	}
	visit(name)
	return reached
}
