package jinja

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

func (p *parser) filters(e expression) expression {
	defer p.deeper()()
	for {
		inner := e
		switch {
		case p.accept("|"):
			p.deeper()
			e = p.filter(inner)
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

// filter reads the name of a filter and its arguments.
func (p *parser) filter(inner expression) expression {
	name := p.name()
	f := filters()[name]
	switch {
	case name == "map":
		f = mapFilter
	case f == nil: // an error where it is reached, as in jinja2
		f = func(*run, value, args) value { fail("the filter %.40q is not supported", name); return nil }
	}
	given := func(*run) args { return args{} }
	if p.accept("(") {
		given = p.arguments()
	}
	return func(r *run) value { r.spend(1); v := inner(r); return f(r, v, given(r)) }
}

// test reads the name of a test and its argument.
func (p *parser) test() func(r *run, v value) bool {
	name := p.name()
	if f := plainTests()[name]; f != nil {
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
	"divisibleby": "divisibleby",
}

// plainTests are the tests without an argument, by name.
var plainTests = sync.OnceValue(func() map[string]func(v value) bool {
	return map[string]func(v value) bool{
		"defined":   func(v value) bool { _, un := v.(undefined); return !un },
		"undefined": func(v value) bool { _, un := v.(undefined); return un },
		"none":      func(v value) bool { return v == nil },
		"string":    func(v value) bool { _, ok := v.(str); return ok },
		"mapping":   func(v value) bool { _, ok := v.(*dict); return ok },
		"iterable":  iterable,
		"sequence":  sequence,
		"number":    isNumber,
		"boolean":   isBool,
		"integer":   func(v value) bool { return isInt(v) && !isBool(v) },
		"float":     func(v value) bool { return isNumber(v) && !isInt(v) },
		"true":      func(v value) bool { return v == true },
		"false":     func(v value) bool { return v == false },
		"callable": func(v value) bool {
			_, ok := v.(function)
			_, missing := v.(undefined) // which fails when it is called
			return ok || missing
		},
		"odd":   func(v value) bool { return math.Abs(math.Mod(number(v), 2)) == 1 },
		"even":  func(v value) bool { return math.Mod(number(v), 2) == 0 },
		"lower": func(v value) bool { return cased(v, unicode.IsLower, unicode.IsUpper) },
		"upper": func(v value) bool { return cased(v, unicode.IsUpper, unicode.IsLower) },
	}
})

func isBool(v value) bool { _, ok := v.(bool); return ok }

func iterable(v value) bool {
	switch v.(type) {
	case str, *list, *lazy, *dict, undefined:
		return true
	}
	return false
}

func sequence(v value) bool { return iterable(v) && (indexed(v) || kind(v) != "a list") }

// filter turns a value into another one.
type filter func(r *run, v value, a args) value

func textFilter(name string) filter {
	return func(r *run, v value, a args) value { return r.method(r.text(v), name).(function)(r, a) }
}

// filters are the filters by name, except map, which looks up others.
var filters = sync.OnceValue(func() map[string]filter {
	return map[string]filter{
		"tojson":     tojson,
		"length":     length,
		"count":      length,
		"default":    otherwise,
		"d":          otherwise,
		"join":       joinFilter,
		"trim":       textFilter("strip"),
		"upper":      textFilter("upper"),
		"lower":      textFilter("lower"),
		"title":      func(r *run, v value, _ args) value { return r.mapped(r.text(v), words) },
		"capitalize": textFilter("capitalize"),
		"replace":    textFilter("replace"),
		"string":     func(r *run, v value, _ args) value { return r.text(v) },
		"format":     func(r *run, v value, a args) value { return r.percent(r.text(v), a.all()) },
		"center":     textFilter("center"),
		"safe":       func(r *run, v value, _ args) value { t := r.text(v); t.safe = true; return t },
		"escape":     func(r *run, v value, _ args) value { return r.escaped(r.text(v)) },
		"e":          func(r *run, v value, _ args) value { return r.escaped(r.text(v)) },
		"list": func(r *run, v value, _ args) value {
			all := r.items(v)
			r.spend(16 * len(all))
			return &list{items: slices.Clone(all)}
		},
		"first": func(r *run, v value, _ args) value { return r.end(v, 0) },
		"last":  func(r *run, v value, _ args) value { return r.end(v, -1) },
		"items": func(r *run, v value, _ args) value {
			if d, ok := v.(*dict); ok {
				return &lazy{r.pairs(d)}
			} else if _, missing := v.(undefined); missing {
				return &lazy{}
			}
			fail("%s has no fields", kind(v))
			return nil
		},
		"min":      func(r *run, v value, a args) value { return r.extreme(v, a, -1) },
		"max":      func(r *run, v value, a args) value { return r.extreme(v, a, 1) },
		"sum":      sum,
		"dictsort": dictsort,
		"sort":     sortFilter,
		"reverse":  reverse,
		"unique":   unique,
		"int":      toInt,
		"float":    toFloat,
		"round":    round,
		"abs": func(_ *run, v value, _ args) value {
			if number(v) < 0 {
				return calculated("-", 0, v)
			}
			return calculated("+", 0, v) // of a truth value, 0 or 1
		},
		"selectattr": selecting(true, true),
		"rejectattr": selecting(true, false),
		"select":     selecting(false, true),
		"reject":     selecting(false, false),
		"indent":     indent,
		"wordcount": func(r *run, v value, _ args) value {
			text := r.text(v).String
			r.spend(len(text))
			return len(wordsOf.FindAllStringIndex(text, -1))
		},
	}
})

var wordsOf = regexp.MustCompile(`[\pL\pN_]+`)

// length returns the number of characters, elements or fields.
func length(r *run, v value, _ args) value {
	switch v := v.(type) {
	case str:
		r.spend(len(v.String))
		return characters(v.String)
	case *list:
		return len(v.items)
	case *lazy: // an error in Python
		return len(v.items)
	case *dict:
		return len(v.keys)
	case undefined:
		return 0
	}
	fail("%s has no length", kind(v))
	return nil
}

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
	if l, ok := v.(*lazy); ok && at == 0 && len(l.items) > 0 {
		first := l.items[0]
		l.items = l.items[1:]
		return first
	}
	all := r.items(v)
	if len(all) == 0 {
		return undefined("element")
	}
	return all[(at+len(all))%len(all)]
}

// sorted returns a copy in order. A sort of n elements makes about n·log(n) comparisons, which take their work.
func (r *run) sorted(all []value, key func(v value) value, a args) *list {
	r.spend(16 * len(all))
	all = slices.Clone(all)
	order := 1
	if truth(a.at(0, "reverse", false)) { // equal elements keep their order then, too
		order = -1
	}
	slices.SortStableFunc(all, func(x, y value) int {
		x, y = key(x), key(y)
		if !truth(a.at(1, "case_sensitive", false)) {
			x, y = r.folded(x), r.folded(y)
		}
		return order * r.compare(x, y)
	})
	return &list{items: all}
}

// folded returns a text in small letters, and other values as they are.
func (r *run) folded(v value) value {
	if s, ok := v.(str); ok {
		return r.mapped(s, lower)
	}
	return v
}

func sortFilter(r *run, v value, a args) value {
	path, by := r.path(a, 2)
	return r.sorted(r.items(v), func(v value) value {
		if by {
			return r.attribute(v, path, nil)
		}
		return v
	}, a)
}

// dictsort returns the fields of an object by name, or by value.
func dictsort(r *run, v value, a args) value {
	d, ok := v.(*dict)
	if !ok {
		fail("%s has no fields to sort", kind(v))
	}
	by := 0
	if r.equal(a.at(1, "by", nil), literal("value")) {
		by = 1
	}
	return r.sorted(r.pairs(d), func(v value) value { return v.(*list).items[by] },
		args{named: map[string]value{"case_sensitive": a.at(0, "case_sensitive", false),
			"reverse": a.at(2, "reverse", false)}})
}

func reverse(r *run, v value, _ args) value {
	if _, ok := v.(str); ok {
		return r.slice(v, [3]value{nil, nil, -1})
	}
	return &lazy{r.slice(&list{items: r.items(v)}, [3]value{nil, nil, -1}).(*list).items}
}

// keyed returns what the arguments of a filter say that elements are compared by.
func (r *run) keyed(a args) func(v value) value {
	fold := r.folded
	if truth(a.at(0, "case_sensitive", false)) {
		fold = func(v value) value { return v }
	}
	path, by := r.path(a, 1)
	return func(v value) value {
		if by {
			v = r.attribute(v, path, nil)
		}
		return fold(v)
	}
}

// extreme returns the smallest element, or with 1 the largest: the first of those that are equal.
func (r *run) extreme(v value, a args, order int) value {
	all, key := r.items(v), r.keyed(a)
	if len(all) == 0 {
		return undefined("element")
	}
	best := all[0]
	for _, one := range all[1:] {
		if r.compare(key(one), key(best)) == order {
			best = one
		}
	}
	return best
}

func sum(r *run, v value, a args) value {
	path, by := r.path(a, 0)
	total := a.at(1, "start", 0)
	for _, one := range r.items(v) {
		if by {
			one = r.attribute(one, path, nil)
		}
		total = r.arithmetic("+", total, one)
	}
	return total
}

func unique(r *run, v value, a args) value {
	l, key := &lazy{}, r.keyed(a)
	for _, one := range r.items(v) {
		r.spend(16)
		if !slices.ContainsFunc(l.items, func(v value) bool { return r.equal(key(v), key(one)) }) {
			l.items = append(l.items, one)
		}
	}
	return l
}

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

func toFloat(r *run, v value, a args) value {
	if isNumber(v) {
		return number(v)
	}
	if f, err := strconv.ParseFloat(r.trimmed(v), 64); err == nil {
		return f
	}
	return a.at(0, "default", 0.0)
}

// trimmed returns the text of a value without blanks at its ends.
func (r *run) trimmed(v value) string {
	t := r.text(v)
	r.spend(len(t.String))
	return strings.TrimSpace(t.String)
}

// round rounds to a number of decimal places: to the nearest number, the even one of two, or by a method.
func round(r *run, v value, a args) value {
	places, f := integer(a.at(0, "precision", 0)), number(v)
	scale := math.Pow(10, float64(places))
	switch method := r.text(a.at(1, "method", literal("common"))).String; {
	case method == "ceil":
		return math.Ceil(f*scale) / scale
	case method == "floor":
		return math.Floor(f*scale) / scale
	case method != "common":
		fail("the method %.40q of rounding is none of common, ceil and floor", method)
	case isInt(v):
		if places < 0 {
			f = math.RoundToEven(f*scale) / scale
		}
		return integer(f)
	case places < 0:
		return math.RoundToEven(f*scale) / scale
	}
	const most = 1074 // no number of this type has more places
	f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', min(places, most), 64), 64)
	return f
}

// mapFilter applies a filter to each element, or takes a field of each.
func mapFilter(r *run, v value, a args) value {
	if path, ok := r.path(a, -1); ok {
		return &lazy{r.attributes(r.elements(v), path, a.at(-1, "default", nil))}
	}
	f := filters()[keyOf(a.at(0, "", nil)).String]
	if f == nil {
		fail("map needs an attribute, or a filter that is supported")
	}
	l := &lazy{}
	for _, one := range r.elements(v) {
		r.spend(16)
		l.items = append(l.items, f(r, one, args{list: a.list[1:], named: a.named}))
	}
	return l
}

// elements returns the elements of a value, or none if it counts as false, as map and select do.
func (r *run) elements(v value) []value {
	if !truth(v) {
		return nil
	}
	return r.items(v)
}

// selecting returns a filter that keeps the elements for which a test holds, or does not.
func selecting(attribute, keep bool) filter {
	return func(r *run, v value, a args) value {
		rest := a.list
		var name str
		if attribute {
			name, rest = keyOf(a.at(0, "", nil)), rest[min(1, len(rest)):]
		}
		l := &lazy{}
		for _, one := range r.elements(v) {
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
	if f := plainTests()[name]; f != nil {
		return f(v)
	}
	op, known := testOperators[name]
	if !known || len(test) < 2 {
		fail("the test %.40q is not supported here", name)
	}
	return r.compared(op, v, test[1])
}

// indent puts blanks, or another text, before each line but the first, and with blank also before empty ones.
func indent(r *run, v value, a args) value {
	width, ok := a.at(0, "width", 4).(str)
	if !ok {
		width = r.repeated(literal(" "), integer(a.at(0, "width", 4)))
	}
	blank := truth(a.at(2, "blank", false))
	var b builder
	for i, line := range r.lines(r.joined(r.text(v), literal("\n")), false).items {
		line := line.(str)
		if i > 0 {
			b.add(literal("\n"))
		}
		if i == 0 && truth(a.at(1, "first", false)) || i > 0 && (blank || line.String != "") {
			r.append(&b, width)
		}
		r.append(&b, line)
	}
	return b.text()
}
