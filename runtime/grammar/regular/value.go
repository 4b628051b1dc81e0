package regular

import (
	"slices"
	"strconv"
	"strings"
)

// escape returns how JSON spells a character that cannot stand for itself; "" for others.
func escape(r rune) string {
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

// Quote returns a string as JSON, with no character escaped that need not be.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if e := escape(r); e != "" {
			b.WriteString(e)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// mark stands for an optional space. No value has it: JSON escapes it.
const mark = '\x1f'

// Values returns the set of some compact JSON values, each with an optional space after its commas and colons.
func Values(values []string) (*Set, error) {
	all := slices.Clone(values)
	for i, v := range all {
		all[i] = marked(v)
	}
	d, err := Of(all)
	if err != nil {
		return nil, err
	}
	for i, arcs := range slices.Backward(d.Arcs) { // what a mark leads to has a higher number
		if len(arcs) == 1 && arcs[0].Lo == mark {
			to := arcs[0].To
			d.Arcs[i] = append([]Arc{{' ', ' ', to}}, d.Arcs[to]...)
		}
	}
	return d, nil
}

// marked puts marks after the commas and colons of a value.
func marked(value string) string {
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
			b.WriteByte(mark)
		}
	}
	return b.String()
}
