package jinja

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

func globalFunctions() map[string]value {
	return map[string]value{
		"range":           function(makeRange),
		"raise_exception": function(raiseException),
		"namespace": function(func(r *renderer, a args) value {
			return &namespace{dictFromArgs(r, a)}
		}),
		"dict": function(func(r *renderer, a args) value { return dictFromArgs(r, a) }),
	}
}

func raiseException(r *renderer, a args) value {
	panic(failure{&RaisedError{r.toText(a.valueOr(0, "message", literalText("the template refuses this"))).String}})
}

func dictFromArgs(r *renderer, a args) *dict {
	d := newDict()
	if from, ok := a.valueOr(0, "", nil).(*dict); ok {
		for _, k := range from.keys {
			r.spendWork(32)
			d.setKey(k, from.values[hashKey(k)])
		}
	}
	for _, name := range a.names {
		d.setKey(literalText(name), a.named[name])
	}
	return d
}

// makeRange returns the numbers of range(to) or range(from, to, step).
func makeRange(r *renderer, a args) value {
	from, to, step := 0, asInteger(a.valueOr(0, "", undefined("the end of the range"))), 1
	if len(a.list) > 1 {
		from, to = to, asInteger(a.list[1])
	}
	if len(a.list) > 2 {
		step = asInteger(a.list[2])
	}
	if step == 0 {
		failWith("the step of a range is 0")
	}
	l := &list{}
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		r.spendWork(32)
		l.items = append(l.items, i)
	}
	return l
}

// lookupMethod returns a method of a value; nil if it has none of this name.
func (r *renderer) lookupMethod(v value, name string) value {
	switch v := v.(type) {
	case str:
		if name == "format" { // which is not in the table, because its fields can have methods
			return function(func(r *renderer, a args) value { return r.formatBraces(v, a) })
		}
		if f := textMethods()[name]; f != nil {
			return function(func(r *renderer, a args) value { r.spendWork(len(v.String)); return f(r, v, a) })
		}
	case *list:
		if f := listMethods()[name]; f != nil && v.view == "" {
			return function(func(r *renderer, a args) value { return f(r, v, a) })
		}
	case *dict:
		if f := dictMethods()[name]; f != nil {
			return function(func(r *renderer, a args) value { return f(r, v, a) })
		}
	}
	return nil
}

// textMethods are the methods of texts, by name.
var textMethods = sync.OnceValue(func() map[string]func(r *renderer, s str, a args) value {
	return map[string]func(r *renderer, s str, a args) value{
		"strip":  func(r *renderer, s str, a args) value { return r.stripText(s, a, true, true) },
		"lstrip": func(r *renderer, s str, a args) value { return r.stripText(s, a, true, false) },
		"rstrip": func(r *renderer, s str, a args) value { return r.stripText(s, a, false, true) },
		"split":  func(r *renderer, s str, a args) value { return r.splitText(s, a) },
		"rsplit": func(r *renderer, s str, a args) value { return r.rsplitText(s, a) },
		"splitlines": func(r *renderer, s str, a args) value {
			return r.splitLines(s, isTrue(a.valueOr(0, "keepends", false)))
		},
		"startswith": func(r *renderer, s str, a args) value { return r.matchesAny(a, s.String, strings.HasPrefix) },
		"endswith":   func(r *renderer, s str, a args) value { return r.matchesAny(a, s.String, strings.HasSuffix) },
		"upper":      func(r *renderer, s str, _ args) value { return r.mapCharacters(s, upperRune) },
		"lower":      func(r *renderer, s str, _ args) value { return r.mapCharacters(s, lowerRune) },
		"title":      func(r *renderer, s str, _ args) value { return r.mapCharacters(s, titleRune) },
		"capitalize": func(r *renderer, s str, _ args) value { return r.mapCharacters(s, capitalizeRune) },
		"replace":    func(r *renderer, s str, a args) value { return r.replaceText(s, a) },
		"join": func(r *renderer, s str, a args) value {
			return r.joinTexts(r.collectItems(a.valueOr(0, "", nil)), s)
		},
		"find":  func(_ *renderer, s str, a args) value { return s.characterIndex(a, strings.Index) },
		"rfind": func(_ *renderer, s str, a args) value { return s.characterIndex(a, strings.LastIndex) },
		"count": func(_ *renderer, s str, a args) value {
			return strings.Count(s.String, asFieldName(searchArgument(a)).String)
		},
		"removeprefix": func(_ *renderer, s str, a args) value { return s.removeAffix(a, true) },
		"removesuffix": func(_ *renderer, s str, a args) value { return s.removeAffix(a, false) },
		"partition":    func(_ *renderer, s str, a args) value { return s.partitionText(a, strings.Index, false) },
		"rpartition":   func(_ *renderer, s str, a args) value { return s.partitionText(a, strings.LastIndex, true) },
		"center": func(r *renderer, s str, a args) value {
			return r.padText(s, a, func(n, width int) int { return n/2 + n&width&1 })
		},
		"ljust": func(r *renderer, s str, a args) value { return r.padText(s, a, func(int, int) int { return 0 }) },
		"rjust": func(r *renderer, s str, a args) value { return r.padText(s, a, allBefore) },
		"zfill": func(r *renderer, s str, a args) value {
			sign := 0
			if strings.HasPrefix(s.String, "-") || strings.HasPrefix(s.String, "+") {
				sign = 1
			}
			a = args{list: []value{asInteger(a.valueOr(0, "width", 0)) - sign, literalText("0")}}
			return r.concatTexts(s.sliceBytes(0, sign), r.padText(s.sliceBytes(sign, len(s.String)), a, allBefore))
		},
		"isdigit":   func(_ *renderer, s str, _ args) value { return s.allCharacters(unicode.IsDigit) },
		"isdecimal": func(_ *renderer, s str, _ args) value { return s.allCharacters(unicode.IsDigit) },
		"isnumeric": func(_ *renderer, s str, _ args) value { return s.allCharacters(unicode.IsNumber) },
		"isalpha":   func(_ *renderer, s str, _ args) value { return s.allCharacters(unicode.IsLetter) },
		"isspace":   func(_ *renderer, s str, _ args) value { return s.allCharacters(unicode.IsSpace) },
		"isalnum": func(_ *renderer, s str, _ args) value {
			return s.allCharacters(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })
		},
		"islower": func(_ *renderer, s str, _ args) value { return plainTests()["lower"](s) },
		"isupper": func(_ *renderer, s str, _ args) value { return plainTests()["upper"](s) },
	}
})

// allCharacters reports whether a text has characters, and each passes a test.
func (s str) allCharacters(test func(c rune) bool) bool {
	return s.String != "" && strings.IndexFunc(s.String, func(c rune) bool { return !test(c) }) < 0
}

// hasOnlyCase reports whether a text has letters of one case and none of the other.
func hasOnlyCase(v value, this, other func(c rune) bool) bool {
	s := asFieldName(v)
	return strings.IndexFunc(s.String, this) >= 0 && strings.IndexFunc(s.String, other) < 0
}

// removeAffix removes the argument at the beginning or at the end.
func (s str) removeAffix(a args, begin bool) str {
	n := len(asFieldName(searchArgument(a)).String)
	switch {
	case begin && strings.HasPrefix(s.String, asFieldName(searchArgument(a)).String):
		return s.sliceBytes(n, len(s.String))
	case !begin && strings.HasSuffix(s.String, asFieldName(searchArgument(a)).String):
		return s.sliceBytes(0, len(s.String)-n)
	}
	return s
}

// partitionText returns what is before a separator, the separator, and what is after it. If there is none, the whole
// text comes first, or last.
func (s str) partitionText(a args, index func(s, part string) int, last bool) *list {
	sep := asFieldName(searchArgument(a))
	if sep.String == "" {
		failWith("partition needs a separator that is not empty")
	}
	at := index(s.String, sep.String)
	switch {
	case at >= 0:
		end := at + len(sep.String)
		return newTuple(s.sliceBytes(0, at), s.sliceBytes(at, end), s.sliceBytes(end, len(s.String)))
	case last:
		return newTuple(str{}, str{}, s)
	}
	return newTuple(s, str{}, str{})
}

// padText calls before for how many of n missing characters come before the text.
func (r *renderer) padText(s str, a args, before func(n, width int) int) str {
	width := asInteger(a.valueOr(0, "width", 80))
	if width > maxWidth {
		failWith("%w: a width of more than %d characters", ErrLimit, maxWidth)
	}
	fill := asFieldName(a.valueOr(1, "fillchar", literalText(" ")))
	if countCharacters(fill.String) != 1 {
		failWith("a text is filled with one character, not %.40q", fill.String)
	}
	missing := max(0, width-countCharacters(s.String))
	left := before(missing, width)
	return r.concatTexts(r.concatTexts(r.repeatText(fill, left), s), r.repeatText(fill, missing-left))
}

func allBefore(n, _ int) int { return n }

// escapeHTML returns a text for HTML, unless it is safe.
func (r *renderer) escapeHTML(s str) str {
	if s.safe {
		return s
	}
	r.spendWork(2 * len(s.String))
	var b textBuilder
	for at := strings.IndexAny(s.String, "&<>'\""); at >= 0; at = strings.IndexAny(s.String, "&<>'\"") {
		entity := map[byte]string{'&': "&amp;", '<': "&lt;", '>': "&gt;", '\'': "&#39;", '"': "&#34;"}[s.String[at]]
		b.writeText(s.sliceBytes(0, at))
		b.writeText(str{Text: Text{entity, strings.Repeat(s.Given[at:at+1], len(entity))}})
		s = s.sliceBytes(at+1, len(s.String))
	}
	b.writeText(s)
	t := b.buildText()
	t.safe = true
	return t
}

// percentOperand returns the arguments for the operator %: the values, or an object of the named ones.
func (a args) percentOperand() value {
	if len(a.names) == 0 {
		return newTuple(a.list...)
	} else if len(a.list) > 0 {
		failWith("a format has values, or values with names")
	}
	d := newDict()
	for _, name := range a.names {
		d.setKey(literalText(name), a.named[name])
	}
	return d
}

// listMethods are the methods of lists, by name.
var listMethods = sync.OnceValue(func() map[string]func(r *renderer, l *list, a args) value {
	return map[string]func(r *renderer, l *list, a args) value{
		"count": func(r *renderer, l *list, a args) value {
			n := 0
			for _, v := range l.items {
				if r.equalValues(v, a.valueOr(0, "", nil)) {
					n++
				}
			}
			return n
		},
		"index": func(r *renderer, l *list, a args) value {
			at := slices.IndexFunc(l.items, func(v value) bool { return r.equalValues(v, a.valueOr(0, "", nil)) })
			if at < 0 {
				failWith("the list does not have this element")
			}
			return at
		},
	}
})

// dictMethods are the methods of objects, by name.
var dictMethods = sync.OnceValue(func() map[string]func(r *renderer, d *dict, a args) value {
	return map[string]func(r *renderer, d *dict, a args) value{
		"get": func(r *renderer, d *dict, a args) value {
			if v, ok := r.lookupKey(d, a.valueOr(0, "", nil)); ok {
				return v
			}
			return a.valueOr(1, "default", nil)
		},
		"keys":  func(r *renderer, d *dict, _ args) value { return &list{items: r.collectItems(d), view: "dict_keys"} },
		"items": func(r *renderer, d *dict, _ args) value { return &list{items: r.dictPairs(d), view: "dict_items"} },
		"values": func(r *renderer, d *dict, _ args) value {
			l := &list{view: "dict_values"}
			for _, k := range d.keys {
				r.spendWork(16)
				l.items = append(l.items, d.values[hashKey(k)])
			}
			return l
		},
	}
})

func (r *renderer) dictPairs(d *dict) (all []value) {
	for _, k := range d.keys {
		r.spendWork(64)
		all = append(all, newTuple(k, d.values[hashKey(k)]))
	}
	return all
}

func newTuple(items ...value) *list { return &list{items: items, tuple: true} }

// stripText removes characters at the ends: blanks, or those of the argument.
func (r *renderer) stripText(s str, a args, left, right bool) str {
	cut := unicode.IsSpace
	if set, ok := a.valueOr(0, "chars", nil).(str); ok {
		cut = func(c rune) bool { r.spendWork(len(set.String)); return strings.ContainsRune(set.String, c) }
	}
	from, to := 0, len(s.String)
	if left {
		from = to - len(strings.TrimLeftFunc(s.String, cut))
	}
	if right {
		to = from + len(strings.TrimRightFunc(s.String[from:], cut))
	}
	return s.sliceBytes(from, to)
}

// splitText cuts at a separator, or at blanks if there is none, at most as often as the second argument says.
func (r *renderer) splitText(s str, a args) *list {
	limit := -1
	if v := a.valueOr(1, "maxsplit", nil); v != nil {
		limit = asInteger(v)
	}
	l := &list{}
	sep, ok := a.valueOr(0, "sep", nil).(str)
	if ok && sep.String == "" {
		failWith("split needs a separator that is not empty")
	}
	for rest := s; ; {
		r.spendWork(32)
		if !ok {
			rest = r.stripText(rest, args{}, true, false)
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
		l.items = append(l.items, rest.sliceBytes(0, at))
		rest = rest.sliceBytes(at+len(sep.String), len(rest.String))
	}
}

// rsplitText cuts from the end, and needs a separator.
func (r *renderer) rsplitText(s str, a args) *list {
	sep, limit := asFieldName(a.valueOr(0, "sep", nil)), -1
	if v := a.valueOr(1, "maxsplit", nil); v != nil {
		limit = asInteger(v)
	}
	if sep.String == "" {
		failWith("rsplit needs a separator that is not empty")
	}
	l := &list{}
	for ; limit != 0; limit-- {
		r.spendWork(32)
		at := strings.LastIndex(s.String, sep.String)
		if at < 0 {
			break
		}
		l.items = append(l.items, s.sliceBytes(at+len(sep.String), len(s.String)))
		s = s.sliceBytes(0, at)
	}
	l.items = append(l.items, s)
	slices.Reverse(l.items)
	return l
}

func (r *renderer) splitLines(s str, ends bool) *list {
	l := &list{}
	for s.String != "" {
		r.spendWork(32)
		at := strings.IndexFunc(s.String, isLineEnd)
		if at < 0 {
			l.items = append(l.items, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s.String[at:])
		if strings.HasPrefix(s.String[at:], "\r\n") {
			n = 2
		}
		line, rest := s.sliceBytes(0, at), s.sliceBytes(at+n, len(s.String))
		if ends {
			line = s.sliceBytes(0, at+n)
		}
		l.items, s = append(l.items, line), rest
	}
	return l
}

func isLineEnd(c rune) bool {
	return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
}

func (r *renderer) matchesAny(a args, s string, test func(s, part string) bool) bool {
	switch v := searchArgument(a).(type) {
	case str:
		return test(s, v.String)
	case *list:
		return slices.ContainsFunc(v.items, func(one value) bool {
			r.spendWork(1 + len(s))
			return test(s, asFieldName(one).String)
		})
	}
	failWith("a text is expected")
	return false
}

// The cases of letters: each maps a character, given the one before, which is -1 for the first.
func upperRune(c, _ rune) rune { return unicode.ToUpper(c) }
func lowerRune(c, _ rune) rune { return unicode.ToLower(c) }
func titleRune(c, before rune) rune {
	if unicode.IsLetter(before) {
		return unicode.ToLower(c)
	}
	return unicode.ToTitle(c)
}
func wordTitleRune(c, before rune) rune { // of the filter title
	if before >= 0 && !unicode.IsSpace(before) && !strings.ContainsRune("-({[<", before) {
		return unicode.ToLower(c)
	}
	return unicode.ToUpper(c)
}
func capitalizeRune(c, before rune) rune {
	if before >= 0 {
		return unicode.ToLower(c)
	}
	return unicode.ToTitle(c)
}

func (r *renderer) mapCharacters(s str, by func(c, before rune) rune) str {
	r.spendWork(2 * len(s.String))
	var b textBuilder
	before := rune(-1)
	for i, c := range s.String {
		t := string(by(c, before))
		b.writeText(str{Text: Text{t, strings.Repeat(s.Given[i:i+1], len(t))}})
		before = c
	}
	t := b.buildText()
	t.safe = s.safe
	return t
}

// replaceText replaces a text by another one, at most as often as the third argument says.
func (r *renderer) replaceText(s str, a args) str {
	old, by := asFieldName(a.valueOr(0, "old", nil)), asFieldName(a.valueOr(1, "new", nil))
	if old.String == "" {
		failWith("replace needs a text to replace that is not empty")
	}
	return r.joinTexts(r.splitText(s, args{list: []value{old, a.valueOr(2, "count", nil)}}).items, by)
}

func searchArgument(a args) value {
	if len(a.list) > 1 {
		failWith("a search in a part of a text is not supported")
	}
	return a.valueOr(0, "", nil)
}

// characterIndex returns where a text begins, in characters; -1 if it does not.
func (s str) characterIndex(a args, index func(s, part string) int) int {
	at := index(s.String, asFieldName(searchArgument(a)).String)
	if at < 0 {
		return -1
	}
	return countCharacters(s.String[:at])
}
