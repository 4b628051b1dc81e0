package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// filters reads the filters and tests after an expression.
func (p *parser) filters(e expression) expression {
	defer p.deeper()()
	for {
		inner := e
		switch {
		case p.accept("|"):
			p.deeper()
			name := p.name()
			f := filterNamed(name)
			if f == nil { // an error where it is reached, as in jinja2
				f = func(*run, value, args) value { fail("the filter %.40q is not supported", name); return nil }
			}
			given := func(*run) args { return args{} }
			if p.accept("(") {
				given = p.arguments()
			}
			e = func(r *run) value { r.spend(1); return f(r, inner(r), given(r)) }
		case p.accept("is"):
			p.deeper()
			not := p.accept("not")
			test := p.test()
			e = func(r *run) value { return test(r, inner(r)) != not }
		default:
			return e
		}
	}
}

// test reads the name of a test and its argument.
func (p *parser) test() func(r *run, v value) bool {
	name := p.name()
	if f := plainTest(name); f != nil {
		return func(r *run, v value) bool { r.spend(1); return f(v) }
	}
	op, known := testOperators[name]
	if !known {
		fail("the test %.40q is not supported", name)
	}
	arg := p.postfix(p.primary())
	return func(r *run, v value) bool { return r.compared(op, v, arg(r)) }
}

// testOperators are the operators of the tests with an argument.
var testOperators = map[string]string{
	"eq": "==", "equalto": "==", "==": "==", "ne": "!=", "!=": "!=", "lt": "<", "lessthan": "<", "<": "<", "le": "<=",
	"<=": "<=", "gt": ">", "greaterthan": ">", ">": ">", "ge": ">=", ">=": ">=", "in": "in", "sameas": "sameas",
}

// plainTest returns a test without an argument; nil if there is none of this name.
func plainTest(name string) func(v value) bool {
	switch name {
	case "defined":
		return func(v value) bool { _, un := v.(undefined); return !un }
	case "undefined":
		return func(v value) bool { _, un := v.(undefined); return un }
	case "none":
		return func(v value) bool { return v == nil }
	case "string":
		return func(v value) bool { _, ok := v.(str); return ok }
	case "mapping":
		return func(v value) bool { _, ok := v.(*dict); return ok }
	case "iterable":
		return iterable
	case "sequence":
		return iterable
	case "number":
		return isNumber
	case "boolean":
		return isBool
	case "integer":
		return func(v value) bool { return isInt(v) && !isBool(v) }
	case "float":
		return func(v value) bool { return isNumber(v) && !isInt(v) }
	case "true":
		return func(v value) bool { return v == true }
	case "false":
		return func(v value) bool { return v == false }
	case "callable":
		return func(v value) bool { _, ok := v.(function); return ok }
	case "odd":
		return func(v value) bool { return integer(v)%2 != 0 }
	case "even":
		return func(v value) bool { return integer(v)%2 == 0 }
	}
	return nil
}

func isBool(v value) bool { _, ok := v.(bool); return ok }

func iterable(v value) bool {
	switch v.(type) {
	case str, *list, *dict, undefined:
		return true
	}
	return false
}

// filter turns a value into another one.
type filter func(r *run, v value, a args) value

// textFilter returns a method of texts as a filter.
func textFilter(name string) filter {
	return func(r *run, v value, a args) value { return r.method(r.text(v), name).(function)(r, a) }
}

// filterNamed returns a filter; nil if there is none of this name.
func filterNamed(name string) filter {
	switch name {
	case "tojson":
		return tojson
	case "length":
		return length
	case "count":
		return length
	case "default":
		return otherwise
	case "d":
		return otherwise
	case "join":
		return joinFilter
	case "trim":
		return textFilter("strip")
	case "upper":
		return textFilter("upper")
	case "lower":
		return textFilter("lower")
	case "title":
		return func(r *run, v value, _ args) value { return r.mapped(r.text(v), words) }
	case "capitalize":
		return textFilter("capitalize")
	case "replace":
		return textFilter("replace")
	case "string":
		return func(r *run, v value, _ args) value { return r.text(v) }
	case "safe":
		return func(r *run, v value, _ args) value { return r.text(v) }
	case "list":
		return func(r *run, v value, _ args) value {
			all := r.items(v)
			r.spend(16 * len(all))
			return &list{items: slices.Clone(all)}
		}
	case "first":
		return func(r *run, v value, _ args) value { return r.end(v, 0) }
	case "last":
		return func(r *run, v value, _ args) value { return r.end(v, -1) }
	case "items":
		return func(r *run, v value, _ args) value {
			if d, ok := v.(*dict); ok {
				return r.pairs(d)
			}
			fail("%s has no fields", kind(v))
			return nil
		}
	case "reverse":
		return reverse
	case "int":
		return toInt
	case "map":
		return mapFilter
	case "selectattr":
		return selecting(true, true)
	case "rejectattr":
		return selecting(true, false)
	case "select":
		return selecting(false, true)
	case "reject":
		return selecting(false, false)
	}
	return nil
}

// length returns the number of characters, elements or fields.
func length(r *run, v value, _ args) value {
	switch v := v.(type) {
	case str:
		r.spend(len(v.String))
		return characters(v.String)
	case *list:
		return len(v.items)
	case *dict:
		return len(v.keys)
	case undefined:
		return 0
	}
	fail("%s has no length", kind(v))
	return nil
}

// otherwise is the filter default.
func otherwise(_ *run, v value, a args) value {
	_, missing := v.(undefined)
	if missing || truth(a.at(1, "boolean", false)) && !truth(v) {
		return a.at(0, "default_value", str{})
	}
	return v
}

func joinFilter(r *run, v value, a args) value {
	all := r.items(v)
	if path, ok := r.path(a, 1); ok {
		all = r.attributes(all, path, nil)
	}
	return r.join(all, r.text(a.at(0, "d", str{})))
}

// path returns the argument attribute of a filter: a path of fields, or the number of an element.
func (r *run) path(a args, i int) (path str, ok bool) {
	v := a.at(i, "attribute", nil)
	if v == nil {
		return path, false
	}
	return r.text(v), true
}

// attributes returns a field of each element, as [run.attribute] does.
func (r *run) attributes(all []value, path str, otherwise value) (fields []value) {
	for _, v := range all {
		r.spend(16)
		fields = append(fields, r.attribute(v, path, otherwise))
	}
	return fields
}

// attribute returns the field of a value at a path, such as function.name. Unless it is nil, otherwise takes the place
// of what is not defined.
func (r *run) attribute(v value, path str, otherwise value) value {
	r.spend(2 * len(path.String))
	for name := range strings.SplitSeq(path.String, ".") {
		if i, err := strconv.Atoi(name); err == nil {
			v = r.element(v, i)
		} else {
			v = r.element(v, literal(name))
		}
		if _, missing := v.(undefined); missing && otherwise != nil {
			v = otherwise
		}
	}
	return v
}

// end returns the first element, or with -1 the last.
func (r *run) end(v value, at int) value {
	if len(r.items(v)) == 0 {
		return undefined("element")
	}
	if d, ok := v.(*dict); ok {
		v = &list{items: r.items(d)}
	}
	return r.element(v, at)
}

func reverse(r *run, v value, _ args) value { return r.slice(v, [3]value{nil, nil, -1}) }

func toInt(r *run, v value, a args) value {
	if isNumber(v) {
		return integer(math.Trunc(number(v)))
	}
	text := r.trimmed(v)
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return integer(math.Trunc(f))
	}
	return a.at(0, "default", 0)
}

// trimmed returns the text of a value without blanks at its ends.
func (r *run) trimmed(v value) string {
	t := r.text(v)
	r.spend(len(t.String))
	return strings.TrimSpace(t.String)
}

// mapFilter applies a filter to each element, or takes a field of each.
func mapFilter(r *run, v value, a args) value {
	if path, ok := r.path(a, -1); ok {
		return &list{items: r.attributes(r.items(v), path, a.at(-1, "default", nil))}
	}
	f := filterNamed(keyOf(a.at(0, "", nil)).String)
	if f == nil {
		fail("map needs an attribute, or a filter that is supported")
	}
	l := &list{}
	for _, one := range r.items(v) {
		r.spend(16)
		l.items = append(l.items, f(r, one, args{list: a.list[1:], named: a.named}))
	}
	return l
}

// selecting returns a filter that keeps the elements for which a test holds, or does not.
func selecting(attribute, keep bool) filter {
	return func(r *run, v value, a args) value {
		rest := a.list
		var name str
		if attribute {
			name, rest = keyOf(a.at(0, "", nil)), rest[min(1, len(rest)):]
		}
		l := &list{}
		for _, one := range r.items(v) {
			r.spend(16)
			tested := one
			if attribute {
				tested = r.attribute(one, name, nil)
			}
			if r.holds(tested, rest) == keep {
				l.items = append(l.items, one)
			}
		}
		return l
	}
}

// holds reports whether the test that arguments name holds; without a test, whether the value is true.
func (r *run) holds(v value, test []value) bool {
	if len(test) == 0 {
		return truth(v)
	}
	name := keyOf(test[0]).String
	if f := plainTest(name); f != nil {
		return f(v)
	}
	op, known := testOperators[name]
	if !known || len(test) < 2 {
		fail("the test %.40q is not supported here", name)
	}
	return r.compared(op, v, test[1])
}
