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

func (p *parser) parseFilterChain(e expression) expression {
	defer p.enterNesting()()
	for {
		inner := e
		switch {
		case p.accept("|"):
			p.enterNesting()
			e = p.parseFilter(inner)
		case p.accept("is"):
			p.enterNesting()
			not := p.accept("not")
			test := p.parseTest()
			e = func(r *renderer) value { return test(r, inner(r)) != not }
		default:
			return e
		}
	}
}

func (p *parser) parseFilter(inner expression) expression {
	name := p.parseName()
	f := filters()[name]
	switch {
	case name == "map":
		f = mapFilter
	case f == nil: // an error where it is reached, as in jinja2
		f = func(*renderer, value, args) value { failWith("the filter %.40q is not supported", name); return nil }
	}
	given := func(*renderer) args { return args{} }
	if p.accept("(") {
		given = p.parseArguments()
	}
	return func(r *renderer) value { r.spendWork(1); v := inner(r); return f(r, v, given(r)) }
}

func (p *parser) parseTest() func(r *renderer, v value) bool {
	name := p.parseName()
	if f := plainTests()[name]; f != nil {
		return func(r *renderer, v value) bool { r.spendWork(1); return f(v) }
	}
	op, known := testOperators[name]
	if !known {
		failWith("the test %.40q is not supported", name)
	}
	arg := p.parsePostfix(p.parsePrimary())
	return func(r *renderer, v value) bool { return r.evalComparison(op, v, arg(r)) }
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
		"iterable":  isIterable,
		"sequence":  isSequence,
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
		"odd":   func(v value) bool { return math.Abs(math.Mod(asNumber(v), 2)) == 1 },
		"even":  func(v value) bool { return math.Mod(asNumber(v), 2) == 0 },
		"lower": func(v value) bool { return hasOnlyCase(v, unicode.IsLower, unicode.IsUpper) },
		"upper": func(v value) bool { return hasOnlyCase(v, unicode.IsUpper, unicode.IsLower) },
	}
})

func isBool(v value) bool { _, ok := v.(bool); return ok }

func isIterable(v value) bool {
	switch v.(type) {
	case str, *list, *generator, *dict, undefined:
		return true
	}
	return false
}

func isSequence(v value) bool { return isIterable(v) && (isIndexable(v) || typeName(v) != "a list") }

// filter turns a value into another one.
type filter func(r *renderer, v value, a args) value

func textFilter(name string) filter {
	return func(r *renderer, v value, a args) value { return r.lookupMethod(r.toText(v), name).(function)(r, a) }
}

// filters are the filters by name, except map, which looks up others.
var filters = sync.OnceValue(func() map[string]filter {
	return map[string]filter{
		"tojson":     tojsonFilter,
		"length":     lengthFilter,
		"count":      lengthFilter,
		"default":    defaultFilter,
		"d":          defaultFilter,
		"join":       joinFilter,
		"trim":       textFilter("strip"),
		"upper":      textFilter("upper"),
		"lower":      textFilter("lower"),
		"title":      func(r *renderer, v value, _ args) value { return r.mapCharacters(r.toText(v), wordTitleRune) },
		"capitalize": textFilter("capitalize"),
		"replace":    textFilter("replace"),
		"string":     func(r *renderer, v value, _ args) value { return r.toText(v) },
		"format": func(r *renderer, v value, a args) value {
			return r.formatPercent(r.toText(v), a.percentOperand())
		},
		"center": textFilter("center"),
		"safe":   func(r *renderer, v value, _ args) value { t := r.toText(v); t.safe = true; return t },
		"escape": func(r *renderer, v value, _ args) value { return r.escapeHTML(r.toText(v)) },
		"e":      func(r *renderer, v value, _ args) value { return r.escapeHTML(r.toText(v)) },
		"list": func(r *renderer, v value, _ args) value {
			all := r.collectItems(v)
			r.spendWork(16 * len(all))
			return &list{items: slices.Clone(all)}
		},
		"first": func(r *renderer, v value, _ args) value { return r.firstOrLast(v, 0) },
		"last":  func(r *renderer, v value, _ args) value { return r.firstOrLast(v, -1) },
		"items": func(r *renderer, v value, _ args) value {
			if d, ok := v.(*dict); ok {
				return &generator{r.dictPairs(d)}
			} else if _, missing := v.(undefined); missing {
				return &generator{}
			}
			failWith("%s has no fields", typeName(v))
			return nil
		},
		"min":      func(r *renderer, v value, a args) value { return r.findExtreme(v, a, -1) },
		"max":      func(r *renderer, v value, a args) value { return r.findExtreme(v, a, 1) },
		"sum":      sumFilter,
		"dictsort": dictsortFilter,
		"sort":     sortFilter,
		"reverse":  reverseFilter,
		"unique":   uniqueFilter,
		"int":      intFilter,
		"float":    floatFilter,
		"round":    roundFilter,
		"abs": func(_ *renderer, v value, _ args) value {
			if asNumber(v) < 0 {
				return calculateNumbers("-", 0, v)
			}
			return calculateNumbers("+", 0, v) // of a truth value, 0 or 1
		},
		"selectattr": newSelectFilter(true, true),
		"rejectattr": newSelectFilter(true, false),
		"select":     newSelectFilter(false, true),
		"reject":     newSelectFilter(false, false),
		"indent":     indentFilter,
		"wordcount": func(r *renderer, v value, _ args) value {
			text := r.toText(v).String
			r.spendWork(len(text))
			return len(wordsOf.FindAllStringIndex(text, -1))
		},
	}
})

var wordsOf = regexp.MustCompile(`[\pL\pN_]+`)

func lengthFilter(r *renderer, v value, _ args) value {
	switch v := v.(type) {
	case str:
		r.spendWork(len(v.String))
		return countCharacters(v.String)
	case *list:
		return len(v.items)
	case *generator: // an error in Python
		return len(v.items)
	case *dict:
		return len(v.keys)
	case undefined:
		return 0
	}
	failWith("%s has no length", typeName(v))
	return nil
}

func defaultFilter(_ *renderer, v value, a args) value {
	_, missing := v.(undefined)
	if missing || isTrue(a.valueOr(1, "boolean", false)) && !isTrue(v) {
		return a.valueOr(0, "default_value", str{})
	}
	return v
}

func joinFilter(r *renderer, v value, a args) value {
	all := r.collectItems(v)
	if path, ok := r.attributePath(a, 1); ok {
		all = r.lookupAttributes(all, path, nil)
	}
	return r.joinTexts(all, r.toText(a.valueOr(0, "d", str{})))
}

// attributePath returns the argument attribute of a filter: a path of fields, or the number of an element.
func (r *renderer) attributePath(a args, i int) (path str, ok bool) {
	v := a.valueOr(i, "attribute", nil)
	if v == nil {
		return path, false
	}
	return r.toText(v), true
}

func (r *renderer) lookupAttributes(all []value, path str, otherwise value) (fields []value) {
	for _, v := range all {
		r.spendWork(16)
		fields = append(fields, r.lookupAttribute(v, path, otherwise))
	}
	return fields
}

// lookupAttribute returns the field of a value at a path, such as function.name. Unless it is nil, otherwise takes the
// place of what is not defined.
func (r *renderer) lookupAttribute(v value, path str, otherwise value) value {
	r.spendWork(2 * len(path.String))
	for name := range strings.SplitSeq(path.String, ".") {
		if i, err := strconv.Atoi(name); err == nil {
			v = r.lookupElement(v, i)
		} else {
			v = r.lookupElement(v, literalText(name))
		}
		if _, missing := v.(undefined); missing && otherwise != nil {
			v = otherwise
		}
	}
	return v
}

// firstOrLast returns the first element for at 0, the last for -1.
func (r *renderer) firstOrLast(v value, at int) value {
	if l, ok := v.(*generator); ok && at == 0 && len(l.items) > 0 {
		first := l.items[0]
		l.items = l.items[1:]
		return first
	}
	all := r.collectItems(v)
	if len(all) == 0 {
		return undefined("element")
	}
	return all[(at+len(all))%len(all)]
}

// sortValues returns a copy in order. A sort of n elements makes about n·log(n) comparisons, which take their work.
func (r *renderer) sortValues(all []value, key func(v value) value, a args) *list {
	r.spendWork(16 * len(all))
	all = slices.Clone(all)
	order := 1
	if isTrue(a.valueOr(0, "reverse", false)) { // equal elements keep their order then, too
		order = -1
	}
	slices.SortStableFunc(all, func(x, y value) int {
		x, y = key(x), key(y)
		if !isTrue(a.valueOr(1, "case_sensitive", false)) {
			x, y = r.foldCase(x), r.foldCase(y)
		}
		return order * r.compareValues(x, y)
	})
	return &list{items: all}
}

func (r *renderer) foldCase(v value) value {
	if s, ok := v.(str); ok {
		return r.mapCharacters(s, lowerRune)
	}
	return v
}

func sortFilter(r *renderer, v value, a args) value {
	path, by := r.attributePath(a, 2)
	return r.sortValues(r.collectItems(v), func(v value) value {
		if by {
			return r.lookupAttribute(v, path, nil)
		}
		return v
	}, a)
}

// dictsortFilter returns the fields of an object by name, or by value.
func dictsortFilter(r *renderer, v value, a args) value {
	d, ok := v.(*dict)
	if !ok {
		failWith("%s has no fields to sort", typeName(v))
	}
	by := 0
	if r.equalValues(a.valueOr(1, "by", nil), literalText("value")) {
		by = 1
	}
	return r.sortValues(r.dictPairs(d), func(v value) value { return v.(*list).items[by] },
		args{named: map[string]value{"case_sensitive": a.valueOr(0, "case_sensitive", false),
			"reverse": a.valueOr(2, "reverse", false)}})
}

func reverseFilter(r *renderer, v value, _ args) value {
	if _, ok := v.(str); ok {
		return r.sliceValue(v, [3]value{nil, nil, -1})
	}
	return &generator{r.sliceValue(&list{items: r.collectItems(v)}, [3]value{nil, nil, -1}).(*list).items}
}

// comparisonKey returns what the filters min, max and unique compare elements by.
func (r *renderer) comparisonKey(a args) func(v value) value {
	fold := r.foldCase
	if isTrue(a.valueOr(0, "case_sensitive", false)) {
		fold = func(v value) value { return v }
	}
	path, by := r.attributePath(a, 1)
	return func(v value) value {
		if by {
			v = r.lookupAttribute(v, path, nil)
		}
		return fold(v)
	}
}

// findExtreme returns the smallest element, or with 1 the largest: the first of those that are equal.
func (r *renderer) findExtreme(v value, a args, order int) value {
	all, key := r.collectItems(v), r.comparisonKey(a)
	if len(all) == 0 {
		return undefined("element")
	}
	best := all[0]
	for _, one := range all[1:] {
		if r.compareValues(key(one), key(best)) == order {
			best = one
		}
	}
	return best
}

func sumFilter(r *renderer, v value, a args) value {
	path, by := r.attributePath(a, 0)
	total := a.valueOr(1, "start", 0)
	for _, one := range r.collectItems(v) {
		if by {
			one = r.lookupAttribute(one, path, nil)
		}
		total = r.evalArithmetic("+", total, one)
	}
	return total
}

func uniqueFilter(r *renderer, v value, a args) value {
	l, key := &generator{}, r.comparisonKey(a)
	for _, one := range r.collectItems(v) {
		r.spendWork(16)
		if !slices.ContainsFunc(l.items, func(v value) bool { return r.equalValues(key(v), key(one)) }) {
			l.items = append(l.items, one)
		}
	}
	return l
}

func intFilter(r *renderer, v value, a args) value {
	if isNumber(v) {
		return asInteger(math.Trunc(asNumber(v)))
	}
	text := r.trimmedText(v)
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return asInteger(math.Trunc(f))
	}
	return a.valueOr(0, "default", 0)
}

func floatFilter(r *renderer, v value, a args) value {
	if isNumber(v) {
		return asNumber(v)
	}
	if f, err := strconv.ParseFloat(r.trimmedText(v), 64); err == nil {
		return f
	}
	return a.valueOr(0, "default", 0.0)
}

func (r *renderer) trimmedText(v value) string {
	t := r.toText(v)
	r.spendWork(len(t.String))
	return strings.TrimSpace(t.String)
}

// roundFilter rounds to a number of decimal places: to the nearest number, the even one of two, or by a method.
func roundFilter(r *renderer, v value, a args) value {
	places, f := asInteger(a.valueOr(0, "precision", 0)), asNumber(v)
	scale := math.Pow(10, float64(places))
	switch method := r.toText(a.valueOr(1, "method", literalText("common"))).String; {
	case method == "ceil":
		return math.Ceil(f*scale) / scale
	case method == "floor":
		return math.Floor(f*scale) / scale
	case method != "common":
		failWith("the method %.40q of rounding is none of common, ceil and floor", method)
	case isInt(v):
		if places < 0 {
			f = math.RoundToEven(f*scale) / scale
		}
		return asInteger(f)
	case places < 0:
		return math.RoundToEven(f*scale) / scale
	}
	const most = 1074 // no number of this type has more places
	f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', min(places, most), 64), 64)
	return f
}

func mapFilter(r *renderer, v value, a args) value {
	if path, ok := r.attributePath(a, -1); ok {
		return &generator{r.lookupAttributes(r.itemsOrNone(v), path, a.valueOr(-1, "default", nil))}
	}
	f := filters()[asFieldName(a.valueOr(0, "", nil)).String]
	if f == nil {
		failWith("map needs an attribute, or a filter that is supported")
	}
	l := &generator{}
	for _, one := range r.itemsOrNone(v) {
		r.spendWork(16)
		l.items = append(l.items, f(r, one, args{list: a.list[1:], named: a.named}))
	}
	return l
}

// itemsOrNone returns the elements of a value, or none if it counts as false, as map and select do.
func (r *renderer) itemsOrNone(v value) []value {
	if !isTrue(v) {
		return nil
	}
	return r.collectItems(v)
}

// newSelectFilter returns a filter for select or selectattr, or if keep is false for reject or rejectattr.
func newSelectFilter(attribute, keep bool) filter {
	return func(r *renderer, v value, a args) value {
		rest := a.list
		var name str
		if attribute {
			name, rest = asFieldName(a.valueOr(0, "", nil)), rest[min(1, len(rest)):]
		}
		l := &generator{}
		for _, one := range r.itemsOrNone(v) {
			r.spendWork(16)
			tested := one
			if attribute {
				tested = r.lookupAttribute(one, name, nil)
			}
			if r.evalTest(tested, rest) == keep {
				l.items = append(l.items, one)
			}
		}
		return l
	}
}

// evalTest reports whether the test that arguments name holds; without a test, whether the value is true.
func (r *renderer) evalTest(v value, test []value) bool {
	if len(test) == 0 {
		return isTrue(v)
	}
	name := asFieldName(test[0]).String
	if f := plainTests()[name]; f != nil {
		return f(v)
	}
	op, known := testOperators[name]
	if !known || len(test) < 2 {
		failWith("the test %.40q is not supported here", name)
	}
	return r.evalComparison(op, v, test[1])
}

// indentFilter puts blanks, or another text, before each line but the first, and with blank also before empty ones.
func indentFilter(r *renderer, v value, a args) value {
	width, ok := a.valueOr(0, "width", 4).(str)
	if !ok {
		width = r.repeatText(literalText(" "), asInteger(a.valueOr(0, "width", 4)))
	}
	blank := isTrue(a.valueOr(2, "blank", false))
	var b textBuilder
	for i, line := range r.splitLines(r.concatTexts(r.toText(v), literalText("\n")), false).items {
		line := line.(str)
		if i > 0 {
			b.writeText(literalText("\n"))
		}
		if i == 0 && isTrue(a.valueOr(1, "first", false)) || i > 0 && (blank || line.String != "") {
			r.appendText(&b, width)
		}
		r.appendText(&b, line)
	}
	return b.buildText()
}
