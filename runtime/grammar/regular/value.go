package regular

import (
	"slices"
	"strconv"
	"strings"
)

// escapeRune returns JSON's escape of a character that must be escaped; "" for others.
func escapeRune(r rune) string {
	if r == '"' || r == '\\' {
		return `\` + string(r)
	}
	if i := strings.IndexRune("\b\f\n\r\t", r); i >= 0 {
		return `\` + "bfnrt"[i:i+1]
	}
	if r >= 0x20 {
		return ""
	}
	return `\u00` + strconv.FormatInt(int64(r)>>4, 16) + strconv.FormatInt(int64(r)&15, 16)
}

// Quote returns a string as JSON, with only the required escapes.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if e := escapeRune(r); e != "" {
			b.WriteString(e)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// spaceMark represents an optional space. It never occurs in a value: JSON escapes it.
const spaceMark = '\x1f'

// Values returns the set of some compact JSON values, each with an optional space after its commas and colons.
func Values(values []string) (*Set, error) {
	all := slices.Clone(values)
	for i, v := range all {
		all[i] = insertSpaceMarks(v)
	}
	d, err := Of(all)
	if err != nil {
		return nil, err
	}
	for i, arcs := range slices.Backward(d.Arcs) { // the states after a mark have higher numbers
		if len(arcs) == 1 && arcs[0].Lo == spaceMark {
			to := arcs[0].To
			d.Arcs[i] = append([]Arc{{' ', ' ', to}}, d.Arcs[to]...)
		}
	}
	return d, nil
}

func insertSpaceMarks(value string) string {
	if value[0] != '[' && value[0] != '{' {
		return value
	}
	var b strings.Builder
	in := false // a string
	for i := 0; i < len(value); i++ {
		c := value[i]
		b.WriteByte(c)
		switch {
		case c == '"':
			in = !in
		case in && c == '\\':
			i++
			b.WriteByte(value[i])
		case !in && (c == ',' || c == ':'):
			b.WriteByte(spaceMark)
		}
	}
	return b.String()
}
