package translate

import (
	"slices"
	"strconv"
	"strings"
)

// kernel is a Kernel with its form in the source: a function, a template, or an instance of a template.
type kernel struct {
	Kernel
	call      string // the expression that names the function
	function  string // without template arguments
	variables []variable
	generic   bool // a template, which cannot run itself
	at        location
}

// builtins are the attributes of parameters that the dispatch itself provides. Those with a number above 0 are
// positions and sizes, of up to three components: all of a kernel must have as many, those with the same number the
// same type. The others are a single number.
var builtins = map[string]int{
	"thread_position_in_grid":          1,
	"threads_per_grid":                 1,
	"thread_position_in_threadgroup":   2,
	"threads_per_threadgroup":          2,
	"dispatch_threads_per_threadgroup": 2,
	"threadgroup_position_in_grid":     3,
	"threadgroups_per_grid":            4,
	"thread_index_in_threadgroup":      0,
	"thread_index_in_simdgroup":        0,
	"simdgroup_index_in_threadgroup":   0,
	"simdgroups_per_threadgroup":       0,
	"threads_per_simdgroup":            0,
	"thread_execution_width":           0,
}

func (u *unit) parseKernel(at int, header string, params, body, end int, attributes map[string]string) {
	name := u.tokenAt(params - 1)
	if u.tokenAt(params - 1).isText("]]") {
		for params--; !u.tokenAt(params).isText("[[") && params > at; params-- {
		}
		name = u.tokenAt(params - 1)
		params = u.findToken("(", params+1, body)
	}
	if !u.tokenAt(at + 1).isText("void") {
		u.addProblem(u.tokenAt(at).at, "kernel %s must return void", name.text)
	}
	k := kernel{function: name.text, call: name.text + header, generic: header != "", at: name.at}
	k.Name = name.text
	if h := attributes["host_name"]; h != "" {
		k.Name = strings.Trim(h, `"`)
	}
	k.MaxThreads = u.parseThreadLimit(name.at, attributes)
	k.Params = u.parseParameters(params)
	u.kernels = append(u.kernels, k)
	u.recordFunction(name, body, end)
	u.checkStatements(body, end, k.call)
}

func (u *unit) parseThreadLimit(at location, attributes map[string]string) int {
	s, ok := attributes["max_total_threads_per_threadgroup"]
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimRight(s, "uU"))
	if err != nil || n < 1 || n > MaxThreads {
		u.addProblem(at, "max_total_threads_per_threadgroup(%s) is not a number from 1 to %d", s, MaxThreads)
	}
	return n
}

func (u *unit) parseParameters(i int) []Parameter {
	all := []Parameter{}
	end := u.skipBrackets(i)
	for start := i + 1; start < end-1; {
		stop := start
		for ; stop < end-1 && !u.tokenAt(stop).isText(","); stop++ {
			if e := u.skipAngles(stop); u.tokenAt(stop).isText("<") && e > stop {
				stop = e - 1
			} else if u.tokenAt(stop).isAny("(", "[", "[[", "{") {
				stop = u.skipBrackets(stop) - 1
			}
		}
		p := u.parseParameter(start, stop)
		for _, other := range all {
			if p.Space != "" && other.Kind == p.Kind && other.Index == p.Index && other.If == "" && p.If == "" {
				u.addProblem(u.tokenAt(start).at, "parameters %s and %s have the same index", other.Name, p.Name)
			}
		}
		all = append(all, p)
		start = stop + 1
	}
	return all
}

func (u *unit) parseParameter(i, j int) Parameter {
	at := u.tokenAt(i).at
	var p Parameter
	attributes := map[string]string{}
	indirect := false
	for k := i; k < j; k++ {
		switch t := u.tokenAt(k); {
		case t.isText("[["):
			k = u.parseAttributeList(k, attributes) - 1
		case t.isAny("device", "constant", "threadgroup"):
			if p.Space = t.text; t.isText("constant") {
				p.Const = true
			}
		case t.isText("const"):
			p.Const = p.Const || !indirect
		case t.isAny("*", "&"):
			indirect = true
		case t.isText("<"):
			k = max(u.skipAngles(k), k+1) - 1
		case t.kind == word:
			p.Name = t.text
		}
	}
	p.If = attributes["function_constant"]
	delete(attributes, "function_constant")
	if len(attributes) != 1 {
		u.addProblem(at, "kernel parameter %s has %d attributes instead of one, such as [[buffer(0)]]",
			p.Name, len(attributes))
		return p
	}
	for name, value := range attributes {
		p.Kind = name
		u.checkParameter(at, &p, value, indirect)
	}
	return p
}

func (u *unit) checkParameter(at location, p *Parameter, value string, indirect bool) {
	spaces := map[string][]string{"buffer": {"device", "constant"}, "threadgroup": {"threadgroup"}}[p.Kind]
	if spaces == nil {
		if _, ok := builtins[p.Kind]; !ok {
			u.addProblem(at, "attribute [[%s]] of kernel parameter %s is not known", p.Kind, p.Name)
		} else if indirect || p.Space != "" {
			u.addProblem(at, "kernel parameter %s is [[%s]] and must be a number", p.Name, p.Kind)
		}
		return
	}
	if !indirect || !slices.Contains(spaces, p.Space) {
		u.addProblem(at, "kernel parameter %s is [[%s]] and must be a pointer or reference to %s memory",
			p.Name, p.Kind, strings.Join(spaces, " or "))
	}
	n, err := strconv.Atoi(strings.TrimRight(value, "uU"))
	if err != nil || n < 0 || n >= MaxBuffers {
		u.addProblem(at, "[[%s(%s)]] of kernel parameter %s is not a number from 0 to %d",
			p.Kind, value, p.Name, MaxBuffers-1)
	}
	p.Index = n
}
