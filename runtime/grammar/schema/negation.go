package schema

import (
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// negateNode returns a schema of values that do not fit n: each of its alternatives contradicts one keyword. Some
// contradictions cannot be expressed by a schema, so that it may allow fewer values than there are.
func (c *compiler) negateNode(n *node) (*node, error) {
	if known := c.negated[n]; known != nil {
		return known, nil
	}
	not := c.newDerivedNode(n.path)
	var ways []*node
	way := func(change func(*node)) {
		w := c.newDerivedNode(n.path)
		change(w)
		ways = append(ways, w)
	}
	if rest := anyKind &^ n.kinds; n.kinds != 0 && rest != 0 {
		way(func(w *node) { w.kinds = rest })
	}
	if n.values != nil {
		way(func(w *node) { w.except = n.spelledValues() })
	}
	if n.except != nil {
		way(func(w *node) { w.values = rawMessages(n.except) })
	}
	if n.ref != "" {
		way(func(w *node) { w.not = []*node{c.nodes[n.ref]} })
	}
	for _, m := range n.allOf {
		way(func(w *node) { w.not = []*node{m} })
	}
	for _, m := range n.not {
		way(func(w *node) { w.allOf = []*node{m} })
	}
	for _, list := range n.choices {
		way(func(w *node) { w.not = list })
	}
	if n.oneOf != nil {
		way(func(w *node) { w.not = n.oneOf })
	}
	c.negateObject(n, way)
	c.negateArray(n, way)
	c.negateText(n, way)
	negateNumber(n, way)
	switch {
	case n.never: // no value fits it
	case len(ways) > 0:
		not.choices = [][]*node{ways}
	case n.allowsAnything() || n.kinds == anyKind && n.onlyKinds():
		not.never = true
	default:
		return nil, errorf(n.path, "values that do not fit it cannot be described")
	}
	c.negated[n] = not
	for _, keyword := range n.unnegatedKeywords() {
		c.recordOmission(n.path+"/"+keyword,
			"of values that must not fit, none is generated that only this keyword excludes")
	}
	return not, nil
}

func (n *node) unnegatedKeywords() (keywords []string) {
	for _, k := range []struct {
		name string
		has  bool
	}{
		{"items", n.items != nil && !n.items.allowsAnything()}, {"uniqueItems", n.unique != ""},
		{"contains", n.contains != nil && (n.containBounds.Min > 1 || n.containBounds.Bounded())},
		{"unevaluatedItems", n.otherItems != nil && !n.otherItems.allowsAnything()},
		{"unevaluatedProperties", n.otherNames != nil && !n.otherNames.allowsAnything()},
		{"additionalProperties", n.additional != nil && !n.additional.allowsAnything()},
		{"patternProperties", n.patterned != nil}, {"propertyNames", n.propertyNames != nil},
		{"multipleOf", n.numbers.Step != nil}, {"oneOf", n.oneOf != nil},
		{"format", slices.ContainsFunc(n.patterns, func(p pattern) bool { return p.format })},
	} {
		if k.has {
			keywords = append(keywords, k.name)
		}
	}
	return keywords
}

func (c *compiler) negateObject(n *node, way func(func(*node))) {
	for _, name := range n.required {
		way(func(w *node) {
			without := c.newAbsentProperty(n.path, name)
			w.kinds, w.names, w.properties = object, without.names, without.properties
		})
	}
	for _, name := range n.names {
		p := n.properties[name]
		if p.allowsAnything() {
			continue
		}
		way(func(w *node) {
			value := c.newDerivedNode(p.path)
			value.not = []*node{p}
			w.kinds, w.required, w.names, w.properties = object, []string{name}, []string{name},
				map[string]*node{name: value}
		})
	}
	eachOutsideBounds(n.propertyBounds, func(b regular.Bounds) {
		way(func(w *node) { w.kinds, w.propertyBounds = object, b })
	})
}

// negateArray adds contradictions of the bounds of a list, and of its first items.
func (c *compiler) negateArray(n *node, way func(func(*node))) {
	eachOutsideBounds(n.itemBounds, func(b regular.Bounds) {
		way(func(w *node) { w.kinds, w.itemBounds = array, b })
	})
	if n.contains != nil && n.containBounds.Min > 0 {
		way(func(w *node) {
			w.items = c.newDerivedNode(n.contains.path)
			w.kinds, w.items.not = array, []*node{n.contains}
		})
	}
	for i, p := range n.prefix {
		if p.allowsAnything() {
			continue
		}
		way(func(w *node) {
			for range i {
				w.prefix = append(w.prefix, c.newDerivedNode(p.path))
			}
			value := c.newDerivedNode(p.path)
			value.not = []*node{p}
			w.kinds, w.prefix, w.itemBounds.Min = array, append(w.prefix, value), int32(i)+1
		})
	}
}

// negateText adds contradictions of the keywords about strings, except formats: these have more texts than this package
// generates.
func (c *compiler) negateText(n *node, way func(func(*node))) {
	eachOutsideBounds(n.charBounds, func(b regular.Bounds) {
		way(func(w *node) { w.kinds, w.charBounds = text, b })
	})
	for _, p := range n.patterns {
		if !p.format {
			p.Not = !p.Not
			way(func(w *node) { w.kinds, w.patterns = text, []pattern{p} })
		}
	}
}

func negateNumber(n *node, way func(func(*node))) {
	if l := n.numbers.Min; l.At != nil {
		way(func(w *node) { w.kinds, w.numbers.Max = number, regular.Limit{At: l.At, Open: !l.Open} })
	}
	if l := n.numbers.Max; l.At != nil {
		way(func(w *node) { w.kinds, w.numbers.Min = number, regular.Limit{At: l.At, Open: !l.Open} })
	}
}

func eachOutsideBounds(b regular.Bounds, with func(regular.Bounds)) {
	if b.Min > 0 {
		with(regular.Bounds{Min: 0, Max: b.Min - 1})
	}
	if b.Bounded() {
		with(regular.Bounds{Min: b.Max + 1, Max: regular.Unbounded})
	}
}
