package translate

import (
	"slices"
)

// parse parses preprocessed source. Errors are in problems.
func parse(text, file string) *unit {
	u := &unit{text: text, tokens: lex(text, file), types: map[string]bool{}}
	u.namespace(0)
	u.bindTemplates()
	u.constructors()
	u.findConstants()
	u.keepLoops()
	if !u.includes("metal_stdlib") {
		first := max(0, slices.IndexFunc(u.tokens, func(t token) bool { return t.kind != directive }))
		u.fail(u.at(first).at, "the source does not #include <metal_stdlib>")
	}
	if n := len(u.conditions()); n > MaxConditions {
		u.fail(location{file, 1}, "%d constants decide whether parameters are there, more than %d", n, MaxConditions)
	}
	u.lint()
	return u
}

// namespace reads declarations from token i to their closing }, or to the end, and returns the index after it.
func (u *unit) namespace(i int) int {
	for u.at(i).kind != none {
		switch t := u.at(i); {
		case t.is("}"):
			return i + 1
		case t.kind == directive || t.is(";"):
			i++
		case t.is("namespace") && u.at(i+1).kind == word && u.at(i+2).is("{"):
			i = u.namespace(i + 3)
		case t.is("namespace") && u.at(i+1).is("{"):
			i = u.namespace(i + 2)
		default:
			i = u.declaration(i)
		}
	}
	return i
}

// extent returns the end of the declaration at i, and the beginnings of its parameters and body, or -1.
func (u *unit) extent(i int) (end, params, body int) {
	params, body = -1, -1
	assigned := false
	for ; u.at(i).kind != none; i++ {
		switch t := u.at(i); {
		case t.is(";"):
			return i + 1, params, body
		case t.is("="):
			assigned = true
		case t.is("template") && u.at(i+1).is("<"):
			i = max(u.angles(i+1), i+2) - 1
		case t.is("("):
			if params < 0 && !assigned && u.at(i-1).kind == word && !u.at(i-1).is("decltype") {
				params = i
			}
			i = u.matching(i) - 1
		case t.isAny("[", "[["):
			i = u.matching(i) - 1
		case t.is("{"):
			end = u.matching(i)
			if params >= 0 && !assigned {
				return end, params, i
			}
			i = end - 1
		case t.is("}"):
			return max(i, 1), params, body
		}
	}
	return i, params, body
}

// declaration reads one declaration at namespace scope and returns the index after it.
func (u *unit) declaration(i int) int {
	end, params, body := u.extent(i)
	if end <= i {
		return i + 1
	}
	instance := u.at(i).is("template") && !u.at(i+1).is("<")
	header := u.templateHeader(i)
	attributes := u.attributes(i, params, body, end)
	kernelAt := u.find("kernel", i, bounded(params, body, end))
	switch {
	case instance:
		u.instance(i, end, attributes)
	case kernelAt >= 0 && body >= 0:
		u.kernel(kernelAt, header, params, body, end, attributes)
		u.gather(i, params)
	case kernelAt >= 0:
		u.fail(u.at(kernelAt).at, "a kernel that is declared must have a body")
	case attributes["function_constant"] != "":
		u.functionConstant(i, end, attributes["function_constant"])
	case u.at(i).is("constant"):
		u.derived(i, end)
	case u.at(i).isAny("using", "typedef"):
		u.alias(i, end)
	case body >= 0:
		u.helper(params, body, end)
	case params < 0:
		u.global(i, end)
	}
	return end
}

// bounded returns the end of the part of a declaration before its parameters and its body.
func bounded(params, body, end int) int {
	switch {
	case params >= 0:
		return params
	case body >= 0:
		return body
	}
	return end
}

// attributes collects and removes the attributes of a declaration outside its parameters and body.
func (u *unit) attributes(i, params, body, end int) map[string]string {
	all := map[string]string{}
	if body >= 0 {
		end = body
	}
	for ; i < end; i++ {
		if i == params {
			i = u.matching(i) - 1
		} else if u.at(i).is("[[") {
			i = u.attribute(i, all) - 1
		} else if u.at(i).is("{") {
			i = u.matching(i) - 1
		}
	}
	for name := range all {
		if !slices.Contains([]string{"host_name", "max_total_threads_per_threadgroup", "function_constant"}, name) {
			u.fail(u.at(max(i-1, 0)).at, "attribute [[%s]] is not known here", name)
		}
	}
	return all
}

// attribute reads and removes the attributes [[...]] at i and returns the index after them.
func (u *unit) attribute(i int, into map[string]string) int {
	end := u.matching(i)
	for j := i + 1; j < end-1; j++ {
		t := u.at(j)
		if t.is(",") {
			continue
		}
		if t.kind != word {
			u.fail(t.at, "%q in an attribute is not understood", t.text)
			break
		}
		value := ""
		if u.at(j + 1).is("(") {
			close := u.matching(j + 1)
			for k := j + 2; k < close-1; k++ {
				value += u.at(k).text
			}
			j = close - 1
		}
		if _, twice := into[t.text]; twice {
			u.fail(t.at, "attribute [[%s]] stands twice", t.text)
		}
		into[t.text] = value
	}
	u.replace(i, end, "")
	return end
}

func (u *unit) helper(params, body, end int) {
	u.function(u.at(params-1), body, end)
	u.body(body, end, "")
	for i, stop := params+1, u.matching(params)-1; i < stop; i++ {
		from, indirect, space := i, token{}, false
		for ; i < stop && !u.at(i).is(","); i++ {
			switch t := u.at(i); {
			case t.is("<"):
				i = max(u.angles(i), i+1) - 1
			case t.isAny("(", "["):
				i = u.matching(i) - 1
			case t.isAny("*", "&") && indirect.kind == none:
				indirect = t
			case t.isAny("device", "constant", "threadgroup", "thread"):
				space = true
			}
		}
		if indirect.kind != none && !space {
			u.fail(u.at(from).at, "parameter %s needs an address space: thread, threadgroup, device or constant",
				u.flat(from, i))
		}
	}
}

func (u *unit) function(name token, body, end int) {
	f := function{name: name.text, at: name.at, mentions: map[string]bool{}}
	for i := body; i < end; i++ {
		if t := u.at(i); t.kind == word && !u.at(i-1).isAny(".", "->") {
			f.mentions[t.text] = true
		}
	}
	u.functions = append(u.functions, f)
}

// alias records the name that a using or typedef declares.
func (u *unit) alias(i, end int) {
	name := u.at(end - 2).text
	if u.at(i).is("using") {
		name = u.at(i + 1).text
	}
	if u.at(i + 1).is("namespace") {
		if !u.at(i + 2).is("metal") {
			u.fail(u.at(i+2).at, "namespace %s is not known", u.at(i+2).text)
		}
		return
	}
	u.types[name] = true
}
