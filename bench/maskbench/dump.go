package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// dumpJSON writes a value as Python's json.dumps(json.loads(raw), ensure_ascii=False) does: keys in their order, a
// space after commas and colons, and numbers with a point or an exponent as the nearest float64.
func dumpJSON(raw json.RawMessage) (string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var b strings.Builder
	err := dumpValue(&b, d)
	return b.String(), err
}

func dumpValue(b *strings.Builder, d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		b.WriteString(t.String())
		for i := 0; d.More(); i++ {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := dumpValue(b, d); err != nil {
				return err
			}
			if t == '{' {
				b.WriteString(": ")
				if err := dumpValue(b, d); err != nil {
					return err
				}
			}
		}
		b.WriteString(map[json.Delim]string{'{': "}", '[': "]"}[t])
		_, err = d.Token()
		return err
	case string:
		dumpString(b, t)
	case json.Number:
		b.WriteString(formatPythonNumber(t.String()))
	case nil:
		b.WriteString("null")
	default:
		fmt.Fprint(b, t)
	}
	return nil
}

func dumpString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20:
			if i := strings.IndexRune("\n\r\t\f\b", r); i >= 0 {
				b.WriteByte('\\')
				b.WriteByte("nrtfb"[i])
			} else {
				fmt.Fprintf(b, `\u%04x`, r)
			}
		default:
			b.Write(utf8.AppendRune(nil, r))
		}
	}
	b.WriteByte('"')
}

func formatPythonNumber(text string) string {
	if text == "-0" {
		return "0"
	}
	if !strings.ContainsAny(text, ".eE") {
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	_, exponent, _ := strings.Cut(s, "e")
	if n, _ := strconv.Atoi(exponent); n < -4 || n >= 16 {
		return s
	}
	if s = strconv.FormatFloat(f, 'f', -1, 64); !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
