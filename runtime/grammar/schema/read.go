package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// Limits of a schema.
const (
	maxSchema  = 1 << 20 // bytes
	maxDepth   = 128     // schemas within schemas
	maxIgnored = 100     // keywords without effect that are listed
)

// reader reads a whole schema.
type reader struct {
	*regular.Maker
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

// decodeMembers returns the entries of an object in the order in which they stand there. A name may stand there once.
func decodeMembers(raw json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it must be an object")
	}
	var all []member
	seen := stringSet{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: t.(string)}
		if !seen.insertString(m.name) {
			return nil, fmt.Errorf("%q stands there twice", m.name)
		}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func readSchema(m *regular.Maker, raw []byte) (*reader, error) {
	if len(raw) > maxSchema {
		return nil, errorf("#", "the schema has %d bytes, of which %d are possible", len(raw), maxSchema)
	}
	var whole bytes.Buffer // without blanks between tokens, on which the rest relies
	err := json.Compact(&whole, raw)
	if err != nil {
		return nil, errorf("#", "it is not JSON: %w", err)
	}
	r := &reader{Maker: m, nodes: map[string]*node{}, document: document{top: &jsonValue{raw: whole.Bytes()}}}
	r.draft = draftOf(r.top)
	if r.root, err = r.readNode("#", whole.Bytes(), 0); err != nil {
		return nil, err
	}
	for len(r.refs) > 0 {
		if err := r.readReferences(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// readReferences reads the schemas that others refer to, unless they have been read. These may refer to more.
func (r *reader) readReferences() error {
	missing := r.refs
	r.refs = nil
	slices.SortFunc(missing, func(a, b *node) int { return strings.Compare(a.path, b.path) })
	for _, n := range missing {
		path, raw, err := r.resolveReference(n.path, n.ref)
		if err != nil {
			return errorf(n.path+"/"+cmp.Or(n.dynamic, "$ref"), "%s: %w", n.ref, err)
		}
		_, anchor, _ := strings.Cut(n.ref, "#")
		if r.indexNames(); n.dynamic != "" && r.document.dynamic[n.dynamic+" "+anchor] > 1 {
			return errorf(n.path+"/"+n.dynamic, "it is supported where only one schema has the anchor that it names")
		}
		n.ref = path
		if _, err := r.readNode(path, raw, strings.Count(path, "/")); err != nil {
			return err
		}
	}
	return nil
}

// newNode makes a schema that allows anything.
func (r *reader) newNode(path string) *node {
	r.count++
	return &node{id: r.count - 1, path: path, itemBounds: regular.Any(), charBounds: regular.Any(),
		propertyBounds: regular.Any(), containBounds: regular.Bounds{Min: 1, Max: regular.Unbounded}}
}

func (r *reader) newDerivedNode(path string) *node {
	n := r.newNode(path)
	n.made = true
	return n
}

func (r *reader) readNode(path string, raw json.RawMessage, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errorf(path, "more than %d schemas within each other are not supported", maxDepth)
	}
	if n := r.nodes[path]; n != nil {
		return n, nil
	}
	if err := r.Spend(1 + len(raw)/4); err != nil {
		return nil, &grammar.Error{Path: path, Err: err}
	}
	n := r.newNode(path)
	r.nodes[path] = n
	switch string(raw) {
	case "true":
		return n, nil
	case "false":
		n.never = true
		return n, nil
	}
	all, err := decodeMembers(raw)
	if err != nil {
		return nil, errorf(path, "a schema is an object, true or false: %w", err)
	}
	all = r.effectiveKeywords(path, all)
	for _, m := range all {
		if err := r.readKeyword(n, path+"/"+escapePointer(m.name), m, depth); err != nil {
			return nil, err
		}
	}
	return n, r.readDependentKeywords(n, all, depth)
}

// effectiveKeywords returns the keywords of a schema that count: in drafts up to 7 a $ref alone, if there is one.
func (r *reader) effectiveKeywords(path string, all []member) []member {
	i := slices.IndexFunc(all, func(m member) bool { return m.name == "$ref" })
	if i < 0 || !r.draft.refHidesSiblings() {
		return all
	}
	for _, m := range all {
		if m.name != "$ref" && !slices.Contains(annotations, m.name) {
			r.recordIgnored(path + "/" + escapePointer(m.name))
		}
	}
	return all[i : i+1]
}

func (r *reader) readList(path string, raw json.RawMessage, depth int) ([]*node, error) {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil || len(all) == 0 {
		return nil, errorf(path, "it must be a list of at least one schema")
	}
	nodes := make([]*node, len(all))
	for i, one := range all {
		var err error
		if nodes[i], err = r.readNode(fmt.Sprintf("%s/%d", path, i), one, depth+1); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// annotations are keywords without conditions on values.
var annotations = []string{
	"title", "description", "default", "examples", "$comment", "$schema", "deprecated", "readOnly", "writeOnly",
	"contentEncoding", "contentMediaType", "contentSchema", "strict", "example", "$id", "id", "$anchor", "$vocabulary",
	"discriminator", "externalDocs", "xml", "$defs", "definitions", "then", "else", "if", "additionalItems",
	"$dynamicAnchor", "$recursiveAnchor", "minContains", "maxContains",
}

// refused are keywords of some draft with conditions on values that are not supported.
var refused = []string{"extends", "disallow", "divisibleBy", "propertyDependencies"}

func (r *reader) readKeyword(n *node, path string, m member, depth int) (err error) {
	switch m.name {
	case "type":
		n.kinds, err = parseKinds(path, m.value)
	case "enum":
		var values []json.RawMessage
		if json.Unmarshal(m.value, &values) != nil || len(values) == 0 {
			return errorf(path, "it must be a list of at least one value")
		}
		n.restrictValues(values)
	case "const":
		n.restrictValues([]json.RawMessage{m.value})
	case "$ref":
		if kindOf(m.value) != text || json.Unmarshal(m.value, &n.ref) != nil {
			return errorf(path, "it must be a string")
		}
		r.refs = append(r.refs, n)
	case "$dynamicRef", "$recursiveRef":
		to := r.newDerivedNode(n.path)
		if to.dynamic = m.name; kindOf(m.value) != text || json.Unmarshal(m.value, &to.ref) != nil {
			return errorf(path, "it must be a string")
		}
		r.refs, n.allOf = append(r.refs, to), append(n.allOf, to)
	case "allOf":
		var all []*node
		all, err = r.readList(path, m.value, depth)
		n.allOf = append(n.allOf, all...)
	case "anyOf":
		var any []*node
		any, err = r.readList(path, m.value, depth)
		n.choices = append(n.choices, any)
	case "oneOf":
		n.oneOf, err = r.readList(path, m.value, depth)
	case "not":
		var not *node
		not, err = r.readNode(path, m.value, depth+1)
		n.not = append(n.not, not)
	case "additionalProperties", "propertyNames", "required", "properties", "patternProperties", "dependencies",
		"dependentRequired", "dependentSchemas":
		if m.name == "required" && kindOf(m.value) == boolean {
			if r.draft != 3 { // where it is about a property: see readProperty
				r.recordIgnored(path)
			}
			return nil
		}
		n.implied |= object
		err = r.readObjectKeyword(n, path, m, depth)
	case "prefixItems", "items", "uniqueItems":
		n.implied |= array
		err = r.readArrayKeyword(n, path, m, depth)
	case "contains":
		n.implied |= array
		n.contains, err = r.readNode(path, m.value, depth+1)
	case "unevaluatedItems":
		n.implied |= array
		n.otherItems, err = r.readNode(path, m.value, depth+1)
	case "unevaluatedProperties":
		n.implied |= object
		n.otherNames, err = r.readNode(path, m.value, depth+1)
	case "pattern", "format":
		n.implied |= text
		err = r.readStringKeyword(n, path, m)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		n.implied |= number
		err = readNumberKeyword(n, path, m)
	default:
		err = r.readOtherKeyword(n, path, m)
	}
	return err
}

// readOtherKeyword reads a keyword that bounds a count, refuses one with another condition on values, and records one
// that no draft defines.
func (r *reader) readOtherKeyword(n *node, path string, m member) (err error) {
	for _, of := range []struct {
		name string
		kind kinds
		to   *regular.Bounds
	}{{"Length", text, &n.charBounds}, {"Items", array, &n.itemBounds}, {"Properties", object, &n.propertyBounds}} {
		switch m.name {
		case "min" + of.name:
			n.implied |= of.kind
			of.to.Min, err = parseCount(path, m.value)
			return err
		case "max" + of.name:
			n.implied |= of.kind
			of.to.Max, err = parseCount(path, m.value)
			return err
		}
	}
	switch m.name {
	case "minContains":
		n.containBounds.Min, err = parseCount(path, m.value)
		return err
	case "maxContains":
		n.containBounds.Max, err = parseCount(path, m.value)
		return err
	}
	if slices.Contains(refused, m.name) {
		return errorf(path, "this keyword is not supported")
	}
	if !slices.Contains(annotations, m.name) && !strings.HasPrefix(m.name, "x-") {
		r.recordIgnored(path)
	}
	return nil
}

func (r *reader) recordIgnored(path string) {
	if len(r.ignored) < maxIgnored {
		r.ignored = append(r.ignored, path)
	}
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

func (r *reader) readObjectKeyword(n *node, path string, m member, depth int) (err error) {
	switch m.name {
	case "additionalProperties":
		n.additional, err = r.readNode(path, m.value, depth+1)
		return err
	case "propertyNames":
		n.propertyNames, err = r.readNode(path, m.value, depth+1)
		return err
	case "required":
		if json.Unmarshal(m.value, &n.required) != nil {
			return errorf(path, "it must be a list of names")
		}
		return nil
	}
	all, err := decodeMembers(m.value)
	if err != nil {
		return errorf(path, "%w", err)
	}
	if m.name == "properties" {
		n.properties = map[string]*node{}
	}
	for _, p := range all {
		if err := r.readProperty(n, m.name, path+"/"+escapePointer(p.name), p, depth); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readProperty(n *node, keyword, path string, p member, depth int) error {
	if keyword == "dependentRequired" || keyword == "dependencies" {
		var names []string
		if json.Unmarshal(p.value, &names) == nil {
			n.choices = append(n.choices, r.dependencyChoices(path, p.name, names, nil))
			return nil
		}
		if keyword == "dependentRequired" {
			return errorf(path, "it must be a list of names")
		}
	}
	value, err := r.readNode(path, p.value, depth+1)
	if err != nil {
		return err
	}
	switch keyword {
	case "properties":
		n.names = append(n.names, p.name)
		n.properties[p.name] = value
		if in, _ := decodeMembers(p.value); r.draft == 3 && slices.ContainsFunc(in, func(m member) bool {
			return m.name == "required" && string(m.value) == "true"
		}) {
			n.required = append(n.required, p.name)
		}
	case "patternProperties":
		if _, err := regular.Patterns(p.name); err != nil {
			return &grammar.Error{Path: path, Err: err}
		}
		n.patterned = append(n.patterned, property{p.name, value})
	default:
		n.choices = append(n.choices, r.dependencyChoices(path, p.name, nil, value))
	}
	return nil
}

// dependencyChoices returns the alternatives for a property that requires others or a schema: the property is absent,
// or all of that holds.
func (r *reader) dependencyChoices(path, name string, others []string, value *node) []*node {
	without, with := r.newAbsentProperty(path, name), r.newDerivedNode(path)
	with.required = append([]string{name}, others...)
	if value != nil {
		with.allOf = []*node{value}
	}
	return []*node{without, with}
}

func (r *reader) newAbsentProperty(path, name string) *node {
	n, never := r.newDerivedNode(path), r.newDerivedNode(path)
	never.never = true
	n.names, n.properties = []string{name}, map[string]*node{name: never}
	return n
}

func (r *reader) readArrayKeyword(n *node, path string, m member, depth int) (err error) {
	switch {
	case m.name == "uniqueItems":
		unique := false
		if json.Unmarshal(m.value, &unique) != nil {
			return errorf(path, "it must be true or false")
		}
		if unique {
			n.unique = path
		}
	case m.name == "items" && kindOf(m.value) != array:
		n.items, err = r.readNode(path, m.value, depth+1)
	case m.name == "prefixItems" || string(m.value) != "[]": // earlier drafts wrote items for prefixItems
		n.prefix, err = r.readList(path, m.value, depth)
	}
	return err
}

func (r *reader) readStringKeyword(n *node, path string, m member) error {
	var given *string
	if json.Unmarshal(m.value, &given) != nil || given == nil {
		return errorf(path, "it must be a string")
	}
	if m.name == "format" {
		if text, known := regular.Format(*given); known {
			n.patterns = append(n.patterns, pattern{regular.Pattern{Text: text}, path, true})
		} else {
			r.recordIgnored(path)
		}
		return nil
	}
	parts, err := regular.Patterns(*given)
	if err != nil {
		return &grammar.Error{Path: path, Err: err}
	}
	for _, p := range parts {
		n.patterns = append(n.patterns, pattern{p, path, false})
	}
	return nil
}

func readNumberKeyword(n *node, path string, m member) error {
	if raw := string(m.value); m.name[0] == 'e' && (raw == "true" || raw == "false") {
		return nil // of draft 4: see readDependentKeywords
	}
	if kindOf(m.value) != number {
		return errorf(path, "it must be a number")
	}
	v, err := regular.ParseNumber(string(m.value))
	if err != nil {
		return &grammar.Error{Path: path, Err: err}
	}
	switch m.name {
	case "minimum", "exclusiveMinimum":
		n.numbers.AtLeast(regular.Limit{At: v, Open: m.name != "minimum"})
	case "maximum", "exclusiveMaximum":
		n.numbers.AtMost(regular.Limit{At: v, Open: m.name != "maximum"})
	case "multipleOf":
		if v.Sign() <= 0 {
			return errorf(path, "it must be above 0")
		}
		n.numbers.And(regular.Numbers{Step: v})
	}
	return nil
}

func parseCount(path string, raw json.RawMessage) (int32, error) {
	n := -1.0
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > math.MaxInt32/2 || n != math.Trunc(n) {
		return 0, errorf(path, "it must be a whole number from 0 to %d", math.MaxInt32/2)
	}
	return int32(n), nil
}

func (r *reader) readDependentKeywords(n *node, all []member, depth int) (err error) {
	given := map[string]json.RawMessage{}
	for _, m := range all {
		given[m.name] = m.value
	}
	// In draft 4, exclusive bounds were booleans beside the other bounds.
	low, high := &n.numbers.Min, &n.numbers.Max
	low.Open = low.Open || low.At != nil && string(given["exclusiveMinimum"]) == "true"
	high.Open = high.Open || high.At != nil && string(given["exclusiveMaximum"]) == "true"
	// The form of earlier drafts for the items after a list.
	if list, more := given["items"], given["additionalItems"]; more != nil && n.items == nil &&
		(given["prefixItems"] != nil || list != nil && kindOf(list) == array) {
		if n.items, err = r.readNode(n.path+"/additionalItems", more, depth+1); err != nil {
			return err
		}
	}
	if given["if"] != nil {
		if err := r.readConditional(n, given, depth); err != nil {
			return err
		}
	}
	r.readDiscriminator(n, given["discriminator"])
	return nil
}

// readConditional reads if, then and else: either if and then hold, or if does not and else does.
func (r *reader) readConditional(n *node, given map[string]json.RawMessage, depth int) error {
	then, other := r.newDerivedNode(n.path), r.newDerivedNode(n.path)
	for _, part := range []struct {
		name string
		to   *[]*node
	}{{"if", &then.allOf}, {"if", &other.not}, {"then", &then.allOf}, {"else", &other.allOf}} {
		if given[part.name] == nil {
			continue
		}
		p, err := r.readNode(n.path+"/"+part.name, given[part.name], depth+1)
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

// readDiscriminator reads discriminator of OpenAPI: if a mapping names the schemas of oneOf or anyOf that are
// references, each holds for objects in which a property has its name.
func (r *reader) readDiscriminator(n *node, raw json.RawMessage) {
	var by struct {
		PropertyName string
		Mapping      map[string]string
	}
	if raw == nil || json.Unmarshal(raw, &by) != nil || by.PropertyName == "" {
		return // it has no condition on values by itself
	}
	names := map[string][]json.RawMessage{} // by references
	for _, name := range slices.Sorted(maps.Keys(by.Mapping)) {
		names[by.Mapping[name]] = append(names[by.Mapping[name]], json.RawMessage(regular.Quote(name)))
	}
	for _, list := range append(n.choices, n.oneOf) {
		for i, option := range list {
			values := names[option.ref]
			if option.ref == "" || values == nil {
				continue
			}
			both, tag := r.newDerivedNode(option.path), r.newDerivedNode(option.path)
			value := r.newDerivedNode(option.path)
			value.values = values
			tag.required, tag.names = []string{by.PropertyName}, []string{by.PropertyName}
			tag.properties = map[string]*node{by.PropertyName: value}
			both.allOf = []*node{option, tag}
			list[i] = both
		}
	}
}
