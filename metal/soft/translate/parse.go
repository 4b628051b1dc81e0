package translate

import (
	"slices"
)

func parseUnit(text, file string) *unit {
	u := &unit{text: text, tokens: lex(text, file), types: map[string]bool{}}
	u.parseNamespace(0)
	u.bindTemplates()
	u.rewriteConstructors()
	u.findConstants()
	u.disableUnrolling()
	if !u.includesHeader("metal_stdlib") {
		first := max(0, slices.IndexFunc(u.tokens, func(t token) bool { return t.kind != directive }))
		u.addProblem(u.tokenAt(first).at, "the source does not #include <metal_stdlib>")
	}
	if n := len(u.parameterConditions()); n > MaxConditions {
		u.addProblem(location{file, 1}, "%d constants decide whether parameters are there, more than %d",
			n, MaxConditions)
	}
	u.lint()
	return u
}

// parseNamespace reads declarations from token i to their closing }, or to the end, and returns the index after it.
func (u *unit) parseNamespace(i int) int {
	for u.tokenAt(i).kind != none {
		switch t := u.tokenAt(i); {
		case t.isText("}"):
			return i + 1
		case t.kind == directive || t.isText(";"):
			i++
		case t.isText("namespace") && u.tokenAt(i+1).kind == word && u.tokenAt(i+2).isText("{"):
			i = u.parseNamespace(i + 3)
		case t.isText("namespace") && u.tokenAt(i+1).isText("{"):
			i = u.parseNamespace(i + 2)
		default:
			i = u.parseDeclaration(i)
		}
	}
	return i
}

// declarationExtent returns the end of the declaration at i, and the beginnings of its parameters and body, or -1.
func (u *unit) declarationExtent(i int) (end, params, body int) {
	params, body = -1, -1
	assigned := false
	for ; u.tokenAt(i).kind != none; i++ {
		switch t := u.tokenAt(i); {
		case t.isText(";"):
			return i + 1, params, body
		case t.isText("="):
			assigned = true
		case t.isText("template") && u.tokenAt(i+1).isText("<"):
			i = max(u.skipAngles(i+1), i+2) - 1
		case t.isText("("):
			if params < 0 && !assigned && u.tokenAt(i-1).kind == word && !u.tokenAt(i-1).isText("decltype") {
				params = i
			}
			i = u.skipBrackets(i) - 1
		case t.isAny("[", "[["):
			i = u.skipBrackets(i) - 1
		case t.isText("{"):
			end = u.skipBrackets(i)
			if params >= 0 && !assigned {
				return end, params, i
			}
			i = end - 1
		case t.isText("}"):
			return max(i, 1), params, body
		}
	}
	return i, params, body
}

func (u *unit) parseDeclaration(i int) int {
	end, params, body := u.declarationExtent(i)
	if end <= i {
		return i + 1
	}
	instance := u.tokenAt(i).isText("template") && !u.tokenAt(i+1).isText("<")
	header := u.templateHeader(i)
	attributes := u.parseAttributes(i, params, body, end)
	kernelAt := u.findToken("kernel", i, headerEnd(params, body, end))
	switch {
	case instance:
		u.parseInstance(i, end, attributes)
	case kernelAt >= 0 && body >= 0:
		u.parseKernel(kernelAt, header, params, body, end, attributes)
		u.gatherThreadgroupMemory(i, params)
	case kernelAt >= 0:
		u.addProblem(u.tokenAt(kernelAt).at, "a kernel that is declared must have a body")
	case attributes["function_constant"] != "":
		u.parseFunctionConstant(i, end, attributes["function_constant"])
	case u.tokenAt(i).isText("constant"):
		u.parseDerivedConstant(i, end)
	case u.tokenAt(i).isAny("using", "typedef"):
		u.recordAlias(i, end)
	case body >= 0:
		u.parseHelper(params, body, end)
	case params < 0:
		u.checkGlobalVariable(i, end)
	}
	return end
}

func headerEnd(params, body, end int) int {
	switch {
	case params >= 0:
		return params
	case body >= 0:
		return body
	}
	return end
}

// parseAttributes collects and removes the attributes of a declaration outside its parameters and body.
func (u *unit) parseAttributes(i, params, body, end int) map[string]string {
	all := map[string]string{}
	if body >= 0 {
		end = body
	}
	for ; i < end; i++ {
		if i == params {
			i = u.skipBrackets(i) - 1
		} else if u.tokenAt(i).isText("[[") {
			i = u.parseAttributeList(i, all) - 1
		} else if u.tokenAt(i).isText("{") {
			i = u.skipBrackets(i) - 1
		}
	}
	for name := range all {
		if !slices.Contains([]string{"host_name", "max_total_threads_per_threadgroup", "function_constant"}, name) {
			u.addProblem(u.tokenAt(max(i-1, 0)).at, "attribute [[%s]] is not known here", name)
		}
	}
	return all
}

// parseAttributeList reads and removes the attributes [[...]] at i and returns the index after them.
func (u *unit) parseAttributeList(i int, into map[string]string) int {
	end := u.skipBrackets(i)
	for j := i + 1; j < end-1; j++ {
		t := u.tokenAt(j)
		if t.isText(",") {
			continue
		}
		if t.kind != word {
			u.addProblem(t.at, "%q in an attribute is not understood", t.text)
			break
		}
		value := ""
		if u.tokenAt(j + 1).isText("(") {
			close := u.skipBrackets(j + 1)
			for k := j + 2; k < close-1; k++ {
				value += u.tokenAt(k).text
			}
			j = close - 1
		}
		if _, twice := into[t.text]; twice {
			u.addProblem(t.at, "attribute [[%s]] stands twice", t.text)
		}
		into[t.text] = value
	}
	u.replaceTokens(i, end, "")
	return end
}

func (u *unit) parseHelper(params, body, end int) {
	u.recordFunction(u.tokenAt(params-1), body, end)
	u.checkStatements(body, end, "")
	for i, stop := params+1, u.skipBrackets(params)-1; i < stop; i++ {
		from, indirect, space := i, token{}, false
		for ; i < stop && !u.tokenAt(i).isText(","); i++ {
			switch t := u.tokenAt(i); {
			case t.isText("<"):
				i = max(u.skipAngles(i), i+1) - 1
			case t.isAny("(", "["):
				i = u.skipBrackets(i) - 1
			case t.isAny("*", "&") && indirect.kind == none:
				indirect = t
			case t.isAny("device", "constant", "threadgroup", "thread"):
				space = true
			}
		}
		if indirect.kind != none && !space {
			u.addProblem(u.tokenAt(from).at,
				"parameter %s needs an address space: thread, threadgroup, device or constant", u.joinTokens(from, i))
		}
	}
}

func (u *unit) recordFunction(name token, body, end int) {
	f := function{name: name.text, at: name.at, mentions: map[string]bool{}}
	for i := body; i < end; i++ {
		if t := u.tokenAt(i); t.kind == word && !u.tokenAt(i-1).isAny(".", "->") {
			f.mentions[t.text] = true
		}
	}
	u.functions = append(u.functions, f)
}

func (u *unit) recordAlias(i, end int) {
	name := u.tokenAt(end - 2).text
	if u.tokenAt(i).isText("using") {
		name = u.tokenAt(i + 1).text
	}
	if u.tokenAt(i + 1).isText("namespace") {
		if !u.tokenAt(i + 2).isText("metal") {
			u.addProblem(u.tokenAt(i+2).at, "namespace %s is not known", u.tokenAt(i+2).text)
		}
		return
	}
	u.types[name] = true
}
