package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (r *renderer) convertInput(v any) value {
	defer r.enterDepth(1)()
	r.read += bytesPerValue
	switch v := v.(type) {
	case nil, bool, int:
		return v
	case string:
		r.read += len(v)
		return givenText(v)
	case Trusted:
		return literalText(string(v))
	case json.RawMessage:
		r.read += len(v)
		return r.parseJSON(v)
	case []any:
		l := &list{}
		for _, one := range v {
			l.items = append(l.items, r.convertInput(one))
		}
		return l
	case Object:
		d := newDict()
		for _, f := range v {
			r.read += len(f.Name)
			d.setKey(givenText(f.Name), r.convertInput(f.Value))
		}
		return d
	case Func:
		return function(func(r *renderer, a args) value {
			text, err := v(asFieldName(a.valueOr(0, "format", undefined("the text"))).String)
			if err != nil {
				failWith("%w", err)
			}
			r.spendWork(2 * len(text))
			return givenText(text)
		})
	}
	failWith("values of the type %T are not supported", v)
	return nil
}

// CheckJSON returns an error if a text is not JSON, or is nested too deeply to be given to a template.
func CheckJSON(text []byte) (err error) {
	defer recoverFailure(new(int), &err)
	new(renderer).parseJSON(text)
	return nil
}

func (r *renderer) parseJSON(text []byte) value {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil { // the decoder alone accepts more
		failWith("this is not JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return r.decodeJSON(d)
}

func readJSONToken(d *json.Decoder) json.Token {
	t, err := d.Token()
	if err != nil {
		failWith("this is not JSON: %w", err)
	}
	return t
}

func (r *renderer) decodeJSON(d *json.Decoder) value {
	switch t := readJSONToken(d).(type) {
	case json.Delim:
		defer r.enterDepth(1)()
		if t == '[' {
			l := &list{}
			for d.More() {
				l.items = append(l.items, r.decodeJSON(d))
			}
			readJSONToken(d)
			return l
		}
		o := newDict()
		for d.More() {
			name, _ := readJSONToken(d).(string)
			o.setKey(givenText(name), r.decodeJSON(d))
		}
		readJSONToken(d)
		return o
	case string:
		return givenText(t)
	case json.Number: // as it is written, since a request's numbers are not this program's to change
		if len(t) > maxNumber {
			failWith("a number of %d characters, at most %d are possible", len(t), maxNumber)
		}
		return t
	case bool:
		return t
	}
	return nil
}

// tojsonFilter writes a value like Python's json.dumps with ensure_ascii=False.
func tojsonFilter(r *renderer, v value, a args) value {
	w := jsonWriter{renderer: r, comma: ", ", colon: ": "}
	if n := a.valueOr(1, "indent", nil); n != nil {
		w.comma, w.indent, w.pretty = ",", strings.Repeat(" ", min(max(asInteger(n), 0), 64)), true
	}
	if l, ok := a.valueOr(2, "separators", nil).(*list); ok && len(l.items) == 2 {
		w.comma, w.colon = asFieldName(l.items[0]).String, asFieldName(l.items[1]).String
	}
	w.sort = isTrue(a.valueOr(3, "sort_keys", false))
	w.ascii = isTrue(a.valueOr(0, "ensure_ascii", false))
	w.writeValue(v)
	return givenText(w.String())
}

type jsonWriter struct {
	strings.Builder
	*renderer
	comma, colon string
	indent       string
	pretty       bool
	level        int // of brackets
	sort, ascii  bool
}

func (w *jsonWriter) writeValue(v value) {
	w.spendWork(8)
	switch v := v.(type) {
	case str:
		w.writeQuoted(v.String)
	case *list:
		w.writeContainer("[", "]", len(v.items), func(i int) { w.writeValue(v.items[i]) })
	case *generator: // an error in Python
		w.writeValue(&list{items: v.items})
	case *dict:
		keys := v.keys
		if w.sort {
			w.spendWork(16 * len(keys))
			keys = slices.Clone(keys)
			slices.SortFunc(keys, w.compareValues)
		}
		w.writeContainer("{", "}", len(keys), func(i int) {
			if key, ok := keys[i].(str); ok {
				w.writeQuoted(key.String)
			} else { // JSON has no other keys than texts
				w.WriteByte('"')
				w.writeValue(keys[i])
				w.WriteByte('"')
			}
			w.WriteString(w.colon)
			w.writeValue(v.values[hashKey(keys[i])])
		})
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(v))
	case int, float64, json.Number:
		w.WriteString(w.formatScalar(v))
	default:
		failWith("%s is not JSON", typeName(v))
	}
}

func (w *jsonWriter) writeContainer(open, end string, n int, one func(i int)) {
	defer w.enterDepth(1)()
	w.level++
	defer func() { w.level-- }()
	w.WriteString(open)
	line := func(depth int) {
		if w.pretty && n > 0 {
			w.spendWork(depth * len(w.indent))
			w.WriteString("\n" + strings.Repeat(w.indent, depth))
		}
	}
	for i := range n {
		if i > 0 {
			w.WriteString(w.comma)
		}
		w.spendWork(len(w.comma) + len(w.colon))
		line(w.level)
		one(i)
	}
	line(w.level - 1)
	w.WriteString(end)
}

func (w *jsonWriter) writeQuoted(s string) {
	w.spendWork(2 * len(s))
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
