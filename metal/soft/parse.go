package soft

import (
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
