package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// document is the JSON text of a schema, for looking up references.
type document struct {
	top *part
	ids map[string]string // paths by the names of $id, id and $anchor; nil until a reference needs them
}

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

// id returns the id of a schema, or "".
func (p *part) id(keys ...string) (id string) {
	kids, err := p.in()
	for _, key := range keys {
		if k := kids[key]; err == nil && k != nil && id == "" {
			_ = json.Unmarshal(k.raw, &id) // if it is not a string it is a property with that name
		}
	}
	return id
}

// follow returns the target of the parts of a JSON pointer, and the base URI of references there.
func (d *document) follow(parts []string) (_ *part, base *url.URL, err error) {
	p := d.top
	base = within(&url.URL{}, p.id("$id", "id"))
	for _, name := range parts {
		kids, err := p.in()
		if err != nil {
			return nil, nil, err
		}
		if p = kids[unescape(name)]; p == nil {
			return nil, nil, errors.New("nothing is there")
		}
		base = within(base, p.id("$id", "id"))
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
	if d.ids == nil {
		d.ids = map[string]string{}
		d.name(d.top, "#", &url.URL{}, 0)
	}
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

// name records the ids and anchors of a value and of all values in it.
func (d *document) name(p *part, path string, base *url.URL, depth int) {
	if depth > maxDepth {
		return
	}
	id := p.id("$id", "id")
	base = within(base, id)
	if _, known := d.ids[base.String()]; !known || id != "" && !strings.HasPrefix(id, "#") {
		d.ids[base.String()] = path
	}
	anchor := p.id("$anchor", "$dynamicAnchor")
	if strings.HasPrefix(id, "#") {
		anchor = id[1:]
	}
	if anchor != "" {
		d.ids[fmt.Sprintf("%s#%s", base, anchor)] = path
	}
	kids, err := p.in()
	if err != nil {
		return // neither a list nor an object
	}
	for name, kid := range kids {
		if name != "enum" && name != "const" && name != "default" && name != "examples" {
			d.name(kid, path+"/"+pointed(name), base, depth+1)
		}
	}
}

// pointed returns a name as a part of a JSON pointer; unescape is its inverse.
func pointed(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

func unescape(part string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(part) }
