package soft

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// parameter is what a kernel wants to be given.
type parameter struct {
	Kind  string // buffer, threadgroup, or the name of a built-in such as thread_position_in_grid
	Index int    // of a buffer or of threadgroup memory
	Name  string
	Space string // device, constant or threadgroup; empty for a built-in
	Const bool   // the kernel only reads it
	If    string // the function constant that must be true for it to be there; empty means always
}

// kernelDecl is a kernel that a program can run: a function, or an instance of a template.
type kernelDecl struct {
	Name       string
	Params     []parameter
	MaxThreads int      // of [[max_total_threads_per_threadgroup]]; 0 means no limit of its own
	Constants  []string // function constants that the kernel or what it calls mentions
	call       string   // the expression that names the function
	function   string   // without template arguments
	variables  int      // of threadgroup memory
	generic    bool     // a template, which cannot run itself
	at         place
}

// constantDecl is a function constant.
type constantDecl struct {
	Name, Type string
	Index      int
	Optional   bool // the source asks is_function_constant_defined
}

// variable is a declaration of threadgroup memory inside a kernel.
type variable struct {
	typ, name, dims string
	at              place
}

// edit replaces text[start:end].
type edit struct {
	start, end int
	text       string
}

// function is a top-level function with a body, for the graph of calls.
type function struct {
	name     string
	at       place
	mentions map[string]bool
	computed bool // no function, but a constant that depends on function constants
}

// unit is a preprocessed source, taken apart.
type unit struct {
	text      string
	tokens    []token
	kernels   []kernelDecl
	constants []constantDecl
	functions []function
	types     map[string]bool // names that may be a vector type: template parameters and aliases
	run       []edit          // that make it C++ for this machine
	strict    []edit          // that make it C++ for the strict pass
	problems  []problem
}

// problem is something that Metal does not allow.
type problem struct {
	at   place
	text string
}

// parse takes preprocessed source apart. What it finds wrong is in problems.
func parse(text, file string) *unit {
	u := &unit{text: text, tokens: lex(text, file), types: map[string]bool{}}
	u.namespace(0)
	u.bindTemplates()
	u.constructors()
	u.findConstants()
	if !u.includes("metal_stdlib") {
		first := max(0, slices.IndexFunc(u.tokens, func(t token) bool { return t.kind != directive }))
		u.fail(u.at(first).at, "the source does not #include <metal_stdlib>")
	}
	if n := len(u.conditions()); n > maxConditions {
		u.fail(place{file, 1}, "%d constants decide whether parameters are there, more than %d", n, maxConditions)
	}
	u.lint()
	return u
}

// includes reports whether the source includes a header of Metal, as the line markers tell.
func (u *unit) includes(header string) bool {
	return slices.ContainsFunc(u.tokens, func(t token) bool {
		return t.kind == directive && strings.Contains(t.text, "\"stubs/"+header+"\"")
	})
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

// namespace reads declarations from token i to the } that ends them, or to the end, and returns the index after it.
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

// extent returns the end of the declaration at i, and where its parameters and body begin, or -1.
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

func bounded(params, body, end int) int {
	switch {
	case params >= 0:
		return params
	case body >= 0:
		return body
	}
	return end
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

// templateHeader returns the arguments that name the instance inside the template that begins at i, such as <T, N>. It
// notes the types among them.
func (u *unit) templateHeader(i int) string {
	if !u.at(i).is("template") || !u.at(i+1).is("<") {
		return ""
	}
	end := u.angles(i + 1)
	var names []string
	name, isType, depth, taken := "", false, 0, false
	flush := func() {
		if name != "" {
			names = append(names, name)
			if isType {
				u.types[name] = true
			}
		}
		name, isType, taken = "", false, false
	}
	for j := i + 2; j < end-1; j++ {
		switch t := u.at(j); {
		case t.isAny("<", "(", "["):
			depth++
		case t.isAny(">", ")", "]"):
			depth--
		case depth > 0:
		case t.is(","):
			flush()
		case t.is("="):
			taken = true
		case t.isAny("typename", "class"):
			isType = true
		case t.kind == word && !taken:
			name = t.text
		}
	}
	flush()
	return "<" + strings.Join(names, ", ") + ">"
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

// kernel reads the definition of a kernel.
func (u *unit) kernel(at int, header string, params, body, end int, attributes map[string]string) {
	name := u.at(params - 1)
	if u.at(params - 1).is("]]") {
		for params--; !u.at(params).is("[[") && params > at; params-- {
		}
		name = u.at(params - 1)
		params = u.find("(", params+1, body)
	}
	if !u.at(at + 1).is("void") {
		u.fail(u.at(at).at, "kernel %s must return void", name.text)
	}
	k := kernelDecl{Name: name.text, function: name.text, call: name.text + header, generic: header != "", at: name.at}
	if h := attributes["host_name"]; h != "" {
		k.Name = strings.Trim(h, `"`)
	}
	k.MaxThreads = u.limit(name.at, attributes)
	k.Params = u.parameters(params)
	u.kernels = append(u.kernels, k)
	u.function(name, body, end)
	u.body(body, end, k.call)
}

// limit reads [[max_total_threads_per_threadgroup(n)]].
func (u *unit) limit(at place, attributes map[string]string) int {
	s, ok := attributes["max_total_threads_per_threadgroup"]
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimRight(s, "uU"))
	if err != nil || n < 1 || n > maxThreads {
		u.fail(at, "max_total_threads_per_threadgroup(%s) is not a number from 1 to %d", s, maxThreads)
	}
	return n
}

// helper reads a function that is no kernel.
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
			u.fail(u.at(from).at, "parameter %s needs an address space: thread, threadgroup, device or constant", u.flat(from, i))
		}
	}
}

// function notes what a function mentions.
func (u *unit) function(name token, body, end int) {
	f := function{name: name.text, at: name.at, mentions: map[string]bool{}}
	for i := body; i < end; i++ {
		if t := u.at(i); t.kind == word && !u.at(i-1).isAny(".", "->") {
			f.mentions[t.text] = true
		}
	}
	u.functions = append(u.functions, f)
}

// alias notes the name that a using or typedef declares.
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

// instance reads template [[host_name("x")]] kernel ... f<...>(...); which names a kernel. The strict pass and the thunk
// make the instance, so that the line itself goes.
func (u *unit) instance(i, end int, attributes map[string]string) {
	at := u.at(i).at
	u.run, u.strict = cut(u.run, u.at(i).start), cut(u.strict, u.at(i).start)
	u.replace(i, end, "")
	name, ok := attributes["host_name"]
	if !ok || u.find("kernel", i, end) < 0 {
		u.fail(at, "an explicit instantiation must be of the form template [[host_name(\"name\")]] kernel ...")
		return
	}
	k := kernelDecl{Name: strings.Trim(name, `"`), at: at, MaxThreads: u.limit(at, attributes)}
	for j := i; j < end; j++ {
		if u.at(j).isAny("decltype", "(") && j > i {
			if u.at(j).is("decltype") {
				j++
			}
			j = u.matching(j) - 1
			continue
		}
		if u.at(j).is("[[") {
			j = u.matching(j) - 1
			continue
		}
		if e := u.angles(j + 1); u.at(j).kind == word && u.at(j+1).is("<") && e > j+1 {
			k.function, k.call = u.at(j).text, u.text[u.at(j).start:u.at(e-1).end]
			j = e - 1
		}
	}
	if k.call == "" {
		u.fail(at, "the template arguments of %s are not understood", k.Name)
		return
	}
	u.kernels = append(u.kernels, k)
}

// cut drops edits from start on: they lie in text that goes as a whole.
func cut(edits []edit, start int) []edit {
	return slices.DeleteFunc(edits, func(e edit) bool { return e.start >= start })
}

// functionConstant reads constant T name [[function_constant(n)]];
func (u *unit) functionConstant(i, end int, index string) {
	at := u.at(i).at
	var words []string
	for j := i; j < end-1; j++ {
		if u.at(j).is("[[") {
			j = u.matching(j) - 1
		} else {
			words = append(words, u.at(j).text)
		}
	}
	n, err := strconv.Atoi(strings.TrimRight(index, "uU"))
	if err != nil || n < 0 || n > 65535 {
		u.fail(at, "function_constant(%s) is not a number from 0 to 65535", index)
	}
	if len(words) != 3 || words[0] != "constant" {
		u.fail(at, "a function constant must be of the form constant type name [[function_constant(n)]];")
		return
	}
	c := constantDecl{Name: words[2], Type: words[1], Index: n}
	if !slices.Contains([]string{"bool", "int", "uint", "float", "int32_t", "uint32_t"}, c.Type) {
		u.fail(at, "function constant %s is %s: metal.Constant knows bool, int, uint and float", c.Name, c.Type)
	}
	for _, other := range u.constants {
		if other.Index == n {
			u.fail(at, "function constants %s and %s have the same index", other.Name, c.Name)
		}
	}
	u.constants = append(u.constants, c)
	u.replaceIn(&u.run, i, i+1, "MSL_FUNCTION_CONSTANT("+c.Name+")")
	u.replaceIn(&u.strict, i, i+1, "MSL_FUNCTION_CONSTANT("+c.Name+") constant")
}

// derived reads constant T name = expression; whose expression mentions function constants. Its value is known when the
// pipeline is made, so that it becomes an object that computes it.
func (u *unit) derived(i, end int) {
	equals := u.find("=", i, end)
	if equals < 0 || u.at(equals-1).kind != word {
		return
	}
	name, depends := u.at(equals-1), false
	mentions := map[string]bool{}
	for j := equals + 1; j < end-1; j++ {
		mentions[u.at(j).text] = true
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
	typ, value := u.flat(i+1, equals-1), u.flat(equals+1, end-1)
	u.replaceIn(&u.run, i, end, "static const struct { operator "+typ+"() const { return ("+typ+")("+value+"); } } "+name.text+"{};")
}

// bindTemplates gives each instance the parameters of its template, and drops the templates.
func (u *unit) bindTemplates() {
	var out []kernelDecl
	seen := map[string]place{}
	for _, k := range u.kernels {
		if k.generic {
			continue
		}
		if k.Params == nil && strings.Contains(k.call, "<") {
			i := slices.IndexFunc(u.kernels, func(d kernelDecl) bool { return d.generic && d.function == k.function })
			if i < 0 {
				u.fail(k.at, "there is no kernel template %s", k.function)
				continue
			}
			k.Params = u.kernels[i].Params
			if k.MaxThreads == 0 {
				k.MaxThreads = u.kernels[i].MaxThreads
			}
		}
		if first, twice := seen[k.Name]; twice {
			u.fail(k.at, "there are two kernels %s, the other is at %s", k.Name, first)
			continue
		}
		seen[k.Name] = k.at
		out = append(out, k)
	}
	u.kernels = out
}

// findConstants notes which function constants each kernel mentions, directly or through what it calls, and how else
// constants depend on them.
func (u *unit) findConstants() {
	asked := map[string]bool{}
	for i, t := range u.tokens {
		if t.is("is_function_constant_defined") && u.at(i+1).is("(") {
			asked[u.at(i+2).text] = true
		}
	}
	for i := range u.constants {
		u.constants[i].Optional = asked[u.constants[i].Name]
	}
	for i := range u.kernels {
		k := &u.kernels[i]
		reached := u.reach(k.function)
		for _, p := range k.Params {
			if p.If != "" {
				maps.Copy(reached, u.reach(p.If))
			}
		}
		for _, c := range u.constants {
			if reached[c.Name] {
				k.Constants = append(k.Constants, c.Name)
			}
		}
	}
}

// reach returns every name that a function mentions, directly or through the functions and constants among them.
func (u *unit) reach(name string) map[string]bool {
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
