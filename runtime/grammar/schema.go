package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Error says what of a schema is wrong or not supported.
type Error struct {
	Path string // of the keyword or schema: a JSON pointer, such as "#/properties/age/multipleOf"
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns what is wrong, without the path.
func (e *Error) Unwrap() error { return e.Err }

// errorf makes an [Error].
func errorf(path, format string, args ...any) error {
	return &Error{path, fmt.Errorf(format, args...)}
}

// Bounds of a schema.
const (
	mostSchema = 1 << 20 // bytes
	mostDepth  = 128     // schemas within schemas
	mostFar    = 64      // references that are looked up in the whole text
)

// kinds are a set of types of values. A number is a whole one or not.
type kinds uint8

const (
	null kinds = 1 << iota
	boolean
	integer
	broken
	text
	object
	array
	number  = integer | broken
	anyKind = null | boolean | number | text | object | array
)

var kindNames = map[string]kinds{
	"null": null, "boolean": boolean, "integer": integer, "number": number, "string": text, "object": object,
	"array": array,
}

// node is one schema as it is written.
type node struct {
	id      int
	path    string
	never   bool  // false
	kinds   kinds // types allowed; 0: nothing is said
	implied kinds // of which its keywords are
	ref     string
	allOf   []*node
	anyOf   []*node
	oneOf   []*node
	values  []json.RawMessage // of enum or const; nil: nothing is said
	spelled []string          // values as they are generated; nil until they are asked for

	names      []string // of properties, in the order of the schema
	properties map[string]*node
	required   []string
	additional *node // nil: any

	prefix      []*node
	items       *node // nil: any
	itemBounds  bounds
	charBounds  bounds
	pattern     string // regular expression, of pattern or of format
	patternPath string
	numbers     numbers
	unique      string // path of uniqueItems, where it is true
}

// schema is a whole schema.
type schema struct {
	root   *node
	nodes  map[string]*node           // by path
	raw    map[string]json.RawMessage // all, and what is defined, by path: read when something refers to it
	count  int
	closed bool    // objects that list properties have no others
	refs   []*node // that refer to what may not have been read yet
	far    int     // references to what is neither a schema that was read nor defined
}

// member is an entry of an object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the entries of an object in the order in which they stand there. A name stands there once.
func members(raw json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it must be an object")
	}
	var all []member
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: t.(string)}
		if seen[m.name] {
			return nil, fmt.Errorf("%q stands there twice", m.name)
		}
		seen[m.name] = true
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// parse reads a schema.
func parse(raw []byte) (*schema, error) {
	if len(raw) > mostSchema {
		return nil, errorf("#", "the schema has %d bytes, of which %d are possible", len(raw), mostSchema)
	}
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, errorf("#", "it is not JSON: %w", err)
	}
	s := &schema{nodes: map[string]*node{}, raw: map[string]json.RawMessage{"#": whole}}
	var err error
	if s.root, err = s.read("#", whole, 0); err != nil {
		return nil, err
	}
	for len(s.refs) > 0 {
		if err := s.refer(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// refer reads the schemas that others refer to, as far as they are not read yet. These may refer to more.
func (s *schema) refer() error {
	missing := s.refs
	s.refs = nil
	slices.SortFunc(missing, func(a, b *node) int { return strings.Compare(a.path, b.path) })
	for _, n := range missing {
		if s.nodes[n.ref] != nil {
			continue
		}
		raw, err := s.find(n.ref)
		if err != nil {
			return errorf(n.path+"/$ref", "%s: %w", n.ref, err)
		}
		if _, err := s.read(n.ref, raw, strings.Count(n.ref, "/")); err != nil {
			return err
		}
	}
	return nil
}

// find returns what a JSON pointer in a fragment points to.
func (s *schema) find(path string) (json.RawMessage, error) {
	if raw, ok := s.raw[path]; ok {
		return raw, nil
	}
	if s.far++; s.far > mostFar {
		return nil, fmt.Errorf("more than %d references to elsewhere than $defs are not supported", mostFar)
	}
	raw := s.raw["#"]
	for _, part := range strings.Split(path, "/")[1:] {
		name := unescape(part)
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(list) {
				return nil, errors.New("nothing is there")
			}
			raw = list[i]
			continue
		}
		all, err := members(raw)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(m member) bool { return m.name == name })
		if i < 0 {
			return nil, errors.New("nothing is there")
		}
		raw = all[i].value
	}
	return raw, nil
}

// pointed spells a name as a part of a JSON pointer, unescape the other way round.
func pointed(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

func unescape(part string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(part) }

// read reads the schema at a path.
func (s *schema) read(path string, raw json.RawMessage, depth int) (*node, error) {
	if depth > mostDepth {
		return nil, errorf(path, "more than %d schemas within each other are not supported", mostDepth)
	}
	if n := s.nodes[path]; n != nil {
		return n, nil
	}
	free := bounds{0, unbounded}
	n := &node{id: s.count, path: path, itemBounds: free, charBounds: free}
	s.count++
	s.nodes[path] = n
	switch string(bytes.TrimSpace(raw)) {
	case "true":
		return n, nil
	case "false":
		n.never = true
		return n, nil
	}
	all, err := members(raw)
	if err != nil {
		return nil, errorf(path, "a schema is an object, true or false: %w", err)
	}
	for _, m := range all {
		if err := s.keyword(n, m, depth); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// annotations are keywords that say nothing of values.
var annotations = []string{
	"title", "description", "default", "examples", "$comment", "$schema", "deprecated", "readOnly", "writeOnly",
	"contentEncoding", "contentMediaType", "strict", "nullable", "example",
}

// keyword reads one keyword into n.
func (s *schema) keyword(n *node, m member, depth int) (err error) {
	path := n.path + "/" + pointed(m.name)
	switch m.name {
	case "type":
		n.kinds, err = parseKinds(path, m.value)
	case "enum":
		var values []json.RawMessage
		if json.Unmarshal(m.value, &values) != nil || len(values) == 0 {
			return errorf(path, "it must be a list of at least one value")
		}
		n.allow(values)
	case "const":
		n.allow([]json.RawMessage{m.value})
	case "$ref":
		return s.reference(n, path, m.value)
	case "allOf":
		n.allOf, err = s.list(path, m.value, depth)
	case "anyOf":
		n.anyOf, err = s.list(path, m.value, depth)
	case "oneOf":
		n.oneOf, err = s.list(path, m.value, depth)
	case "properties", "required", "additionalProperties":
		n.implied |= object
		err = s.objectKeyword(n, path, m, depth)
	case "items", "prefixItems", "minItems", "maxItems", "uniqueItems":
		n.implied |= array
		err = s.arrayKeyword(n, path, m, depth)
	case "minLength", "maxLength", "pattern", "format":
		n.implied |= text
		err = textKeyword(n, path, m)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		n.implied |= number
		err = numberKeyword(n, path, m)
	case "$defs", "definitions":
		err = s.definitions(path, m.value)
	case "$id":
		if n.path != "#" {
			return errorf(path, "it is supported at the root alone")
		}
	default:
		err = annotation(path, m)
	}
	return err
}

// definitions notes schemas that references may name.
func (s *schema) definitions(path string, value json.RawMessage) error {
	all, err := members(value)
	for _, d := range all {
		s.raw[path+"/"+pointed(d.name)] = d.value
	}
	if err != nil {
		return &Error{path, err}
	}
	return nil
}

// annotation refuses a keyword that is not one of those that change nothing.
func annotation(path string, m member) error {
	if !slices.Contains(annotations, m.name) && !strings.HasPrefix(m.name, "x-") {
		return errorf(path, "this keyword is not supported")
	}
	if m.name == "nullable" && string(m.value) != "false" {
		return errorf(path, `it is no keyword of JSON schema: give "type": ["…", "null"] instead`)
	}
	return nil
}

// allow leaves only those of some values that were listed before, too, if any were.
func (n *node) allow(values []json.RawMessage) {
	if n.values == nil {
		n.values = values
		return
	}
	n.values = slices.DeleteFunc(n.values, func(v json.RawMessage) bool {
		return !slices.ContainsFunc(values, func(w json.RawMessage) bool { return spell(v) == spell(w) })
	})
}

func parseKinds(path string, raw json.RawMessage) (of kinds, err error) {
	var names []string
	var name string
	if json.Unmarshal(raw, &name) == nil {
		names = []string{name}
	} else if json.Unmarshal(raw, &names) != nil || len(names) == 0 {
		return 0, errorf(path, "it must be the name of a type or a list of such names")
	}
	for _, name := range names {
		k, ok := kindNames[name]
		if !ok {
			return 0, errorf(path, "%q is no type: null, boolean, integer, number, string, object and array are", name)
		}
		of |= k
	}
	return of, nil
}

// reference reads $ref.
func (s *schema) reference(n *node, path string, raw json.RawMessage) error {
	var ref string
	if json.Unmarshal(raw, &ref) != nil || ref != "#" && !strings.HasPrefix(ref, "#/") || strings.Contains(ref, "%") {
		return errorf(path, `only references within the schema are supported, such as "#/$defs/name"`)
	}
	n.ref = ref
	s.refs = append(s.refs, n)
	return nil
}

// list reads a list of schemas.
func (s *schema) list(path string, raw json.RawMessage, depth int) ([]*node, error) {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil || len(all) == 0 {
		return nil, errorf(path, "it must be a list of at least one schema")
	}
	nodes := make([]*node, len(all))
	for i, one := range all {
		var err error
		if nodes[i], err = s.read(fmt.Sprintf("%s/%d", path, i), one, depth+1); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

func (s *schema) objectKeyword(n *node, path string, m member, depth int) (err error) {
	switch m.name {
	case "additionalProperties":
		n.additional, err = s.read(path, m.value, depth+1)
		return err
	case "required":
		if json.Unmarshal(m.value, &n.required) != nil {
			return errorf(path, "it must be a list of names")
		}
		return nil
	}
	all, err := members(m.value)
	if err != nil {
		return errorf(path, "%w", err)
	}
	n.properties = map[string]*node{}
	for _, p := range all {
		n.names = append(n.names, p.name)
		if n.properties[p.name], err = s.read(path+"/"+pointed(p.name), p.value, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) arrayKeyword(n *node, path string, m member, depth int) (err error) {
	switch m.name {
	case "prefixItems":
		n.prefix, err = s.list(path, m.value, depth)
	case "items":
		if bytes.HasPrefix(bytes.TrimSpace(m.value), []byte("[")) {
			return errorf(path, "a list is what earlier drafts wrote: give prefixItems instead")
		}
		n.items, err = s.read(path, m.value, depth+1)
	case "minItems":
		n.itemBounds.least, err = natural(path, m.value)
	case "maxItems":
		n.itemBounds.most, err = natural(path, m.value)
	case "uniqueItems":
		unique := false
		if json.Unmarshal(m.value, &unique) != nil {
			return errorf(path, "it must be true or false")
		}
		if unique {
			n.unique = path
		}
	}
	return err
}

func textKeyword(n *node, path string, m member) (err error) {
	switch m.name {
	case "minLength":
		n.charBounds.least, err = natural(path, m.value)
		return err
	case "maxLength":
		n.charBounds.most, err = natural(path, m.value)
		return err
	}
	if n.pattern != "" {
		return errorf(path, "pattern and format side by side are not supported: leave one of them out")
	}
	var given *string
	if json.Unmarshal(m.value, &given) != nil || given == nil {
		return errorf(path, "it must be a string")
	}
	n.pattern, n.patternPath = *given, path
	if m.name == "format" {
		var known bool
		if n.pattern, known = formats[*given]; !known {
			return errorf(path,
				"%q is not supported: date-time, date, time, duration, email, hostname, ipv4, uri and uuid are", *given)
		}
	}
	if n.pattern == "" {
		n.pattern = "^|$" // any string
	}
	if _, err := parsePattern(n.pattern); err != nil {
		return &Error{path, err}
	}
	return nil
}

func numberKeyword(n *node, path string, m member) error {
	var given json.Number
	if d := json.NewDecoder(bytes.NewReader(m.value)); decodeNumber(d, &given) != nil {
		return errorf(path, "it must be a number")
	}
	v, err := parseNumber(given.String())
	if err != nil {
		return &Error{path, err}
	}
	switch m.name {
	case "minimum", "exclusiveMinimum":
		n.numbers.atLeast(v, m.name != "minimum")
	case "maximum", "exclusiveMaximum":
		n.numbers.atMost(v, m.name != "maximum")
	case "multipleOf":
		if v.Sign() <= 0 {
			return errorf(path, "it must be above 0")
		}
		n.numbers.multipleOf(v)
	}
	return nil
}

// decodeNumber reads a number, and no string that holds one.
func decodeNumber(d *json.Decoder, to *json.Number) error {
	d.UseNumber()
	t, err := d.Token()
	n, ok := t.(json.Number)
	if err != nil || !ok {
		return errors.New("no number")
	}
	*to = n
	return nil
}

// natural reads a count.
func natural(path string, raw json.RawMessage) (int32, error) {
	n := -1.0
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > math.MaxInt32/2 || n != math.Trunc(n) {
		return 0, errorf(path, "it must be a whole number from 0 to %d", math.MaxInt32/2)
	}
	return int32(n), nil
}
