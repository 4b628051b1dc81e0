package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
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
	maxSchema  = 1 << 20 // bytes
	maxDepth   = 128     // schemas within schemas
	maxIgnored = 100     // keywords without effect that are told of
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

// node is one schema as it is written, or one that follows from others: see negation.
type node struct {
	id      int
	path    string
	made    bool  // it follows from others
	never   bool  // false
	kinds   kinds // types allowed; 0: nothing is said
	implied kinds // of which its keywords are
	ref     string
	allOf   []*node
	choices [][]*node // of each list at least one holds: anyOf, and what is the same
	oneOf   []*node
	not     []*node           // none of which holds
	values  []json.RawMessage // of enum or const; nil: nothing is said
	spelled []string          // values as they are generated; nil until they are asked for
	except  []string          // values that are not allowed, spelled alike

	names          []string // of properties, in the order of the schema
	properties     map[string]*node
	required       []string
	patterned      []property
	additional     *node // nil: any
	propertyNames  *node // nil: any
	propertyBounds bounds

	prefix     []*node
	items      *node // nil: any
	itemBounds bounds
	unique     string // path of uniqueItems, where it is true

	charBounds bounds
	patterns   []pattern
	numbers    numbers
}

// property is the schema of properties whose names match a pattern.
type property struct {
	pattern pattern
	value   *node
}

// pattern is a regular expression, of pattern or of format, that strings match or, turned round, do not match.
type pattern struct {
	text, path  string
	not, format bool
}

// schema is a whole schema.
type schema struct {
	*effort
	document
	root    *node
	nodes   map[string]*node // by path
	count   int
	closed  bool     // objects that list properties have no others
	refs    []*node  // that refer to what may not have been read yet
	ignored []string // paths of keywords that no draft defines
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
func parse(e *effort, raw []byte) (*schema, error) {
	if len(raw) > maxSchema {
		return nil, errorf("#", "the schema has %d bytes, of which %d are possible", len(raw), maxSchema)
	}
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, errorf("#", "it is not JSON: %w", err)
	}
	s := &schema{effort: e, nodes: map[string]*node{}, document: document{top: &part{raw: whole}}}
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
		path, raw, err := s.resolve(n.path, n.ref)
		if err != nil {
			return errorf(n.path+"/$ref", "%s: %w", n.ref, err)
		}
		n.ref = path
		if _, err := s.read(path, raw, strings.Count(path, "/")); err != nil {
			return err
		}
	}
	return nil
}

// pointed spells a name as a part of a JSON pointer, unescape the other way round.
func pointed(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

func unescape(part string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(part) }

// empty makes a schema that allows anything.
func (s *schema) empty(path string) *node {
	s.count++
	return &node{id: s.count - 1, path: path, itemBounds: anyNumber, charBounds: anyNumber, propertyBounds: anyNumber}
}

// read reads the schema at a path.
func (s *schema) read(path string, raw json.RawMessage, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errorf(path, "more than %d schemas within each other are not supported", maxDepth)
	}
	if n := s.nodes[path]; n != nil {
		return n, nil
	}
	if err := s.spend(1 + len(raw)/4); err != nil {
		return nil, &Error{path, err}
	}
	n := s.empty(path)
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
	return n, s.together(n, all, depth)
}

// together reads the keywords that others of their schema change.
func (s *schema) together(n *node, all []member, depth int) error {
	given := map[string]json.RawMessage{}
	for _, m := range all {
		given[m.name] = m.value
	}
	n.numbers.draft4(given)
	if list := given["items"]; given["prefixItems"] != nil || bytes.HasPrefix(bytes.TrimSpace(list), []byte("[")) {
		if err := s.additionalItems(n, given["additionalItems"], depth); err != nil {
			return err
		}
	}
	if given["if"] != nil {
		if err := s.conditional(n, given, depth); err != nil {
			return err
		}
	}
	s.discriminate(n, given["discriminator"])
	return nil
}

// discriminate reads discriminator, as OpenAPI has it: where a mapping names the schemas of oneOf or anyOf that are
// references, each holds of objects in which a property has its name.
func (s *schema) discriminate(n *node, raw json.RawMessage) {
	var by struct {
		PropertyName string
		Mapping      map[string]string
	}
	if raw == nil || json.Unmarshal(raw, &by) != nil || by.PropertyName == "" {
		return // it says nothing of values by itself
	}
	names := map[string][]json.RawMessage{} // by references
	for _, name := range slices.Sorted(maps.Keys(by.Mapping)) {
		names[by.Mapping[name]] = append(names[by.Mapping[name]], json.RawMessage(quote(name)))
	}
	for _, list := range append(n.choices, n.oneOf) {
		for i, option := range list {
			values := names[option.ref]
			if option.ref == "" || values == nil {
				continue
			}
			both, tag, value := s.follows(option.path), s.follows(option.path), s.follows(option.path)
			value.values = values
			tag.required, tag.names = []string{by.PropertyName}, []string{by.PropertyName}
			tag.properties = map[string]*node{by.PropertyName: value}
			both.allOf = []*node{option, tag}
			list[i] = both
		}
	}
}

// additionalItems reads what earlier drafts wrote behind a list of items.
func (s *schema) additionalItems(n *node, raw json.RawMessage, depth int) (err error) {
	if raw != nil && n.items == nil {
		n.items, err = s.read(n.path+"/additionalItems", raw, depth+1)
	}
	return err
}

// conditional reads if, then and else: either if and then hold, or if does not and else does.
func (s *schema) conditional(n *node, given map[string]json.RawMessage, depth int) error {
	then, other := s.follows(n.path), s.follows(n.path)
	for _, part := range []struct {
		name string
		to   *[]*node
	}{{"if", &then.allOf}, {"if", &other.not}, {"then", &then.allOf}, {"else", &other.allOf}} {
		if given[part.name] == nil {
			continue
		}
		p, err := s.read(n.path+"/"+part.name, given[part.name], depth+1)
		if err != nil {
			return err
		}
		*part.to = append(*part.to, p)
	}
	if given["then"] != nil || given["else"] != nil {
		n.choices = append(n.choices, []*node{then, other})
	}
	return nil
}

// follows makes a schema that follows from others.
func (s *schema) follows(path string) *node {
	n := s.empty(path)
	n.made = true
	return n
}

// annotations are keywords that say nothing of values.
var annotations = []string{
	"title", "description", "default", "examples", "$comment", "$schema", "deprecated", "readOnly", "writeOnly",
	"contentEncoding", "contentMediaType", "contentSchema", "strict", "example", "$id", "id", "$anchor", "$vocabulary",
	"discriminator", "externalDocs", "xml", "$defs", "definitions", "then", "else", "if", "additionalItems",
	"$dynamicAnchor", "minContains", "maxContains",
}

// refused are keywords of some draft that say something of values and are not supported.
var refused = []string{
	"contains", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef", "extends", "disallow",
	"divisibleBy",
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
		if json.Unmarshal(m.value, &n.ref) != nil {
			return errorf(path, "it must be a string")
		}
		s.refs = append(s.refs, n)
	case "allOf":
		n.allOf, err = s.list(path, m.value, depth)
	case "anyOf":
		var any []*node
		any, err = s.list(path, m.value, depth)
		n.choices = append(n.choices, any)
	case "oneOf":
		n.oneOf, err = s.list(path, m.value, depth)
	case "not":
		var not *node
		not, err = s.read(path, m.value, depth+1)
		n.not = append(n.not, not)
	case "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
		"maxProperties", "dependencies", "dependentRequired", "dependentSchemas":
		n.implied |= object
		err = s.objectKeyword(n, path, m, depth)
	case "items", "prefixItems", "minItems", "maxItems", "uniqueItems":
		n.implied |= array
		err = s.arrayKeyword(n, path, m, depth)
	case "minLength", "maxLength", "pattern", "format":
		n.implied |= text
		err = s.textKeyword(n, path, m)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		n.implied |= number
		err = numberKeyword(n, path, m)
	default:
		err = s.other(path, m.name)
	}
	return err
}

// other refuses a keyword that says something of values, and notes one that no draft defines.
func (s *schema) other(path, name string) error {
	if slices.Contains(refused, name) {
		return errorf(path, "this keyword is not supported")
	}
	if !slices.Contains(annotations, name) && !strings.HasPrefix(name, "x-") {
		s.ignore(path)
	}
	return nil
}

// ignore notes a keyword without effect.
func (s *schema) ignore(path string) {
	if len(s.ignored) < maxIgnored {
		s.ignored = append(s.ignored, path)
	}
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
	case "propertyNames":
		n.propertyNames, err = s.read(path, m.value, depth+1)
		return err
	case "required":
		if bytes.Equal(m.value, []byte("true")) || bytes.Equal(m.value, []byte("false")) {
			s.ignore(path) // of draft 3, where it is about a property
			return nil
		}
		if json.Unmarshal(m.value, &n.required) != nil {
			return errorf(path, "it must be a list of names")
		}
		return nil
	case "minProperties":
		n.propertyBounds.least, err = natural(path, m.value)
		return err
	case "maxProperties":
		n.propertyBounds.most, err = natural(path, m.value)
		return err
	}
	all, err := members(m.value)
	if err != nil {
		return errorf(path, "%w", err)
	}
	if m.name == "properties" {
		n.properties = map[string]*node{}
	}
	for _, p := range all {
		if err := s.propertyKeyword(n, m.name, path+"/"+pointed(p.name), p, depth); err != nil {
			return err
		}
	}
	return nil
}

// propertyKeyword reads what a keyword says of one property, or of those whose names match a pattern.
func (s *schema) propertyKeyword(n *node, keyword, path string, p member, depth int) error {
	if names := []string(nil); keyword == "dependentRequired" || keyword == "dependencies" &&
		json.Unmarshal(p.value, &names) == nil {
		if json.Unmarshal(p.value, &names) != nil {
			return errorf(path, "it must be a list of names")
		}
		n.choices = append(n.choices, s.depends(path, p.name, names, nil))
		return nil
	}
	value, err := s.read(path, p.value, depth+1)
	if err != nil {
		return err
	}
	switch keyword {
	case "properties":
		n.names = append(n.names, p.name)
		n.properties[p.name] = value
	case "patternProperties":
		if _, err := readPattern(p.name, path); err != nil {
			return err
		}
		n.patterned = append(n.patterned, property{pattern{text: p.name, path: path}, value})
	default:
		n.choices = append(n.choices, s.depends(path, p.name, nil, value))
	}
	return nil
}

// depends returns what is to choose of where a property asks for others or for a schema: no such property, or all that.
func (s *schema) depends(path, name string, others []string, value *node) []*node {
	without, with := s.without(path, name), s.follows(path)
	with.required = append([]string{name}, others...)
	if value != nil {
		with.allOf = []*node{value}
	}
	return []*node{without, with}
}

// without makes the schema of values that do not have a property.
func (s *schema) without(path, name string) *node {
	n, never := s.follows(path), s.follows(path)
	never.never = true
	n.names, n.properties = []string{name}, map[string]*node{name: never}
	return n
}

func (s *schema) arrayKeyword(n *node, path string, m member, depth int) (err error) {
	switch m.name {
	case "prefixItems":
		n.prefix, err = s.list(path, m.value, depth)
	case "items":
		if !bytes.HasPrefix(bytes.TrimSpace(m.value), []byte("[")) {
			n.items, err = s.read(path, m.value, depth+1)
		} else if string(m.value) != "[]" { // what earlier drafts wrote for prefixItems
			n.prefix, err = s.list(path, m.value, depth)
		}
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

func (s *schema) textKeyword(n *node, path string, m member) (err error) {
	switch m.name {
	case "minLength":
		n.charBounds.least, err = natural(path, m.value)
		return err
	case "maxLength":
		n.charBounds.most, err = natural(path, m.value)
		return err
	}
	var given *string
	if json.Unmarshal(m.value, &given) != nil || given == nil {
		return errorf(path, "it must be a string")
	}
	p := pattern{text: *given, path: path}
	if m.name == "format" {
		var known bool
		p.format = true
		if p.text, known = formats[*given]; !known {
			s.ignore(path)
			return nil
		}
	}
	if p.format {
		n.patterns = append(n.patterns, p)
		return nil
	}
	parts, err := readPattern(p.text, path)
	n.patterns = append(n.patterns, parts...)
	return err
}

func numberKeyword(n *node, path string, m member) error {
	if raw := string(m.value); m.name[0] == 'e' && (raw == "true" || raw == "false") {
		return nil // of draft 4: see draft4
	}
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

// draft4 reads exclusiveMinimum and exclusiveMaximum as they were before they had bounds of their own.
func (b *numbers) draft4(given map[string]json.RawMessage) {
	b.aboveLeast = b.aboveLeast || b.least != nil && string(given["exclusiveMinimum"]) == "true"
	b.belowMost = b.belowMost || b.most != nil && string(given["exclusiveMaximum"]) == "true"
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

// raws are values as they are written.
func raws(values []string) (all []json.RawMessage) {
	for _, v := range values {
		all = append(all, json.RawMessage(v))
	}
	return all
}
