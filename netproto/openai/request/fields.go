package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// fields are the fields of a JSON object that have not been parsed. The first error is kept. A null field counts as
// absent, and so does an empty value of another type than the field's.
type fields struct {
	at   string // path of the object; "" for the request itself
	all  map[string]json.RawMessage
	null []string // names of fields that are null
	err  *Error
	*notes
}

// parseFields parses an object. at is the path for errors.
func parseFields(at string, raw []byte, n *notes) *fields {
	f := &fields{at: at, notes: n}
	err := json.Unmarshal(raw, &f.all)
	wrong, syntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case syntax:
		f.fail("", "this is not JSON: %v, %s", err, position(raw, int(wrong.Offset)))
	case !isObject(raw):
		f.fail("", "give a JSON object")
	}
	for name, value := range f.all {
		if string(value) == "null" {
			delete(f.all, name)
			f.null = append(f.null, name)
		}
	}
	return f
}

func parseBody(body []byte, d Defaults) *fields {
	f := &fields{notes: &notes{strict: d.Strict}}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")) // a byte order mark
	switch at := invalidUTF8(body); {
	case len(bytes.TrimLeft(body, " \t\r\n")) == 0:
		f.fail("", "the request has no content: give a JSON object")
	case at >= 0:
		f.fail("", "the request is not UTF-8 from byte %d on: send JSON in UTF-8", at)
	default:
		return parseFields("", body, f.notes)
	}
	return f
}

// invalidUTF8 returns the index of the first byte that is not valid UTF-8; -1 if there is none.
func invalidUTF8(b []byte) int {
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

// position describes the position of the n-th byte of a text.
func position(text []byte, n int) string {
	before := text[:min(max(n-1, 0), len(text))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("at byte %d: line %d, column %d", n, bytes.Count(before, []byte("\n"))+1,
		utf8.RuneCount(line)+1)
}

// isObject reports whether JSON text begins like an object.
func isObject(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
}

func (f *fields) path(name string) string {
	switch {
	case f.at == "":
		return name
	case name == "":
		return f.at
	}
	return f.at + "." + name
}

// fail records an error about a field, or about the object itself.
func (f *fields) fail(name, format string, args ...any) {
	path := f.path(name)
	if f.err != nil {
		return
	}
	f.err = Invalid(path, format, args...)
	if path != "" {
		f.err.Message = path + ": " + f.err.Message
	}
}

// fails records the error of a part, if it has one.
func (f *fields) fails(err *Error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *fields) take(name string) (json.RawMessage, bool) {
	raw, ok := f.all[name]
	delete(f.all, name)
	return raw, ok
}

func (f *fields) missing(name, format string, args ...any) {
	if f.err != nil {
		return
	}
	f.fail(name, format, args...)
	f.err.Code = "missing_required_parameter"
}

// value parses a field into to, if it is present. The hint says which values are valid.
func (f *fields) value(name string, to any, hint string, args ...any) bool {
	raw, ok := f.take(name)
	switch {
	case !ok:
	case json.Unmarshal(raw, to) == nil:
	case isEmpty(raw):
		return false
	default:
		f.fail(name, hint, args...)
	}
	return ok
}

// isEmpty reports whether a value is absent or switches nothing on: clients send all fields that they know.
func isEmpty(raw json.RawMessage) bool {
	const longest = 32 // bytes, with blanks
	if len(raw) > longest {
		return false
	}
	text := string(raw)
	if strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") {
		text = strings.Join(strings.Fields(text), "")
	}
	switch text {
	case "", "null", "false", `""`, "[]", "{}":
		return true
	}
	x, err := strconv.ParseFloat(text, 64)
	return err == nil && x == 0
}

// text parses a string, if it is present.
func (f *fields) text(name string, to *string) bool { return f.value(name, to, "give a string") }

func (f *fields) needed(name string, to *string, hint string) {
	if !f.text(name, to) {
		f.missing(name, "%s", hint)
	}
}

// flag parses true or false, if it is present.
func (f *fields) flag(name string, to *bool) bool { return f.value(name, to, "give true or false") }

// number parses a number from low to high, if it is present.
func (f *fields) number(name string, low, high float64, to *float64) bool {
	ok := f.value(name, to, "give a number from %v to %v", low, high)
	if ok && !(*to >= low && *to <= high) {
		f.fail(name, "give a number from %v to %v", low, high)
	}
	return ok
}

// integer parses an integer from low to high, if it is present.
func (f *fields) integer(name string, low, high int64, to *int64) bool {
	n := whole(*to)
	ok := f.value(name, &n, "give a whole number from %d to %d", low, high)
	if *to = int64(n); ok && (*to < low || *to > high) {
		f.fail(name, "give a whole number from %d to %d", low, high)
	}
	return ok
}

// whole is a whole number, which may be written as 1.0 or 1e3.
type whole int64

func (w *whole) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if x, wrong := strconv.ParseFloat(string(b), 64); wrong == nil && err != nil && x == math.Trunc(x) &&
		math.Abs(x) <= 1<<53 {
		n, err = int64(x), nil
	}
	if err == nil {
		*w = whole(n)
	}
	return err
}

// count parses an integer that fits into an int, if it is present.
func (f *fields) count(name string, low, high int, to *int) bool {
	n := int64(*to)
	ok := f.integer(name, int64(low), int64(high), &n)
	*to = int(n)
	return ok
}

// list returns the elements of an array of at most limit elements, if it is present.
func (f *fields) list(name string, limit int) ([]json.RawMessage, bool) {
	var all []json.RawMessage
	ok := f.value(name, &all, "give a list")
	if len(all) > limit {
		f.fail(name, "%d elements are too many: give at most %d", len(all), limit)
		all = nil
	}
	return all, ok
}

// object parses a field that is an object, if it is present.
func (f *fields) object(name string, read func(o *fields)) bool {
	raw, ok := f.take(name)
	if ok = ok && !isEmpty(raw); ok {
		f.within(f.path(name), raw, read)
	}
	return ok
}

// objects parses a list of at most limit objects, if it is present. It stops at the first invalid one.
func (f *fields) objects(name string, limit int, read func(o *fields)) {
	all, _ := f.list(name, limit)
	f.elements(name, all, read)
}

func (f *fields) elements(name string, all []json.RawMessage, read func(o *fields)) {
	for i, raw := range all {
		if f.err != nil {
			return
		}
		f.within(f.element(name, i), raw, read)
	}
}

// within parses an object in this one, and ignores fields that read did not take.
func (f *fields) within(at string, raw []byte, read func(o *fields)) {
	o := parseFields(at, raw, f.notes)
	read(o)
	f.fails(o.end())
}

// element returns the path of an element of a list.
func (f *fields) element(name string, i int) string {
	return f.path(name) + "[" + strconv.Itoa(i) + "]"
}

// harmless accepts any values of fields that do not change the answer.
func (f *fields) harmless(names ...string) {
	for _, name := range names {
		if raw, ok := f.take(name); ok && !isEmpty(raw) {
			f.ignored(f.path(name))
		}
	}
}

// refuse refuses a field that would change the answer.
func (f *fields) refuse(name, why string) {
	if _, ok := f.take(name); ok && f.err == nil {
		f.fail(name, "%s", why)
		f.err.Code = "unsupported_parameter"
	}
}

// names returns the sorted names of the fields that have not been parsed.
func (f *fields) names() []string { return slices.Sorted(maps.Keys(f.all)) }

// end ignores the fields that have not been parsed.
func (f *fields) end() *Error {
	for _, name := range f.names() {
		f.skip(name, "this server knows no such parameter: leave it out", "unknown_parameter")
	}
	return f.err
}

// skip ignores a field that this server does not know, or cannot obey. In strict mode it refuses the field.
func (f *fields) skip(name, why, code string) {
	raw, ok := f.take(name)
	switch {
	case !ok || isEmpty(raw) || f.err != nil:
	case f.strict:
		f.fail(Shown(name), "%s", why)
		f.err.Code = code
	default:
		f.ignored(f.path(plain(name)))
	}
}

// notes are what the objects of a request have in common.
type notes struct {
	strict bool            // fields that are not known are refused
	paths  []string        // of fields without effect; of elements of lists the first one
	known  map[string]bool // the same, without indices

	inDocument bool // the fields are those of a part of a document
}

// maxIgnored is the maximum number of listed fields, or keywords of schemas, without effect.
const maxIgnored = 100

// ignored records a field without effect.
func (n *notes) ignored(path string) {
	if len(n.paths) >= maxIgnored {
		return
	}
	each := Kind(path)
	if n.known[each] {
		return
	}
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[each] = true
	n.paths = append(n.paths, path)
}

var indices = regexp.MustCompile(`\[\d+\]`)

// Kind returns a path of a field without indices: all elements of a list are of one kind.
func Kind(path string) string { return indices.ReplaceAllString(path, "[]") }

// Shown returns the name of a field for an error text. The name is from a client.
func Shown(name string) string {
	if isPlain(name) {
		return name
	}
	return errs.Quote(name)
}

// plain returns the name of a field for headers and logs, which may contain no text of users.
func plain(name string) string {
	if isPlain(name) && name != "" {
		return name
	}
	return fmt.Sprintf("(a name of %d bytes)", len(name))
}

// isPlain reports whether a name is short, and has only letters, digits and signs of names.
func isPlain(name string) bool {
	plain := utf8.RuneCountInString(name) <= 40
	for _, r := range name {
		plain = plain && (strings.ContainsRune("_-./", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' &&
			r <= 'Z')
	}
	return plain
}
