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

func parseFields(at string, raw []byte, n *notes) *fields {
	f := &fields{at: at, notes: n}
	err := json.Unmarshal(raw, &f.all)
	wrong, syntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case syntax:
		f.failField("", "this is not JSON: %v, %s", err, describePosition(raw, int(wrong.Offset)))
	case !isObject(raw):
		f.failField("", "give a JSON object")
	}
	for name, value := range f.all {
		if string(value) == "null" {
			delete(f.all, name)
			f.null = append(f.null, name)
		}
	}
	return f
}

func parseBody(body []byte) *fields {
	f := &fields{notes: new(notes)}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")) // a byte order mark
	switch at := invalidUTF8(body); {
	case len(bytes.TrimLeft(body, " \t\r\n")) == 0:
		f.failField("", "the request has no content: give a JSON object")
	case at >= 0:
		f.failField("", "the request is not UTF-8 from byte %d on: send JSON in UTF-8", at)
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

func describePosition(text []byte, n int) string {
	before := text[:min(max(n-1, 0), len(text))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("at byte %d: line %d, column %d", n, bytes.Count(before, []byte("\n"))+1,
		utf8.RuneCount(line)+1)
}

// isObject reports whether JSON text begins like an object.
func isObject(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
}

func (f *fields) fieldPath(name string) string {
	switch {
	case f.at == "":
		return name
	case name == "":
		return f.at
	}
	return f.at + "." + name
}

// failField records an error about a field, or with an empty name about the object itself. The first error is kept.
func (f *fields) failField(name, format string, args ...any) {
	path := f.fieldPath(name)
	if f.err != nil {
		return
	}
	f.err = Invalid(path, format, args...)
	if path != "" {
		f.err.Message = path + ": " + f.err.Message
	}
}

func (f *fields) recordError(err *Error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *fields) takeField(name string) (json.RawMessage, bool) {
	raw, ok := f.all[name]
	delete(f.all, name)
	return raw, ok
}

func (f *fields) failMissing(name, format string, args ...any) {
	if f.err != nil {
		return
	}
	f.failField(name, format, args...)
	f.err.Code = "missing_required_parameter"
}

// parseValue parses a field into to, if it is present. The hint says which values are valid.
func (f *fields) parseValue(name string, to any, hint string, args ...any) bool {
	raw, ok := f.takeField(name)
	switch {
	case !ok:
	case json.Unmarshal(raw, to) == nil:
	case isEmpty(raw):
		return false
	default:
		f.failField(name, hint, args...)
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

func (f *fields) parseString(name string, to *string) bool {
	return f.parseValue(name, to, "give a string")
}

func (f *fields) parseRequired(name string, to *string, hint string) {
	if !f.parseString(name, to) {
		f.failMissing(name, "%s", hint)
	}
}

// parseBool parses true or false, if it is present.
func (f *fields) parseBool(name string, to *bool) bool {
	return f.parseValue(name, to, "give true or false")
}

func (f *fields) parseFloat(name string, low, high float64, to *float64) bool {
	ok := f.parseValue(name, to, "give a number from %v to %v", low, high)
	if ok && !(*to >= low && *to <= high) {
		f.failField(name, "give a number from %v to %v", low, high)
	}
	return ok
}

func (f *fields) parseInteger(name string, low, high int64, to *int64) bool {
	n := wholeNumber(*to)
	ok := f.parseValue(name, &n, "give a whole number from %d to %d", low, high)
	if *to = int64(n); ok && (*to < low || *to > high) {
		f.failField(name, "give a whole number from %d to %d", low, high)
	}
	return ok
}

// wholeNumber is a whole number, which may be written as 1.0 or 1e3.
type wholeNumber int64

func (w *wholeNumber) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if x, wrong := strconv.ParseFloat(string(b), 64); wrong == nil && err != nil && x == math.Trunc(x) &&
		math.Abs(x) <= 1<<53 {
		n, err = int64(x), nil
	}
	if err == nil {
		*w = wholeNumber(n)
	}
	return err
}

func (f *fields) parseInt(name string, low, high int, to *int) bool {
	n := int64(*to)
	ok := f.parseInteger(name, int64(low), int64(high), &n)
	*to = int(n)
	return ok
}

// parseList returns the elements of an array of at most limit elements, if it is present.
func (f *fields) parseList(name string, limit int) ([]json.RawMessage, bool) {
	var all []json.RawMessage
	ok := f.parseValue(name, &all, "give a list")
	if len(all) > limit {
		f.failField(name, "%d elements are too many: give at most %d", len(all), limit)
		all = nil
	}
	return all, ok
}

func (f *fields) parseObject(name string, read func(o *fields)) bool {
	raw, ok := f.takeField(name)
	if ok = ok && !isEmpty(raw); ok {
		f.parseNested(f.fieldPath(name), raw, read)
	}
	return ok
}

// parseObjects stops at the first invalid object.
func (f *fields) parseObjects(name string, limit int, read func(o *fields)) {
	all, _ := f.parseList(name, limit)
	f.parseElements(name, all, read)
}

func (f *fields) parseElements(name string, all []json.RawMessage, read func(o *fields)) {
	for i, raw := range all {
		if f.err != nil {
			return
		}
		f.parseNested(f.elementPath(name, i), raw, read)
	}
}

// parseNested parses an object in this one, and ignores fields that read did not take.
func (f *fields) parseNested(at string, raw []byte, read func(o *fields)) {
	o := parseFields(at, raw, f.notes)
	read(o)
	f.recordError(o.finishParsing())
}

func (f *fields) elementPath(name string, i int) string {
	return f.fieldPath(name) + "[" + strconv.Itoa(i) + "]"
}

func (f *fields) ignoreHarmless(names ...string) {
	for _, name := range names {
		if raw, ok := f.takeField(name); ok && !isEmpty(raw) {
			f.recordIgnored(f.fieldPath(name))
		}
	}
}

func (f *fields) refuseField(name, why string) {
	if _, ok := f.takeField(name); ok && f.err == nil {
		f.failField(name, "%s", why)
		f.err.Code = "unsupported_parameter"
	}
}

func (f *fields) remainingNames() []string { return slices.Sorted(maps.Keys(f.all)) }

// finishParsing ignores the fields that have not been parsed, or refuses them.
func (f *fields) finishParsing() *Error {
	for _, name := range f.remainingNames() {
		if f.strict && !isEmpty(f.all[name]) && f.err == nil {
			f.failField(Shown(name), "this server knows no such parameter: leave it out")
			f.err.Code = "unknown_parameter"
		}
		f.ignoreField(name)
	}
	return f.err
}

// ignoreField ignores a field that this server does not know, or cannot obey.
func (f *fields) ignoreField(name string) {
	if raw, ok := f.takeField(name); ok && !isEmpty(raw) && f.err == nil {
		f.recordIgnored(f.fieldPath(plainName(name)))
	}
}

// notes are what the objects of a request have in common.
type notes struct {
	strict bool            // fields that are not known are refused, in the additions of this server
	paths  []string        // of fields without effect; of elements of lists the first one
	known  map[string]bool // the same, without indices

	inDocument bool // the fields are those of a part of a document
}

// maxIgnored is the maximum number of listed fields, or keywords of schemas, without effect.
const maxIgnored = 100

func (n *notes) recordIgnored(path string) {
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

// plainName returns the name of a field for headers and logs, which may contain no text of users.
func plainName(name string) string {
	if isPlain(name) && name != "" {
		return name
	}
	return fmt.Sprintf("(a name of %d bytes)", len(name))
}

func isPlain(name string) bool {
	plain := utf8.RuneCountInString(name) <= 40
	for _, r := range name {
		plain = plain && (strings.ContainsRune("_-./", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' &&
			r <= 'Z')
	}
	return plain
}
