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
			return &object{dictOf(r, a).values}
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
			d.set(k, from.values[k.String])
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
		if f := textMethods()[name]; f != nil {
			return function(func(r *run, a args) value { r.spend(len(v.String)); return f(r, v, a) })
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
		"isdigit": func(_ *run, s str, _ args) value {
			return s.String != "" && strings.IndexFunc(s.String, func(c rune) bool { return !unicode.IsDigit(c) }) < 0
		},
	}
})

// dictMethods are the methods of objects, by name.
var dictMethods = sync.OnceValue(func() map[string]func(r *run, d *dict, a args) value {
	return map[string]func(r *run, d *dict, a args) value{
		"get": func(r *run, d *dict, a args) value {
			if name := keyOf(a.at(0, "", nil)); r.has(d, name) {
				return d.values[name.String]
			}
			return a.at(1, "default", nil)
		},
		"keys":  func(r *run, d *dict, _ args) value { return &list{items: r.items(d)} },
		"items": func(r *run, d *dict, _ args) value { return r.pairs(d) },
		"values": func(r *run, d *dict, _ args) value {
			l := &list{}
			for _, k := range d.keys {
				r.spend(16)
				l.items = append(l.items, d.values[k.String])
			}
			return l
		},
	}
})

// pairs returns the fields of an object, each as name and value.
func (r *run) pairs(d *dict) *list {
	l := &list{}
	for _, k := range d.keys {
		r.spend(64)
		l.items = append(l.items, &list{[]value{k, d.values[k.String]}, true})
	}
	return l
}

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
		b.add(str{t, strings.Repeat(s.Given[i:i+1], len(t))})
		before = c
	}
	return b.text()
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
