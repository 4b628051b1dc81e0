package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxWidth limits the width and precision of a formatted value.
const maxWidth = 1000

// formatSpec says how a value is written, as in Python's texts for format and %.
type formatSpec struct {
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

func (s *specReader) readFlag(of string) (c byte) {
	if s.rest != "" && strings.IndexByte(of, s.rest[0]) >= 0 {
		c, s.rest = s.rest[0], s.rest[1:]
	}
	return c
}

func (s *specReader) readNumber() int {
	end := strings.IndexFunc(s.rest, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(s.rest)
	}
	n, _ := strconv.Atoi(s.rest[:end]) // 0 without digits
	if end > 4 || n > maxWidth {
		failWith("%w: a format of more than %d characters", ErrLimit, maxWidth)
	}
	s.rest = s.rest[end:]
	return n
}

func (s *specReader) readWidthPrecision(to *formatSpec) {
	to.width, to.precision = s.readNumber(), -1
	if to.comma = s.readFlag(",_"); s.readFlag(".") != 0 {
		to.precision = s.readNumber()
	}
}

// formatPercent returns a text with its % replaced by arguments, as Python's operator % does: a tuple, an object for
// names in brackets, or another value.
func (r *renderer) formatPercent(s str, arg value) str {
	var b textBuilder
	var left []value
	named, fewer := arg.(*dict) // fewer: the argument may be left over, which Python accepts for what could have names
	if l, ok := arg.(*list); ok && l.tuple {
		left = l.items
	} else {
		left, fewer = []value{arg}, fewer || ok
	}
	next := func() (v value) {
		if len(left) == 0 {
			failWith("the format has more places than values")
		}
		v, left = left[0], left[1:]
		return v
	}
	for {
		at := strings.IndexByte(s.String, '%')
		if at < 0 {
			if r.appendText(&b, s); len(left) > 0 && !fewer {
				failWith("the format has fewer places than values")
			}
			return b.buildText()
		}
		r.appendText(&b, s.sliceBytes(0, at))
		p, rest := specReader{s.String[at+1:]}, next
		if p.readFlag("(") != 0 {
			name, after, ok := strings.Cut(p.rest, ")")
			if !ok || named == nil {
				failWith("a name in a format needs a bracket at its end, and an object of values")
			}
			p.rest, rest = after, func() value {
				v, ok := r.lookupKey(named, literalText(name))
				if !ok {
					failWith("the format needs a value %.40q", name)
				}
				return v
			}
		}
		r.appendText(&b, r.formatConversion(&p, rest))
		s = s.sliceBytes(len(s.String)-len(p.rest), len(s.String))
	}
}

// formatConversion reads what follows a %, such as -5d.
func (r *renderer) formatConversion(p *specReader, next func() value) str {
	of := formatSpec{align: '>', fill: literalText(" ")}
	zero := false
	for c := p.readFlag("-+ 0#"); c != 0; c = p.readFlag("-+ 0#") {
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
	p.readWidthPrecision(&of)
	p.readFlag("hlL")
	switch of.verb = p.readFlag("%srdiufFeEgGxXoc"); of.verb {
	case '%':
		return literalText("%")
	case 0:
		failWith("the format %%%.10s is not supported", p.rest)
	case 'r':
		var b strings.Builder
		r.writeRepr(&b, next())
		return of.fitWidth(r, givenText(b.String()))
	case 's':
		return of.fitWidth(r, r.toText(next()))
	case 'i', 'u':
		of.verb = 'd'
	}
	if zero && of.align == '>' {
		of.align, of.fill = '=', literalText("0")
	}
	return of.formatNumber(r, next())
}

// formatBraces returns a text with values in place of its fields, as Python's method format does.
func (r *renderer) formatBraces(s str, a args) str {
	var b textBuilder
	auto := 0
	for {
		at := strings.IndexAny(s.String, "{}")
		if at < 0 {
			r.appendText(&b, s)
			return b.buildText()
		}
		c, rest := s.String[at:at+1], s.String[at+1:]
		if strings.HasPrefix(rest, c) {
			r.appendText(&b, s.sliceBytes(0, at+1))
			s = s.sliceBytes(at+2, len(s.String))
			continue
		}
		field, after, ok := strings.Cut(rest, "}")
		if c == "}" || !ok || strings.Contains(field, "{") {
			failWith("a format has { and } around names, which do not contain any")
		}
		r.appendText(&b, s.sliceBytes(0, at))
		r.appendText(&b, r.formatReplacementField(field, a, &auto))
		s = s.sliceBytes(len(s.String)-len(after), len(s.String))
	}
}

// formatReplacementField returns the value of a field such as 0, name.part[1]!r or :>8, in its form. auto counts fields
// without a name.
func (r *renderer) formatReplacementField(field string, a args, auto *int) str {
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
		v = a.valueOr(-1, key, v)
	} else {
		v = a.valueOr(i, "", v)
	}
	if _, missing := v.(undefined); missing {
		failWith("the format needs a value %.40q", key)
	}
	for path != "" {
		v, path = r.resolvePathStep(v, path)
	}
	switch conversion {
	case "r":
		var b strings.Builder
		r.writeRepr(&b, v)
		v = givenText(b.String())
	case "s":
		v = r.toText(v)
	case "":
	default:
		failWith("the conversion %.10q is not supported", conversion)
	}
	return r.formatWithSpec(v, form)
}

func (r *renderer) resolvePathStep(v value, path string) (value, string) {
	if path[0] == '.' {
		end := strings.IndexAny(path[1:], ".[") + 1
		if end == 0 {
			end = len(path)
		}
		return r.lookupField(v, path[1:end]), path[end:]
	}
	key, rest, _ := strings.Cut(path[1:], "]")
	if i, err := strconv.Atoi(key); err == nil {
		return r.lookupElement(v, i), rest
	}
	return r.lookupElement(v, literalText(key)), rest
}

// formatWithSpec returns a value in the form of a text for format, such as >8 or .2f.
func (r *renderer) formatWithSpec(v value, form string) str {
	if form == "" {
		return r.toText(v)
	}
	p, of := specReader{form}, formatSpec{fill: literalText(" ")}
	if _, n := utf8.DecodeRuneInString(form); n < len(form) && strings.IndexByte("<>^=", form[n]) >= 0 {
		of.fill, p.rest = literalText(form[:n]), form[n:]
	}
	of.align, of.sign = p.readFlag("<>^="), p.readFlag("+- ")
	if of.prefixed = p.readFlag("#") != 0; p.readFlag("0") != 0 && of.align == 0 {
		of.fill, of.align = literalText("0"), '='
	}
	p.readWidthPrecision(&of)
	of.verb = p.readFlag("sdfFeEgGxXobc%")
	if p.rest != "" {
		failWith("the form %.20q is not supported", form)
	}
	if _, ok := v.(str); ok && (of.verb == 0 || of.verb == 's') && of.sign == 0 && of.comma == 0 && of.align != '=' {
		return of.fitWidth(r, v.(str))
	}
	if of.sign == '-' {
		of.sign = 0
	}
	if strings.IndexByte("dxXobc", of.verb) >= 0 && !isInt(v) {
		failWith("%s is not a whole number, which the format needs", typeName(v))
	}
	return of.formatNumber(r, v)
}

func (of formatSpec) formatNumber(r *renderer, v value) str {
	if !isNumber(v) {
		failWith("%s is not a number, which the format needs", typeName(v))
	}
	sign, digits := "", of.formatDigits(v)
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	} else if of.sign != 0 {
		sign = string(of.sign)
	}
	if of.prefixed && strings.IndexByte("xXob", of.verb) >= 0 {
		sign += "0" + string(of.verb)
	}
	if of.comma != 0 {
		digits = groupThousands(digits, string(of.comma))
	}
	if of.precision = -1; of.align != '=' {
		if of.align == 0 {
			of.align = '>'
		}
		return of.fitWidth(r, givenText(sign+digits))
	}
	of.width, of.align = max(0, of.width-len(sign)), '>'
	return r.concatTexts(givenText(sign), of.fitWidth(r, givenText(digits)))
}

// formatDigits returns the digits of a number, with a minus.
func (of formatSpec) formatDigits(v value) string {
	switch precision := of.precision; of.verb {
	case 0:
		if isInt(v) && precision < 0 {
			return strconv.Itoa(asInteger(v))
		} else if precision < 0 {
			return formatFloat(asNumber(v))
		}
		failWith("a precision needs f, e or g after it")
	case 'd':
		if !isInt(v) {
			v = int(asNumber(v)) // as % does
		}
		return strconv.Itoa(asInteger(v))
	case 'x', 'X', 'o', 'b':
		base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[of.verb]
		text := strconv.FormatInt(int64(asInteger(v)), base)
		if of.verb == 'X' {
			return strings.ToUpper(text)
		}
		return text
	case 'c':
		return string(rune(asInteger(v)))
	case '%':
		of.verb = 'f'
		return of.formatDigits(asNumber(v)*100) + "%"
	case 'f', 'F', 'e', 'E', 'g', 'G':
		if precision < 0 {
			precision = 6
		}
		return strconv.FormatFloat(asNumber(v), of.verb|0x20, precision, 64)
	}
	failWith("a number cannot have the form %c", of.verb)
	return ""
}

func groupThousands(digits, comma string) string {
	whole, rest, _ := strings.Cut(digits, ".")
	if rest != "" {
		rest = "." + rest
	}
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + comma + whole[at:]
	}
	return whole + rest
}

// fitWidth cuts a text to the precision, and fills it to the width.
func (of formatSpec) fitWidth(r *renderer, s str) str {
	n := countCharacters(s.String)
	if of.precision >= 0 && n > of.precision {
		s, n = r.sliceValue(s, [3]value{nil, of.precision, nil}).(str), of.precision
	}
	r.spendWork(2*len(s.String) + 2*of.width)
	missing := max(0, of.width-n)
	before := 0
	switch of.align {
	case '>':
		before = missing
	case '^':
		before = missing / 2
	}
	return r.concatTexts(r.concatTexts(r.repeatText(of.fill, before), s), r.repeatText(of.fill, missing-before))
}
