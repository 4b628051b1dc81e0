package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (r *run) given(v any) value {
	defer r.deeper(1)()
	r.read += bytesPerValue
	switch v := v.(type) {
	case nil, bool, int:
		return v
	case string:
		r.read += len(v)
		return given(v)
	case Trusted:
		return literal(string(v))
	case json.RawMessage:
		r.read += len(v)
		return r.parsed(v)
	case []any:
		l := &list{}
		for _, one := range v {
			l.items = append(l.items, r.given(one))
		}
		return l
	case Object:
		d := newDict()
		for _, f := range v {
			r.read += len(f.Name)
			d.set(given(f.Name), r.given(f.Value))
		}
		return d
	case Func:
		return function(func(r *run, a args) value {
			text, err := v(keyOf(a.at(0, "format", undefined("the text"))).String)
			if err != nil {
				fail("%w", err)
			}
			r.spend(2 * len(text))
			return given(text)
		})
	}
	fail("values of the type %T are not supported", v)
	return nil
}

// CheckJSON returns an error if a text is not JSON, or is nested too deeply to be given to a template.
func CheckJSON(text []byte) (err error) {
	defer catch(new(int), &err)
	new(run).parsed(text)
	return nil
}

func (r *run) parsed(text []byte) value {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil { // the decoder alone accepts more
		fail("this is not JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return r.decoded(d)
}

func nextToken(d *json.Decoder) json.Token {
	t, err := d.Token()
	if err != nil {
		fail("this is not JSON: %w", err)
	}
	return t
}

func (r *run) decoded(d *json.Decoder) value {
	switch t := nextToken(d).(type) {
	case json.Delim:
		defer r.deeper(1)()
		if t == '[' {
			l := &list{}
			for d.More() {
				l.items = append(l.items, r.decoded(d))
			}
			nextToken(d)
			return l
		}
		o := newDict()
		for d.More() {
			name, _ := nextToken(d).(string)
			o.set(given(name), r.decoded(d))
		}
		nextToken(d)
		return o
	case string:
		return given(t)
	case json.Number: // as it is written, since a request's numbers are not this program's to change
		if len(t) > maxNumber {
			fail("a number of %d characters, at most %d are possible", len(t), maxNumber)
		}
		return t
	case bool:
		return t
	}
	return nil
}

// tojson writes a value like Python's json.dumps with ensure_ascii=False.
func tojson(r *run, v value, a args) value {
	w := jsonWriter{run: r, comma: ", ", colon: ": "}
	if n := a.at(1, "indent", nil); n != nil {
		w.comma, w.indent, w.pretty = ",", strings.Repeat(" ", min(max(integer(n), 0), 64)), true
	}
	if l, ok := a.at(2, "separators", nil).(*list); ok && len(l.items) == 2 {
		w.comma, w.colon = keyOf(l.items[0]).String, keyOf(l.items[1]).String
	}
	w.sort = truth(a.at(3, "sort_keys", false))
	w.ascii = truth(a.at(0, "ensure_ascii", false))
	w.value(v)
	return given(w.String())
}

type jsonWriter struct {
	strings.Builder
	*run
	comma, colon string
	indent       string
	pretty       bool
	level        int // of brackets
	sort, ascii  bool
}

func (w *jsonWriter) value(v value) {
	w.spend(8)
	switch v := v.(type) {
	case str:
		w.text(v.String)
	case *list:
		w.all("[", "]", len(v.items), func(i int) { w.value(v.items[i]) })
	case *lazy: // an error in Python
		w.value(&list{items: v.items})
	case *dict:
		keys := v.keys
		if w.sort {
			w.spend(16 * len(keys))
			keys = slices.Clone(keys)
			slices.SortFunc(keys, w.compare)
		}
		w.all("{", "}", len(keys), func(i int) {
			if key, ok := keys[i].(str); ok {
				w.text(key.String)
			} else { // JSON has no other keys than texts
				w.WriteByte('"')
				w.value(keys[i])
				w.WriteByte('"')
			}
			w.WriteString(w.colon)
			w.value(v.values[hashed(keys[i])])
		})
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(v))
	case int, float64, json.Number:
		w.WriteString(w.spelled(v))
	default:
		fail("%s is not JSON", kind(v))
	}
}

func (w *jsonWriter) all(open, end string, n int, one func(i int)) {
	defer w.deeper(1)()
	w.level++
	defer func() { w.level-- }()
	w.WriteString(open)
	line := func(depth int) {
		if w.pretty && n > 0 {
			w.spend(depth * len(w.indent))
			w.WriteString("\n" + strings.Repeat(w.indent, depth))
		}
	}
	for i := range n {
		if i > 0 {
			w.WriteString(w.comma)
		}
		w.spend(len(w.comma) + len(w.colon))
		line(w.level)
		one(i)
	}
	line(w.level - 1)
	w.WriteString(end)
}

func (w *jsonWriter) text(s string) {
	w.spend(2 * len(s))
	w.WriteByte('"')
	for _, c := range s {
		switch c {
		case '"', '\\':
			w.WriteString(`\` + string(c))
		case '\n':
			w.WriteString(`\n`)
		case '\r':
			w.WriteString(`\r`)
		case '\t':
			w.WriteString(`\t`)
		case '\b':
			w.WriteString(`\b`)
		case '\f':
			w.WriteString(`\f`)
		default:
			switch {
			case c >= 0x10000 && w.ascii:
				c -= 0x10000
				fmt.Fprintf(w, `\u%04x\u%04x`, 0xD800+c>>10, 0xDC00+c&0x3FF)
			case c < 0x20 || c > '~' && w.ascii:
				fmt.Fprintf(w, `\u%04x`, c)
			default:
				w.WriteRune(c)
			}
		}
	}
	w.WriteByte('"')
}
