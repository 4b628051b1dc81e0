package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// document is the JSON text of a schema, for looking up references.
type document struct {
	top     *jsonValue
	draft   draft
	ids     map[string]string // paths by the names of $id, id and $anchor; nil until a reference needs them
	dynamic map[string]int    // how many schemas have an anchor of $dynamicRef or $recursiveRef, by keyword and name
}

// draft is a version of JSON schema: 3, 4, 6, 7, 2019 or 2020; 0 if the schema does not say, which has the rules of
// 2020-12, and those of earlier drafts that do not contradict them.
type draft int

func draftOf(top *jsonValue) draft {
	uri := top.stringMember("$schema")
	for _, known := range []draft{3, 4, 6, 7} {
		if strings.Contains(uri, fmt.Sprintf("/draft-%02d/", known)) {
			return known
		}
	}
	switch {
	case strings.Contains(uri, "/2019-09/"):
		return 2019
	case strings.Contains(uri, "/2020-12/"):
		return 2020
	}
	return 0
}

func (d draft) refHidesSiblings() bool { return d >= 3 && d <= 7 }

// location is where a part of the document stands, as far as ids and anchors count there.
type location int

const (
	elsewhere location = iota // in values, and in keywords that no draft defines
	aSchema
	schemas // a list of schemas, or schemas by names
	itemsOf // one schema or a list of them
)

// keywordLocations are the keywords that have schemas.
var keywordLocations = map[string]location{
	"additionalItems": aSchema, "additionalProperties": aSchema, "contains": aSchema, "contentSchema": aSchema,
	"else": aSchema, "if": aSchema, "not": aSchema, "propertyNames": aSchema, "then": aSchema,
	"unevaluatedItems": aSchema, "unevaluatedProperties": aSchema, "items": itemsOf,
	"$defs": schemas, "allOf": schemas, "anyOf": schemas, "definitions": schemas, "dependencies": schemas,
	"dependentSchemas": schemas, "oneOf": schemas, "patternProperties": schemas, "prefixItems": schemas,
	"properties": schemas,
}

func (at location) childLocation(p *jsonValue, name string) location {
	switch {
	case at == schemas || at == itemsOf && p.raw[0] == '[':
		return aSchema
	case at == aSchema || at == itemsOf:
		return keywordLocations[name]
	}
	return elsewhere
}

func (at location) holdsSchema(p *jsonValue) bool {
	return at == aSchema || at == itemsOf && p.raw[0] != '['
}

// jsonValue is a value of the document, with its contents as far as they have been read.
type jsonValue struct {
	raw      json.RawMessage
	children map[string]*jsonValue
}

// childValues returns the members of an object or the items of a list, by their names in a JSON pointer.
func (p *jsonValue) childValues() (map[string]*jsonValue, error) {
	if p.children != nil {
		return p.children, nil
	}
	p.children = map[string]*jsonValue{}
	var list []json.RawMessage
	if json.Unmarshal(p.raw, &list) == nil {
		for i, raw := range list {
			p.children[strconv.Itoa(i)] = &jsonValue{raw: raw}
		}
		return p.children, nil
	}
	all, err := decodeMembers(p.raw)
	for _, m := range all {
		p.children[m.name] = &jsonValue{raw: m.value}
	}
	return p.children, err
}

func (p *jsonValue) stringMember(key string) (text string) {
	if kids, err := p.childValues(); err == nil && kids[key] != nil {
		_ = json.Unmarshal(kids[key].raw, &text) // it may be something else
	}
	return text
}

func (d *document) schemaID(p *jsonValue) (id string) {
	early := d.draft == 3 || d.draft == 4
	if !early {
		id = p.stringMember("$id")
	}
	if early || id == "" && d.draft == 0 {
		id, early = p.stringMember("id"), true
	}
	if (early || d.draft.refHidesSiblings()) && p.children["$ref"] != nil {
		return ""
	}
	return id
}

// followPointer returns the target of the parts of a JSON pointer, and the base URI of references there.
func (d *document) followPointer(parts []string) (_ *jsonValue, base *url.URL, err error) {
	p, at := d.top, aSchema
	base = resolveBase(&url.URL{}, d.schemaID(p))
	for _, name := range parts {
		kids, err := p.childValues()
		if err != nil {
			return nil, nil, err
		}
		name = unescapePointer(name)
		at = at.childLocation(p, name)
		if p = kids[name]; p == nil {
			return nil, nil, errors.New("nothing is there")
		}
		if at.holdsSchema(p) {
			base = resolveBase(base, d.schemaID(p))
		}
	}
	return p, base, nil
}

// resolveBase returns the URI of a schema with an id, inside one with the URI base.
func resolveBase(base *url.URL, id string) *url.URL {
	u, err := url.Parse(id)
	if id == "" || err != nil {
		return base
	}
	u = base.ResolveReference(u)
	u.Fragment = ""
	return u
}

// resolveReference returns the path and the text of the target of a reference from the schema at a path.
func (d *document) resolveReference(from, ref string) (path string, raw json.RawMessage, err error) {
	_, base, err := d.followPointer(strings.Split(from, "/")[1:])
	if err != nil {
		return "", nil, err
	}
	before, fragment, _ := strings.Cut(ref, "#")
	plain, err := url.PathUnescape(fragment)
	if err != nil {
		plain = fragment // a literal percent sign
	}
	starts := []string{"#"}
	if before != "" || base.String() != "" || plain != "" && plain[0] != '/' {
		starts = d.pointerStarts(base, before, plain)
	}
	for _, start := range starts {
		for _, pointer := range []string{plain, fragment} {
			if pointer != "" && pointer[0] != '/' {
				pointer = "" // it is an anchor, which start has resolved
			}
			whole := start + canonicalPointer(pointer)
			if p, _, err := d.followPointer(strings.Split(whole, "/")[1:]); err == nil {
				return whole, p.raw, nil
			}
		}
	}
	if len(starts) == 0 {
		return "", nil, errors.New(`it leads outside of the schema, or to an id that is not there: ` +
			`references such as "#/$defs/name" are supported`)
	}
	return "", nil, errors.New("nothing is there")
}

func canonicalPointer(pointer string) string {
	parts := strings.Split(pointer, "/")
	for i := range parts {
		parts[i] = escapePointer(unescapePointer(parts[i]))
	}
	return strings.Join(parts, "/")
}

// pointerStarts returns the paths at which the JSON pointer of a reference may begin: that of the schema with its URI
// or anchor, and for a fragment alone also the root, because many schemas have ids without references to them.
func (d *document) pointerStarts(base *url.URL, before, fragment string) (paths []string) {
	d.indexNames()
	uri, err := base.Parse(before)
	if err != nil {
		return nil
	}
	key := uri.String()
	if fragment != "" && fragment[0] != '/' {
		key += "#" + fragment
	}
	if path, ok := d.ids[key]; ok {
		paths = append(paths, path)
	}
	if before == "" && (fragment == "" || fragment[0] == '/') {
		paths = append(paths, "#")
	}
	return paths
}

func (d *document) indexNames() {
	if d.ids == nil {
		d.ids, d.dynamic = map[string]string{}, map[string]int{}
		d.indexValue(d.top, aSchema, "#", &url.URL{}, 0)
	}
}

func (d *document) indexValue(p *jsonValue, at location, path string, base *url.URL, depth int) {
	if depth > maxDepth || at == elsewhere {
		return
	}
	if at.holdsSchema(p) {
		base = d.indexSchema(p, path, base)
	}
	kids, err := p.childValues()
	if err != nil {
		return // neither a list nor an object
	}
	for _, name := range slices.Sorted(maps.Keys(kids)) {
		d.indexValue(kids[name], at.childLocation(p, name), path+"/"+escapePointer(name), base, depth+1)
	}
}

// indexSchema records the id and the anchors of a schema, and returns the base URI of references in it.
func (d *document) indexSchema(p *jsonValue, path string, base *url.URL) *url.URL {
	id := d.schemaID(p)
	base = resolveBase(base, id)
	if _, known := d.ids[base.String()]; !known || id != "" && !strings.HasPrefix(id, "#") {
		d.ids[base.String()] = path
	}
	anchors := []string{strings.TrimPrefix(id, "#")}
	if !strings.HasPrefix(id, "#") {
		anchors[0] = ""
	}
	if !d.draft.refHidesSiblings() {
		dynamic := p.stringMember("$dynamicAnchor")
		anchors = append(anchors, p.stringMember("$anchor"), dynamic)
		if dynamic != "" {
			d.dynamic["$dynamicRef "+dynamic]++
		}
		if own := p.children["$recursiveAnchor"]; own != nil && string(own.raw) == "true" {
			d.dynamic["$recursiveRef "]++
		}
	}
	for _, anchor := range anchors {
		if anchor != "" {
			d.ids[fmt.Sprintf("%s#%s", base, anchor)] = path
		}
	}
	return base
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func unescapePointer(part string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
}
