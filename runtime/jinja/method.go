package jinja

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// globals returns the functions that every template can call.
func globals() map[string]value {
	return map[string]value{
		"range":           function(rangeOf),
		"raise_exception": function(raise),
		"namespace": function(func(r *run, a args) value {
			return &object{dictOf(r, a)}
		}),
		"dict": function(func(r *run, a args) value { return dictOf(r, a) }),
	}
}

func raise(r *run, a args) value {
	panic(failure{&RaisedError{r.text(a.at(0, "message", literal("the template refuses this"))).String}})
}

// dictOf returns an object with the fields of another one and the named arguments.
func dictOf(r *run, a args) *dict {
	d := newDict()
	if from, ok := a.at(0, "", nil).(*dict); ok {
		for _, k := range from.keys {
			r.spend(32)
			d.set(k, from.values[hashed(k)])
		}
	}
	for _, name := range a.names {
		d.set(literal(name), a.named[name])
	}
	return d
}

// rangeOf returns the numbers of range(to) or range(from, to, step).
func rangeOf(r *run, a args) value {
	from, to, step := 0, integer(a.at(0, "", undefined("the end of the range"))), 1
	if len(a.list) > 1 {
		from, to = to, integer(a.list[1])
	}
	if len(a.list) > 2 {
		step = integer(a.list[2])
	}
	if step == 0 {
		fail("the step of a range is 0")
	}
	l := &list{}
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		r.spend(32)
		l.items = append(l.items, i)
	}
	return l
}

// method returns a method of a value; nil if it has none of this name.
func (r *run) method(v value, name string) value {
	switch v := v.(type) {
	case str:
		if name == "format" { // which is not in the table, because its fields can have methods
			return function(func(r *run, a args) value { return r.formatted(v, a) })
		}
		if f := textMethods()[name]; f != nil {
			return function(func(r *run, a args) value { r.spend(len(v.String)); return f(r, v, a) })
		}
	case *list:
		if f := listMethods()[name]; f != nil && v.view == "" {
			return function(func(r *run, a args) value { return f(r, v, a) })
		}
	case *dict:
		if f := dictMethods()[name]; f != nil {
			return function(func(r *run, a args) value { return f(r, v, a) })
		}
	}
	return nil
}

// textMethods are the methods of texts, by name.
var textMethods = sync.OnceValue(func() map[string]func(r *run, s str, a args) value {
	return map[string]func(r *run, s str, a args) value{
		"strip":      func(r *run, s str, a args) value { return r.strip(s, a, true, true) },
		"lstrip":     func(r *run, s str, a args) value { return r.strip(s, a, true, false) },
		"rstrip":     func(r *run, s str, a args) value { return r.strip(s, a, false, true) },
		"split":      func(r *run, s str, a args) value { return r.split(s, a) },
		"rsplit":     func(r *run, s str, a args) value { return r.rsplit(s, a) },
		"splitlines": func(r *run, s str, a args) value { return r.lines(s, truth(a.at(0, "keepends", false))) },
		"startswith": func(r *run, s str, a args) value { return r.anyOf(a, s.String, strings.HasPrefix) },
		"endswith":   func(r *run, s str, a args) value { return r.anyOf(a, s.String, strings.HasSuffix) },
		"upper":      func(r *run, s str, _ args) value { return r.mapped(s, upper) },
		"lower":      func(r *run, s str, _ args) value { return r.mapped(s, lower) },
		"title":      func(r *run, s str, _ args) value { return r.mapped(s, title) },
		"capitalize": func(r *run, s str, _ args) value { return r.mapped(s, capital) },
		"replace":    func(r *run, s str, a args) value { return r.replace(s, a) },
		"join":       func(r *run, s str, a args) value { return r.join(r.items(a.at(0, "", nil)), s) },
		"find":       func(_ *run, s str, a args) value { return s.find(a, strings.Index) },
		"rfind":      func(_ *run, s str, a args) value { return s.find(a, strings.LastIndex) },
		"count": func(_ *run, s str, a args) value {
			return strings.Count(s.String, keyOf(part(a)).String)
		},
		"removeprefix": func(_ *run, s str, a args) value { return s.without(a, true) },
		"removesuffix": func(_ *run, s str, a args) value { return s.without(a, false) },
		"partition":    func(_ *run, s str, a args) value { return s.partition(a, strings.Index, false) },
		"rpartition":   func(_ *run, s str, a args) value { return s.partition(a, strings.LastIndex, true) },
		"center": func(r *run, s str, a args) value {
			return r.padded(s, a, func(n, width int) int { return n/2 + n&width&1 })
		},
		"ljust": func(r *run, s str, a args) value { return r.padded(s, a, func(int, int) int { return 0 }) },
		"rjust": func(r *run, s str, a args) value { return r.padded(s, a, allBefore) },
		"zfill": func(r *run, s str, a args) value {
			sign := 0
			if strings.HasPrefix(s.String, "-") || strings.HasPrefix(s.String, "+") {
				sign = 1
			}
			a = args{list: []value{integer(a.at(0, "width", 0)) - sign, literal("0")}}
			return r.joined(s.cut(0, sign), r.padded(s.cut(sign, len(s.String)), a, allBefore))
		},
		"isdigit":   func(_ *run, s str, _ args) value { return s.all(unicode.IsDigit) },
		"isdecimal": func(_ *run, s str, _ args) value { return s.all(unicode.IsDigit) },
		"isnumeric": func(_ *run, s str, _ args) value { return s.all(unicode.IsNumber) },
		"isalpha":   func(_ *run, s str, _ args) value { return s.all(unicode.IsLetter) },
		"isspace":   func(_ *run, s str, _ args) value { return s.all(unicode.IsSpace) },
		"isalnum": func(_ *run, s str, _ args) value {
			return s.all(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })
		},
		"islower": func(_ *run, s str, _ args) value { return plainTests()["lower"](s) },
		"isupper": func(_ *run, s str, _ args) value { return plainTests()["upper"](s) },
	}
})

// all reports whether a text has characters, and each passes a test.
func (s str) all(test func(c rune) bool) bool {
	return s.String != "" && strings.IndexFunc(s.String, func(c rune) bool { return !test(c) }) < 0
}

// cased reports whether a text has letters of one case and none of the other.
func cased(v value, this, other func(c rune) bool) bool {
	s := keyOf(v)
	return strings.IndexFunc(s.String, this) >= 0 && strings.IndexFunc(s.String, other) < 0
}

// without removes the argument at the beginning or at the end.
func (s str) without(a args, begin bool) str {
	n := len(keyOf(part(a)).String)
	switch {
	case begin && strings.HasPrefix(s.String, keyOf(part(a)).String):
		return s.cut(n, len(s.String))
	case !begin && strings.HasSuffix(s.String, keyOf(part(a)).String):
		return s.cut(0, len(s.String)-n)
	}
	return s
}

// partition returns what is before a separator, the separator, and what is after it. If there is none, the whole text
// comes first, or last.
func (s str) partition(a args, index func(s, part string) int, last bool) *list {
	sep := keyOf(part(a))
	if sep.String == "" {
		fail("partition needs a separator that is not empty")
	}
	at := index(s.String, sep.String)
	switch {
	case at >= 0:
		return tuple(s.cut(0, at), s.cut(at, at+len(sep.String)), s.cut(at+len(sep.String), len(s.String)))
	case last:
		return tuple(str{}, str{}, s)
	}
	return tuple(s, str{}, str{})
}

// padded fills a text to a width. before returns how many of n missing characters come before it.
func (r *run) padded(s str, a args, before func(n, width int) int) str {
	width := integer(a.at(0, "width", 80))
	if width > maxWidth {
		fail("%w: a width of more than %d characters", ErrLimit, maxWidth)
	}
	fill := keyOf(a.at(1, "fillchar", literal(" ")))
	if characters(fill.String) != 1 {
		fail("a text is filled with one character, not %.40q", fill.String)
	}
	missing := max(0, width-characters(s.String))
	left := before(missing, width)
	return r.joined(r.joined(r.repeated(fill, left), s), r.repeated(fill, missing-left))
}

func allBefore(n, _ int) int { return n }

// escaped returns a text for HTML, unless it is safe.
func (r *run) escaped(s str) str {
	if s.safe {
		return s
	}
	r.spend(2 * len(s.String))
	var b builder
	for at := strings.IndexAny(s.String, "&<>'\""); at >= 0; at = strings.IndexAny(s.String, "&<>'\"") {
		entity := map[byte]string{'&': "&amp;", '<': "&lt;", '>': "&gt;", '\'': "&#39;", '"': "&#34;"}[s.String[at]]
		b.add(s.cut(0, at))
		b.add(str{Text: Text{entity, strings.Repeat(s.Given[at:at+1], len(entity))}})
		s = s.cut(at+1, len(s.String))
	}
	b.add(s)
	t := b.text()
	t.safe = true
	return t
}

// all returns the arguments for the operator %: the values, or an object of the named ones.
func (a args) all() value {
	if len(a.names) == 0 {
		return tuple(a.list...)
	} else if len(a.list) > 0 {
		fail("a format has values, or values with names")
	}
	d := newDict()
	for _, name := range a.names {
		d.set(literal(name), a.named[name])
	}
	return d
}

// listMethods are the methods of lists, by name.
var listMethods = sync.OnceValue(func() map[string]func(r *run, l *list, a args) value {
	return map[string]func(r *run, l *list, a args) value{
		"count": func(r *run, l *list, a args) value {
			n := 0
			for _, v := range l.items {
				if r.equal(v, a.at(0, "", nil)) {
					n++
				}
			}
			return n
		},
		"index": func(r *run, l *list, a args) value {
			at := slices.IndexFunc(l.items, func(v value) bool { return r.equal(v, a.at(0, "", nil)) })
			if at < 0 {
				fail("the list does not have this element")
			}
			return at
		},
	}
})

// dictMethods are the methods of objects, by name.
var dictMethods = sync.OnceValue(func() map[string]func(r *run, d *dict, a args) value {
	return map[string]func(r *run, d *dict, a args) value{
		"get": func(r *run, d *dict, a args) value {
			if v, ok := r.find(d, a.at(0, "", nil)); ok {
				return v
			}
			return a.at(1, "default", nil)
		},
		"keys":  func(r *run, d *dict, _ args) value { return &list{items: r.items(d), view: "dict_keys"} },
		"items": func(r *run, d *dict, _ args) value { return &list{items: r.pairs(d), view: "dict_items"} },
		"values": func(r *run, d *dict, _ args) value {
			l := &list{view: "dict_values"}
			for _, k := range d.keys {
				r.spend(16)
				l.items = append(l.items, d.values[hashed(k)])
			}
			return l
		},
	}
})

// pairs returns the fields of an object, each as name and value.
func (r *run) pairs(d *dict) (all []value) {
	for _, k := range d.keys {
		r.spend(64)
		all = append(all, tuple(k, d.values[hashed(k)]))
	}
	return all
}

func tuple(items ...value) *list { return &list{items: items, tuple: true} }

// strip removes characters at the ends: blanks, or those of the argument.
func (r *run) strip(s str, a args, left, right bool) str {
	cut := unicode.IsSpace
	if set, ok := a.at(0, "chars", nil).(str); ok {
		cut = func(c rune) bool { r.spend(len(set.String)); return strings.ContainsRune(set.String, c) }
	}
	from, to := 0, len(s.String)
	if left {
		from = to - len(strings.TrimLeftFunc(s.String, cut))
	}
	if right {
		to = from + len(strings.TrimRightFunc(s.String[from:], cut))
	}
	return s.cut(from, to)
}

// split cuts at a separator, or at blanks if there is none, at most as often as the second argument says.
func (r *run) split(s str, a args) *list {
	limit := -1
	if v := a.at(1, "maxsplit", nil); v != nil {
		limit = integer(v)
	}
	l := &list{}
	sep, ok := a.at(0, "sep", nil).(str)
	if ok && sep.String == "" {
		fail("split needs a separator that is not empty")
	}
	for rest := s; ; {
		r.spend(32)
		if !ok {
			rest = r.strip(rest, args{}, true, false)
		}
		at := strings.Index(rest.String, sep.String)
		if !ok { // the next turn removes the blanks
			at = strings.IndexFunc(rest.String, unicode.IsSpace)
		}
		if at < 0 || limit == 0 {
			if ok || rest.String != "" {
				l.items = append(l.items, rest)
			}
			return l
		}
		limit--
		l.items = append(l.items, rest.cut(0, at))
		rest = rest.cut(at+len(sep.String), len(rest.String))
	}
}

// rsplit is split from the end, with a separator.
func (r *run) rsplit(s str, a args) *list {
	sep, limit := keyOf(a.at(0, "sep", nil)), -1
	if v := a.at(1, "maxsplit", nil); v != nil {
		limit = integer(v)
	}
	if sep.String == "" {
		fail("rsplit needs a separator that is not empty")
	}
	l := &list{}
	for ; limit != 0; limit-- {
		r.spend(32)
		at := strings.LastIndex(s.String, sep.String)
		if at < 0 {
			break
		}
		l.items = append(l.items, s.cut(at+len(sep.String), len(s.String)))
		s = s.cut(0, at)
	}
	l.items = append(l.items, s)
	slices.Reverse(l.items)
	return l
}

// lines returns the lines of a text, with or without their ends.
func (r *run) lines(s str, ends bool) *list {
	l := &list{}
	for s.String != "" {
		r.spend(32)
		at := strings.IndexFunc(s.String, endsLine)
		if at < 0 {
			l.items = append(l.items, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s.String[at:])
		if strings.HasPrefix(s.String[at:], "\r\n") {
			n = 2
		}
		line, rest := s.cut(0, at), s.cut(at+n, len(s.String))
		if ends {
			line = s.cut(0, at+n)
		}
		l.items, s = append(l.items, line), rest
	}
	return l
}

// endsLine reports whether a character ends a line in Python.
func endsLine(c rune) bool {
	return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
}

// anyOf reports whether a test holds for the argument, or for one of its elements.
func (r *run) anyOf(a args, s string, test func(s, part string) bool) bool {
	switch v := part(a).(type) {
	case str:
		return test(s, v.String)
	case *list:
		return slices.ContainsFunc(v.items, func(one value) bool {
			r.spend(1 + len(s))
			return test(s, keyOf(one).String)
		})
	}
	fail("a text is expected")
	return false
}

// The cases of letters: each maps a character, given the one before, which is -1 for the first.
func upper(c, _ rune) rune { return unicode.ToUpper(c) }
func lower(c, _ rune) rune { return unicode.ToLower(c) }
func title(c, before rune) rune {
	if unicode.IsLetter(before) {
		return unicode.ToLower(c)
	}
	return unicode.ToTitle(c)
}
func words(c, before rune) rune { // of the filter title
	if before >= 0 && !unicode.IsSpace(before) && !strings.ContainsRune("-({[<", before) {
		return unicode.ToLower(c)
	}
	return unicode.ToUpper(c)
}
func capital(c, before rune) rune {
	if before >= 0 {
		return unicode.ToLower(c)
	}
	return unicode.ToTitle(c)
}

// mapped replaces each character.
func (r *run) mapped(s str, by func(c, before rune) rune) str {
	r.spend(2 * len(s.String))
	var b builder
	before := rune(-1)
	for i, c := range s.String {
		t := string(by(c, before))
		b.add(str{Text: Text{t, strings.Repeat(s.Given[i:i+1], len(t))}})
		before = c
	}
	t := b.text()
	t.safe = s.safe
	return t
}

// replace replaces a text by another one, at most as often as the third argument says.
func (r *run) replace(s str, a args) str {
	old, by := keyOf(a.at(0, "old", nil)), keyOf(a.at(1, "new", nil))
	if old.String == "" {
		fail("replace needs a text to replace that is not empty")
	}
	return r.join(r.split(s, args{list: []value{old, a.at(2, "count", nil)}}).items, by)
}

// part returns the argument of a method that searches a text.
func part(a args) value {
	if len(a.list) > 1 {
		fail("a search in a part of a text is not supported")
	}
	return a.at(0, "", nil)
}

// find returns where a text begins, in characters; -1 if it does not.
func (s str) find(a args, index func(s, part string) int) int {
	at := index(s.String, keyOf(part(a)).String)
	if at < 0 {
		return -1
	}
	return characters(s.String[:at])
}
