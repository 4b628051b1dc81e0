package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxWidth limits the width and precision of a formatted value.
const maxWidth = 1000

// spec says how a value is written, as in Python's texts for format and %.
type spec struct {
	fill      str
	align     byte // '<', '>', '^', or '=' for a fill after the sign; 0: that of the kind of value
	sign      byte // '+' or ' ' before numbers that are not negative; 0: none
	comma     byte // between thousands; 0: none
	prefixed  bool // 0x and the like before digits of another base
	width     int
	precision int // -1: none
	verb      byte
}

// specReader reads the parts of a spec.
type specReader struct{ rest string }

func (s *specReader) flag(of string) (c byte) {
	if s.rest != "" && strings.IndexByte(of, s.rest[0]) >= 0 {
		c, s.rest = s.rest[0], s.rest[1:]
	}
	return c
}

func (s *specReader) number() int {
	end := strings.IndexFunc(s.rest, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(s.rest)
	}
	n, _ := strconv.Atoi(s.rest[:end]) // 0 without digits
	if end > 4 || n > maxWidth {
		fail("%w: a format of more than %d characters", ErrLimit, maxWidth)
	}
	s.rest = s.rest[end:]
	return n
}

// length reads a width and a precision.
func (s *specReader) length(to *spec) {
	to.width, to.precision = s.number(), -1
	if to.comma = s.flag(",_"); s.flag(".") != 0 {
		to.precision = s.number()
	}
}

// percent returns a text with its % replaced by arguments, as Python's operator % does: a tuple, an object for names in
// brackets, or another value.
func (r *run) percent(s str, arg value) str {
	var b builder
	var left []value
	named, fewer := arg.(*dict) // fewer: the argument may be left over, which Python accepts for what could have names
	if l, ok := arg.(*list); ok && l.tuple {
		left = l.items
	} else {
		left, fewer = []value{arg}, fewer || ok
	}
	next := func() (v value) {
		if len(left) == 0 {
			fail("the format has more places than values")
		}
		v, left = left[0], left[1:]
		return v
	}
	for {
		at := strings.IndexByte(s.String, '%')
		if at < 0 {
			if r.append(&b, s); len(left) > 0 && !fewer {
				fail("the format has fewer places than values")
			}
			return b.text()
		}
		r.append(&b, s.cut(0, at))
		p, rest := specReader{s.String[at+1:]}, next
		if p.flag("(") != 0 {
			name, after, ok := strings.Cut(p.rest, ")")
			if !ok || named == nil {
				fail("a name in a format needs a bracket at its end, and an object of values")
			}
			p.rest, rest = after, func() value {
				v, ok := r.find(named, literal(name))
				if !ok {
					fail("the format needs a value %.40q", name)
				}
				return v
			}
		}
		r.append(&b, r.percented(&p, rest))
		s = s.cut(len(s.String)-len(p.rest), len(s.String))
	}
}

// percented reads what follows a %, and returns a value in that form.
func (r *run) percented(p *specReader, next func() value) str {
	of := spec{align: '>', fill: literal(" ")}
	zero := false
	for c := p.flag("-+ 0#"); c != 0; c = p.flag("-+ 0#") {
		switch c {
		case '-':
			of.align = '<'
		case '0':
			zero = true
		case '#':
			of.prefixed = true
		default:
			of.sign = max(of.sign, c) // + counts more than a blank
		}
	}
	p.length(&of)
	p.flag("hlL")
	switch of.verb = p.flag("%srdiufFeEgGxXoc"); of.verb {
	case '%':
		return literal("%")
	case 0:
		fail("the format %%%.10s is not supported", p.rest)
	case 'r':
		var b strings.Builder
		r.write(&b, next())
		return of.fit(r, given(b.String()))
	case 's':
		return of.fit(r, r.text(next()))
	case 'i', 'u':
		of.verb = 'd'
	}
	if zero && of.align == '>' {
		of.align, of.fill = '=', literal("0")
	}
	return of.number(r, next())
}

// formatted returns a text with values in place of its fields, as Python's method format does.
func (r *run) formatted(s str, a args) str {
	var b builder
	auto := 0
	for {
		at := strings.IndexAny(s.String, "{}")
		if at < 0 {
			r.append(&b, s)
			return b.text()
		}
		c, rest := s.String[at:at+1], s.String[at+1:]
		if strings.HasPrefix(rest, c) {
			r.append(&b, s.cut(0, at+1))
			s = s.cut(at+2, len(s.String))
			continue
		}
		field, after, ok := strings.Cut(rest, "}")
		if c == "}" || !ok || strings.Contains(field, "{") {
			fail("a format has { and } around names, which do not contain any")
		}
		r.append(&b, s.cut(0, at))
		r.append(&b, r.fieldOf(field, a, &auto))
		s = s.cut(len(s.String)-len(after), len(s.String))
	}
}

// fieldOf returns the value of a field such as 0, name.part[1]!r or :>8, in its form. auto counts fields without a
// name.
func (r *run) fieldOf(field string, a args, auto *int) str {
	name, form, _ := strings.Cut(field, ":")
	name, conversion, _ := strings.Cut(name, "!")
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	key, path := name[:end], name[end:]
	if key == "" {
		key = strconv.Itoa(*auto)
		*auto++
	}
	v := value(undefined(key))
	if i, err := strconv.Atoi(key); err != nil {
		v = a.at(-1, key, v)
	} else {
		v = a.at(i, "", v)
	}
	if _, missing := v.(undefined); missing {
		fail("the format needs a value %.40q", key)
	}
	for path != "" {
		v, path = r.step(v, path)
	}
	switch conversion {
	case "r":
		var b strings.Builder
		r.write(&b, v)
		v = given(b.String())
	case "s":
		v = r.text(v)
	case "":
	default:
		fail("the conversion %.10q is not supported", conversion)
	}
	return r.inForm(v, form)
}

// step takes the first part of a path such as .name[1], and returns the rest.
func (r *run) step(v value, path string) (value, string) {
	if path[0] == '.' {
		end := strings.IndexAny(path[1:], ".[") + 1
		if end == 0 {
			end = len(path)
		}
		return r.field(v, path[1:end]), path[end:]
	}
	key, rest, _ := strings.Cut(path[1:], "]")
	if i, err := strconv.Atoi(key); err == nil {
		return r.element(v, i), rest
	}
	return r.element(v, literal(key)), rest
}

// inForm returns a value in the form of a text for format, such as >8 or .2f.
func (r *run) inForm(v value, form string) str {
	if form == "" {
		return r.text(v)
	}
	p, of := specReader{form}, spec{fill: literal(" ")}
	if _, n := utf8.DecodeRuneInString(form); n < len(form) && strings.IndexByte("<>^=", form[n]) >= 0 {
		of.fill, p.rest = literal(form[:n]), form[n:]
	}
	of.align, of.sign = p.flag("<>^="), p.flag("+- ")
	if of.prefixed = p.flag("#") != 0; p.flag("0") != 0 && of.align == 0 {
		of.fill, of.align = literal("0"), '='
	}
	p.length(&of)
	of.verb = p.flag("sdfFeEgGxXobc%")
	if p.rest != "" {
		fail("the form %.20q is not supported", form)
	}
	if _, ok := v.(str); ok && (of.verb == 0 || of.verb == 's') && of.sign == 0 && of.comma == 0 && of.align != '=' {
		return of.fit(r, v.(str))
	}
	if of.sign == '-' {
		of.sign = 0
	}
	if strings.IndexByte("dxXobc", of.verb) >= 0 && !isInt(v) {
		fail("%s is not a whole number, which the format needs", kind(v))
	}
	return of.number(r, v)
}

// number returns a number with its sign, digits and fill.
func (of spec) number(r *run, v value) str {
	if !isNumber(v) {
		fail("%s is not a number, which the format needs", kind(v))
	}
	sign, digits := "", of.digits(v)
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	} else if of.sign != 0 {
		sign = string(of.sign)
	}
	if of.prefixed && strings.IndexByte("xXob", of.verb) >= 0 {
		sign += "0" + string(of.verb)
	}
	if of.comma != 0 {
		digits = grouped(digits, string(of.comma))
	}
	if of.precision = -1; of.align != '=' {
		if of.align == 0 {
			of.align = '>'
		}
		return of.fit(r, given(sign+digits))
	}
	of.width, of.align = max(0, of.width-len(sign)), '>'
	return r.joined(given(sign), of.fit(r, given(digits)))
}

// digits returns the digits of a number, with a minus.
func (of spec) digits(v value) string {
	switch precision := of.precision; of.verb {
	case 0:
		if isInt(v) && precision < 0 {
			return strconv.Itoa(integer(v))
		} else if precision < 0 {
			return floatText(number(v))
		}
		fail("a precision needs f, e or g after it")
	case 'd':
		if !isInt(v) {
			v = int(number(v)) // as % does
		}
		return strconv.Itoa(integer(v))
	case 'x', 'X', 'o', 'b':
		base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[of.verb]
		text := strconv.FormatInt(int64(integer(v)), base)
		if of.verb == 'X' {
			return strings.ToUpper(text)
		}
		return text
	case 'c':
		return string(rune(integer(v)))
	case '%':
		of.verb = 'f'
		return of.digits(number(v)*100) + "%"
	case 'f', 'F', 'e', 'E', 'g', 'G':
		if precision < 0 {
			precision = 6
		}
		return strconv.FormatFloat(number(v), of.verb|0x20, precision, 64)
	}
	fail("a number cannot have the form %c", of.verb)
	return ""
}

// grouped puts a text between the thousands of digits before a point.
func grouped(digits, comma string) string {
	whole, rest, _ := strings.Cut(digits, ".")
	if rest != "" {
		rest = "." + rest
	}
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + comma + whole[at:]
	}
	return whole + rest
}

// fit cuts a text to the precision, and fills it to the width.
func (of spec) fit(r *run, s str) str {
	n := characters(s.String)
	if of.precision >= 0 && n > of.precision {
		s, n = r.slice(s, [3]value{nil, of.precision, nil}).(str), of.precision
	}
	r.spend(2*len(s.String) + 2*of.width)
	missing := max(0, of.width-n)
	before := 0
	switch of.align {
	case '>':
		before = missing
	case '^':
		before = missing / 2
	}
	return r.joined(r.joined(r.repeated(of.fill, before), s), r.repeated(of.fill, missing-before))
}
