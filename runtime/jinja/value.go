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

// value is a value of a template: nil (none), undefined, bool, int, float64, json.Number (as given), str, *list, *lazy,
// *dict, *object, function or *loop.
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

// lazy is what some filters return: in Python a generator. It is true even if it is empty, its elements have no
// numbers, and each can be read once.
type lazy struct{ items []value }

// dict has values by keys, in their order: texts, numbers, truth values and none.
type dict struct {
	keys   []value
	values map[any]value // by hashed keys
}

// object is a namespace, the only value that a template can change.
type object struct{ fields *dict }

// function is what can be called.
type function func(r *run, a args) value

// args are the arguments of a call.
type args struct {
	list  []value
	named map[string]value
	names []string // of named, in the order of the template
}

// at returns an argument by its position or name; otherwise the default.
func (a args) at(i int, name string, otherwise value) value {
	if i >= 0 && i < len(a.list) {
		return a.list[i]
	}
	if v, ok := a.named[name]; ok {
		return v
	}
	return otherwise
}

// literal returns a text that the template wrote; given one that came from outside.
func literal(s string) str { return str{Text: Text{s, strings.Repeat("0", len(s))}} }
func given(s string) str   { return str{Text: Text{s, strings.Repeat("1", len(s))}} }

func (s str) cut(from, to int) str { return str{Text{s.String[from:to], s.Given[from:to]}, s.safe} }

// hashed returns what a key has in common with the keys that are equal to it: 1, 1.0 and true are.
func hashed(key value) any {
	switch k := key.(type) {
	case nil, undefined:
		return k
	case str:
		return k.String
	case bool, int, float64, json.Number:
		return number(k)
	}
	fail("%s cannot be the name of a field", kind(key))
	return nil
}

// find returns the field of an object with a key.
func (r *run) find(d *dict, key value) (v value, ok bool) {
	if name, is := key.(str); is {
		r.spend(len(name.String))
	}
	r.spend(1)
	v, ok = d.values[hashed(key)]
	return v, ok
}

// set adds or replaces a field.
func (d *dict) set(key, v value) {
	h := hashed(key)
	if _, ok := d.values[h]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[h] = v
}

func newDict() *dict { return &dict{values: map[any]value{}} }

// truth returns the truth of a value, as in Python.
func truth(v value) bool {
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
		return number(v) != 0
	}
	return true
}

// kind names the type of a value, for errors.
func kind(v value) string {
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
	case *list, *lazy:
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

func number(v value) float64 {
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
	fail("%s is not a number", kind(v))
	return 0
}

// integer returns a number without a fraction.
func integer(v value) int {
	f := number(v)
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		fail("%v is not a whole number", f)
	}
	return int(f)
}

// equal compares as Python does: true equals 1, and 1 equals 1.0.
func (r *run) equal(a, b value) bool {
	r.spend(1)
	if isNumber(a) && isNumber(b) {
		return number(a) == number(b)
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case str:
		b, ok := b.(str)
		r.spend(min(len(a.String), len(b.String)))
		return ok && a.String == b.String
	case *list:
		b, ok := b.(*list)
		defer r.deeper(1)()
		return ok && a.tuple == b.tuple && slices.EqualFunc(a.items, b.items, r.equal)
	case *dict:
		b, ok := b.(*dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		defer r.deeper(1)()
		for h, v := range a.values {
			if w, ok := b.values[h]; !ok || !r.equal(v, w) {
				return false
			}
		}
		return true
	}
	return false
}

// compare orders numbers, and texts, and lists of such.
func (r *run) compare(a, b value) int {
	r.spend(1)
	if isNumber(a) && isNumber(b) {
		switch x, y := number(a), number(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	if a, ok := a.(str); ok {
		if b, ok := b.(str); ok {
			r.spend(min(len(a.String), len(b.String)))
			return strings.Compare(a.String, b.String)
		}
	}
	if a, ok := a.(*list); ok {
		if b, ok := b.(*list); ok {
			defer r.deeper(1)()
			return slices.CompareFunc(a.items, b.items, r.compare)
		}
	}
	fail("%s and %s have no order", kind(a), kind(b))
	return 0
}

// contains reports whether a value is in a text, a list or the names of an object.
func (r *run) contains(in, v value) bool {
	switch in := in.(type) {
	case str:
		part, ok := v.(str)
		if !ok {
			fail("%s cannot be in a text", kind(v))
		}
		r.spend(len(in.String))
		return strings.Contains(in.String, part.String)
	case *list, *lazy:
		return slices.ContainsFunc(r.items(in), func(item value) bool { return r.equal(item, v) })
	case *dict:
		_, ok := r.find(in, v)
		return ok
	case undefined:
		return false
	}
	fail("%s contains nothing", kind(in))
	return false
}

// items returns the elements of a value: of a text its characters, of an object its names.
func (r *run) items(v value) []value {
	switch v := v.(type) {
	case *list:
		return v.items
	case *lazy:
		all := v.items
		v.items = nil
		return all
	case *dict:
		r.spend(16 * len(v.keys))
		return slices.Clone(v.keys)
	case str:
		r.spend(32 * len(v.String))
		all := []value{}
		for rest := v; rest.String != ""; {
			_, n := utf8.DecodeRuneInString(rest.String)
			char := rest.cut(0, n)
			char.safe = false // as in Python
			all, rest = append(all, char), rest.cut(n, len(rest.String))
		}
		return all
	case undefined:
		return nil
	}
	fail("%s has no elements", kind(v))
	return nil
}

// text returns a value as it is written into the output.
func (r *run) text(v value) str {
	switch v := v.(type) {
	case str:
		return v
	case undefined:
		return str{}
	case *list, *dict:
		var b strings.Builder
		r.write(&b, v)
		return given(b.String())
	}
	return given(r.spelled(v))
}

// spelled returns a value without elements as Python writes it.
func (r *run) spelled(v value) string {
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
		r.spend(len(v))
		return string(v)
	case float64:
		return floatText(v)
	}
	fail("%s has no text", kind(v))
	return ""
}

func floatText(f float64) string {
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

// write writes a value as in a list of Python.
func (r *run) write(b *strings.Builder, v value) {
	r.spend(8)
	switch v := v.(type) {
	case str:
		r.spend(len(v.String))
		if v.safe {
			b.WriteString("Markup(" + quoted(v.String) + ")")
			return
		}
		b.WriteString(quoted(v.String))
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
		r.writeAll(b, open, end, len(v.items), func(i int) { r.write(b, v.items[i]) })
	case *dict:
		r.writeAll(b, "{", "}", len(v.keys), func(i int) {
			r.write(b, v.keys[i])
			b.WriteString(": ")
			r.write(b, v.values[hashed(v.keys[i])])
		})
	case undefined:
		b.WriteString("Undefined")
	default:
		b.WriteString(r.spelled(v))
	}
}

// writeAll writes n elements between brackets.
func (r *run) writeAll(b *strings.Builder, open, end string, n int, one func(i int)) {
	defer r.deeper(1)()
	b.WriteString(open)
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		one(i)
	}
	b.WriteString(end)
}

// quoted returns a text in quotes, as Python writes it.
func quoted(s string) string {
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
