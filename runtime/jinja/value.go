package jinja

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// value is a value of a template: nil (none), undefined, bool, int, float64, json.Number (as given), str, *list,
// *generator, *dict, *namespace, function or *loopContext.
type value any

// undefined is the value of a variable or field that does not exist: its name.
type undefined string

// str is a text with the origin of each byte.
type str struct {
	Text
	safe bool // of the filters safe and escape: what is added to it is escaped for HTML
}

// list is a list, a tuple, or a view of an object's fields.
type list struct {
	items []value
	tuple bool
	view  string // Python's name of the view, such as dict_keys
}

// generator is what some filters return, as in Python: it is true even if it is empty, its elements have no
// numbers, and each can be read once.
type generator struct{ items []value }

// dict has values by keys, in their order: texts, numbers, truth values and none.
type dict struct {
	keys   []value
	values map[any]value // by hashed keys
}

// namespace is the only value that a template can change.
type namespace struct{ fields *dict }

// function is what can be called.
type function func(r *renderer, a args) value

// args are the arguments of a call.
type args struct {
	list  []value
	named map[string]value
	names []string // of named, in the order of the template
}

// valueOr returns an argument by its position or name; otherwise the default.
func (a args) valueOr(i int, name string, otherwise value) value {
	if i >= 0 && i < len(a.list) {
		return a.list[i]
	}
	if v, ok := a.named[name]; ok {
		return v
	}
	return otherwise
}

// literalText returns a text that the template wrote, givenText one that came from outside.
func literalText(s string) str { return str{Text: Text{s, strings.Repeat("0", len(s))}} }
func givenText(s string) str   { return str{Text: Text{s, strings.Repeat("1", len(s))}} }

func (s str) sliceBytes(from, to int) str {
	return str{Text{s.String[from:to], s.Given[from:to]}, s.safe}
}

// hashKey returns what a key has in common with the keys that are equal to it: 1, 1.0 and true are.
func hashKey(key value) any {
	switch k := key.(type) {
	case nil, undefined:
		return k
	case str:
		return k.String
	case bool, int, float64, json.Number:
		return asNumber(k)
	}
	failWith("%s cannot be the name of a field", typeName(key))
	return nil
}

func (r *renderer) lookupKey(d *dict, key value) (v value, ok bool) {
	if name, is := key.(str); is {
		r.spendWork(len(name.String))
	}
	r.spendWork(1)
	v, ok = d.values[hashKey(key)]
	return v, ok
}

func (d *dict) setKey(key, v value) {
	h := hashKey(key)
	if _, ok := d.values[h]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[h] = v
}

func newDict() *dict { return &dict{values: map[any]value{}} }

// isTrue returns the truth of a value, as in Python.
func isTrue(v value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case str:
		return v.String != ""
	case *list:
		return len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	case int, float64, json.Number:
		return asNumber(v) != 0
	}
	return true
}

func typeName(v value) string {
	switch v.(type) {
	case nil:
		return "none"
	case undefined:
		return "an undefined value"
	case bool:
		return "a truth value"
	case int, float64, json.Number:
		return "a number"
	case str:
		return "a text"
	case *list, *generator:
		return "a list"
	case *dict:
		return "an object"
	case function:
		return "a function"
	}
	return "an object of the template"
}

// isNumber reports whether a value counts as a number; as in Python, true is 1.
func isNumber(v value) bool {
	switch v.(type) {
	case bool, int, float64, json.Number:
		return true
	}
	return false
}

func asNumber(v value) float64 {
	switch v := v.(type) {
	case bool:
		if v {
			return 1
		}
		return 0
	case int:
		return float64(v)
	case float64:
		return v
	case json.Number:
		f, _ := v.Float64() // beyond the range: infinite, as in Python
		return f
	}
	failWith("%s is not a number", typeName(v))
	return 0
}

// asInteger returns a number without a fraction.
func asInteger(v value) int {
	f := asNumber(v)
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		failWith("%v is not a whole number", f)
	}
	return int(f)
}

// equalValues compares as Python does: true equals 1, and 1 equals 1.0.
func (r *renderer) equalValues(a, b value) bool {
	r.spendWork(1)
	if isNumber(a) && isNumber(b) {
		return asNumber(a) == asNumber(b)
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case str:
		b, ok := b.(str)
		r.spendWork(min(len(a.String), len(b.String)))
		return ok && a.String == b.String
	case *list:
		b, ok := b.(*list)
		defer r.enterDepth(1)()
		return ok && a.tuple == b.tuple && slices.EqualFunc(a.items, b.items, r.equalValues)
	case *dict:
		b, ok := b.(*dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		defer r.enterDepth(1)()
		for h, v := range a.values {
			if w, ok := b.values[h]; !ok || !r.equalValues(v, w) {
				return false
			}
		}
		return true
	}
	return false
}

// compareValues orders numbers, and texts, and lists of such.
func (r *renderer) compareValues(a, b value) int {
	r.spendWork(1)
	if isNumber(a) && isNumber(b) {
		switch x, y := asNumber(a), asNumber(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	if a, ok := a.(str); ok {
		if b, ok := b.(str); ok {
			r.spendWork(min(len(a.String), len(b.String)))
			return strings.Compare(a.String, b.String)
		}
	}
	if a, ok := a.(*list); ok {
		if b, ok := b.(*list); ok {
			defer r.enterDepth(1)()
			return slices.CompareFunc(a.items, b.items, r.compareValues)
		}
	}
	failWith("%s and %s have no order", typeName(a), typeName(b))
	return 0
}

func (r *renderer) containsValue(in, v value) bool {
	switch in := in.(type) {
	case str:
		part, ok := v.(str)
		if !ok {
			failWith("%s cannot be in a text", typeName(v))
		}
		r.spendWork(len(in.String))
		return strings.Contains(in.String, part.String)
	case *list, *generator:
		return slices.ContainsFunc(r.collectItems(in), func(item value) bool { return r.equalValues(item, v) })
	case *dict:
		_, ok := r.lookupKey(in, v)
		return ok
	case undefined:
		return false
	}
	failWith("%s contains nothing", typeName(in))
	return false
}

// collectItems returns the elements of a value: of a text its characters, of an object its names.
func (r *renderer) collectItems(v value) []value {
	switch v := v.(type) {
	case *list:
		return v.items
	case *generator:
		all := v.items
		v.items = nil
		return all
	case *dict:
		r.spendWork(16 * len(v.keys))
		return slices.Clone(v.keys)
	case str:
		r.spendWork(32 * len(v.String))
		all := []value{}
		for rest := v; rest.String != ""; {
			_, n := utf8.DecodeRuneInString(rest.String)
			char := rest.sliceBytes(0, n)
			char.safe = false // as in Python
			all, rest = append(all, char), rest.sliceBytes(n, len(rest.String))
		}
		return all
	case undefined:
		return nil
	}
	failWith("%s has no elements", typeName(v))
	return nil
}

func (r *renderer) toText(v value) str {
	switch v := v.(type) {
	case str:
		return v
	case undefined:
		return str{}
	case *list, *dict:
		var b strings.Builder
		r.writeRepr(&b, v)
		return givenText(b.String())
	}
	return givenText(r.formatScalar(v))
}

func (r *renderer) formatScalar(v value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int:
		return strconv.Itoa(v)
	case json.Number:
		r.spendWork(len(v))
		return string(v)
	case float64:
		return formatFloat(v)
	}
	failWith("%s has no text", typeName(v))
	return ""
}

func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if e := math.Abs(f); e != 0 && (e < 1e-4 || e >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// writeRepr writes a value as in a list of Python.
func (r *renderer) writeRepr(b *strings.Builder, v value) {
	r.spendWork(8)
	switch v := v.(type) {
	case str:
		r.spendWork(len(v.String))
		if v.safe {
			b.WriteString("Markup(" + quotePython(v.String) + ")")
			return
		}
		b.WriteString(quotePython(v.String))
	case *list:
		open, end := "[", "]"
		switch {
		case v.view != "":
			open, end = v.view+"([", "])"
		case v.tuple && len(v.items) == 1:
			open, end = "(", ",)"
		case v.tuple:
			open, end = "(", ")"
		}
		r.writeReprItems(b, open, end, len(v.items), func(i int) { r.writeRepr(b, v.items[i]) })
	case *dict:
		r.writeReprItems(b, "{", "}", len(v.keys), func(i int) {
			r.writeRepr(b, v.keys[i])
			b.WriteString(": ")
			r.writeRepr(b, v.values[hashKey(v.keys[i])])
		})
	case undefined:
		b.WriteString("Undefined")
	default:
		b.WriteString(r.formatScalar(v))
	}
}

func (r *renderer) writeReprItems(b *strings.Builder, open, end string, n int, one func(i int)) {
	defer r.enterDepth(1)()
	b.WriteString(open)
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		one(i)
	}
	b.WriteString(end)
}

// quotePython returns a text in quotes, as Python writes it.
func quotePython(s string) string {
	quote := `'`
	if strings.Contains(s, `'`) && !strings.Contains(s, `"`) {
		quote = `"`
	}
	var b strings.Builder
	b.WriteString(quote)
	for _, c := range s {
		switch {
		case c == '\\' || string(c) == quote:
			b.WriteString(`\` + string(c))
		case strconv.IsPrint(c):
			b.WriteRune(c)
		case strings.ContainsRune("\t\n\r", c):
			b.WriteString(strings.Trim(strconv.QuoteRune(c), `'`))
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	return b.String() + quote
}
