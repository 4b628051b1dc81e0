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
	top     *part
	draft   draft
	ids     map[string]string // paths by the names of $id, id and $anchor; nil until a reference needs them
	dynamic map[string]int    // how many schemas have an anchor of $dynamicRef or $recursiveRef, by keyword and name
}

// draft is a version of JSON schema: 3, 4, 6, 7, 2019 or 2020; 0 if the schema does not say, which has the rules of
// 2020-12, and those of earlier drafts that do not contradict them.
type draft int

// draftOf returns the draft of a schema.
func draftOf(top *part) draft {
	uri := top.text("$schema")
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

// refAlone reports whether a $ref makes all other keywords beside it ineffective.
func (d draft) refAlone() bool { return d >= 3 && d <= 7 }

// place is where a part of the document stands, as far as ids and anchors count there.
type place int

const (
	elsewhere place = iota // in values, and in keywords that no draft defines
	aSchema
	schemas // a list of schemas, or schemas by names
	itemsOf // one schema or a list of them
)

// places are the keywords that have schemas.
var places = map[string]place{
	"additionalItems": aSchema, "additionalProperties": aSchema, "contains": aSchema, "contentSchema": aSchema,
	"else": aSchema, "if": aSchema, "not": aSchema, "propertyNames": aSchema, "then": aSchema,
	"unevaluatedItems": aSchema, "unevaluatedProperties": aSchema, "items": itemsOf,
	"$defs": schemas, "allOf": schemas, "anyOf": schemas, "definitions": schemas, "dependencies": schemas,
	"dependentSchemas": schemas, "oneOf": schemas, "patternProperties": schemas, "prefixItems": schemas,
	"properties": schemas,
}

// enter returns the place of the part of p with a name.
func (at place) enter(p *part, name string) place {
	switch {
	case at == schemas || at == itemsOf && p.raw[0] == '[':
		return aSchema
	case at == aSchema || at == itemsOf:
		return places[name]
	}
	return elsewhere
}

// schema reports whether a part at this place is a schema.
func (at place) schema(p *part) bool { return at == aSchema || at == itemsOf && p.raw[0] != '[' }

// part is a value of the document, with its contents as far as they have been read.
type part struct {
	raw  json.RawMessage
	kids map[string]*part
}

// in returns the members of an object or the items of a list, by their names in a JSON pointer.
func (p *part) in() (map[string]*part, error) {
	if p.kids != nil {
		return p.kids, nil
	}
	p.kids = map[string]*part{}
	var list []json.RawMessage
	if json.Unmarshal(p.raw, &list) == nil {
		for i, raw := range list {
			p.kids[strconv.Itoa(i)] = &part{raw: raw}
		}
		return p.kids, nil
	}
	all, err := members(p.raw)
	for _, m := range all {
		p.kids[m.name] = &part{raw: m.value}
	}
	return p.kids, err
}

// text returns the text of a keyword, or "".
func (p *part) text(key string) (text string) {
	if kids, err := p.in(); err == nil && kids[key] != nil {
		_ = json.Unmarshal(kids[key].raw, &text) // it may be something else
	}
	return text
}

// id returns the id of a schema, or "".
func (d *document) id(p *part) (id string) {
	early := d.draft == 3 || d.draft == 4
	if !early {
		id = p.text("$id")
	}
	if early || id == "" && d.draft == 0 {
		id, early = p.text("id"), true
	}
	if (early || d.draft.refAlone()) && p.kids["$ref"] != nil {
		return ""
	}
	return id
}

// follow returns the target of the parts of a JSON pointer, and the base URI of references there.
func (d *document) follow(parts []string) (_ *part, base *url.URL, err error) {
	p, at := d.top, aSchema
	base = within(&url.URL{}, d.id(p))
	for _, name := range parts {
		kids, err := p.in()
		if err != nil {
			return nil, nil, err
		}
		name = unescape(name)
		at = at.enter(p, name)
		if p = kids[name]; p == nil {
			return nil, nil, errors.New("nothing is there")
		}
		if at.schema(p) {
			base = within(base, d.id(p))
		}
	}
	return p, base, nil
}

// within returns the URI of a schema with an id, inside one with the URI base.
func within(base *url.URL, id string) *url.URL {
	u, err := url.Parse(id)
	if id == "" || err != nil {
		return base
	}
	u = base.ResolveReference(u)
	u.Fragment = ""
	return u
}

// resolve returns the path and the text of the target of a reference from the schema at a path.
func (d *document) resolve(from, ref string) (path string, raw json.RawMessage, err error) {
	_, base, err := d.follow(strings.Split(from, "/")[1:])
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
		starts = d.named(base, before, plain)
	}
	for _, start := range starts {
		for _, pointer := range []string{plain, fragment} {
			if pointer != "" && pointer[0] != '/' {
				pointer = "" // it is an anchor, which start has resolved
			}
			whole := start + canonical(pointer)
			if p, _, err := d.follow(strings.Split(whole, "/")[1:]); err == nil {
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

// canonical returns a JSON pointer in the spelling of paths here.
func canonical(pointer string) string {
	parts := strings.Split(pointer, "/")
	for i := range parts {
		parts[i] = pointed(unescape(parts[i]))
	}
	return strings.Join(parts, "/")
}

// named returns the paths at which the JSON pointer of a reference may begin: that of the schema with its URI or
// anchor, and for a fragment alone also the root, because many schemas have ids without references to them.
func (d *document) named(base *url.URL, before, fragment string) (paths []string) {
	d.index()
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

// index finds all ids and anchors.
func (d *document) index() {
	if d.ids == nil {
		d.ids, d.dynamic = map[string]string{}, map[string]int{}
		d.name(d.top, aSchema, "#", &url.URL{}, 0)
	}
}

// name records the ids and anchors of a part at a place and of all parts in it.
func (d *document) name(p *part, at place, path string, base *url.URL, depth int) {
	if depth > maxDepth || at == elsewhere {
		return
	}
	if at.schema(p) {
		base = d.nameSchema(p, path, base)
	}
	kids, err := p.in()
	if err != nil {
		return // neither a list nor an object
	}
	for _, name := range slices.Sorted(maps.Keys(kids)) {
		d.name(kids[name], at.enter(p, name), path+"/"+pointed(name), base, depth+1)
	}
}

// nameSchema records the id and the anchors of a schema, and returns the base URI of references in it.
func (d *document) nameSchema(p *part, path string, base *url.URL) *url.URL {
	id := d.id(p)
	base = within(base, id)
	if _, known := d.ids[base.String()]; !known || id != "" && !strings.HasPrefix(id, "#") {
		d.ids[base.String()] = path
	}
	anchors := []string{strings.TrimPrefix(id, "#")}
	if !strings.HasPrefix(id, "#") {
		anchors[0] = ""
	}
	if !d.draft.refAlone() {
		dynamic := p.text("$dynamicAnchor")
		anchors = append(anchors, p.text("$anchor"), dynamic)
		if dynamic != "" {
			d.dynamic["$dynamicRef "+dynamic]++
		}
		if own := p.kids["$recursiveAnchor"]; own != nil && string(own.raw) == "true" {
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

// pointed returns a name as a part of a JSON pointer; unescape is its inverse.
func pointed(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

func unescape(part string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(part) }
