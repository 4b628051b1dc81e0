package grammar

import (
	"maps"
	"slices"
)

// Bounds of objects.
const (
	maxNumbered = 1 << 14 // named properties, times how many of them are counted
	maxClasses  = 64      // of names, by which patterns they match
)

// properties are the properties of an object, while it is made.
type properties struct {
	objects
	b      bounds // of how many there are
	counts int32  // that are told apart: 0 to that; without an upper bound, as many or more
	names  *dfa   // that there can be; nil: any
}

// object adds objects: their properties in order, then others if there may be some.
func (c *compiler) object(start int32, facts []*node) error {
	p := properties{objects: objectOf(facts), b: anyNumber}
	not := exceptions(facts).of(object)
	if len(not) > 1 || len(not) == 1 && not[0] != "{}" {
		return nil // to tell others apart from these would take too much
	}
	p.b.least = int32(len(not))
	for _, n := range facts {
		p.b = p.b.both(n.propertyBounds)
	}
	if p.b.most != unbounded && p.b.least > p.b.most {
		return nil
	}
	if p.counts = max(1, p.b.least); p.b.most != unbounded {
		p.counts = p.b.most
	}
	if p.counts > 1 && int64(p.counts)*int64(len(p.objects.names)+1) > maxNumbered {
		return errorf(pathOf(facts), "to count so many properties %w", errSize)
	}
	var err error
	if p.names, err = c.nameSet(facts); err != nil {
		return err
	}
	return c.properties(start, &p)
}

// nameSet returns the names that propertyNames allows, as JSON spells them; nil where it is not given.
func (c *compiler) nameSet(facts []*node) (names *dfa, err error) {
	var all []*node
	for _, n := range facts {
		if n.propertyNames != nil {
			all = append(all, n.propertyNames)
		}
	}
	if all == nil {
		return nil, nil
	}
	ways, err := c.expand(all)
	if err != nil {
		return nil, err
	}
	some := newNFA()
	for _, way := range ways {
		d, err := c.nameSetOf(way)
		if err != nil {
			return nil, errorf(pathOf(all), "%w", err)
		}
		some.jump(0, some.include(d))
	}
	return some.determine(c.effort)
}

// nameSetOf returns the strings that some schemas allow.
func (c *compiler) nameSetOf(facts []*node) (*dfa, error) {
	t := textsOf(facts)
	if allowedKinds(facts)&text == 0 || t.bounds.most != unbounded && t.bounds.least > t.bounds.most {
		return new(dfa), nil
	}
	d, err := c.strings(t)
	list := listed(facts)
	if err != nil || list == nil {
		return d, err
	}
	some, err := setOfTexts(list)
	if err != nil {
		return nil, err
	}
	return d.product(c.effort, some, false)
}

// properties adds the properties of an object, the first of which come in order.
//
// at[n] is the state before a property, with n properties before it; key[n] the one before the name of the property
// that is the n-th.
func (c *compiler) properties(start int32, p *properties) error {
	at := c.several(p.counts)
	c.literal(start, "{", at[0])
	required := setOf(p.required)
	for _, name := range p.objects.names {
		values, err := c.valuesOf(p, name)
		if err != nil {
			return err
		}
		value, err := c.rule(values...)
		if err != nil {
			return err
		}
		next := c.several(p.counts)
		for n, key := range c.keys(at, p) {
			if p.names == nil || p.names.accepts(quote(name)) {
				found := c.state(0)
				c.spaced(key, quote(name)+":", found)
				c.at(found).calls = append(c.at(found).calls, call{value, next[n]})
			}
		}
		for n := range at {
			if !required.has(name) {
				c.jump(at[n], next[n], keep)
			}
		}
		at = next
	}
	if err := c.others(p, at); err != nil {
		return err
	}
	closed := c.end()
	for n := range at {
		if int32(n) >= p.b.least {
			c.literal(at[n], "}", closed)
		}
	}
	return nil
}

// several makes states, one more than n.
func (c *compiler) several(n int32) []int32 {
	all := make([]int32, n+1)
	for i := range all {
		all[i] = c.state(0)
	}
	return all
}

// keys makes the states before the name of the next property, by how many there are with it.
func (c *compiler) keys(at []int32, p *properties) map[int]int32 {
	keys := map[int]int32{}
	for n := 1; n < len(at); n++ {
		keys[n] = c.state(0)
	}
	for n, from := range at {
		key, ok := keys[n+1]
		if !ok && p.b.most == unbounded {
			key, ok = keys[n], true
		}
		switch {
		case !ok:
		case n == 0:
			c.jump(from, key, keep)
		default:
			c.spaced(from, ",", key)
		}
	}
	return keys
}

// valuesOf returns the schemas of a property with a name.
func (c *compiler) valuesOf(p *properties, name string) ([]*node, error) {
	var failed error
	values := p.values(&name, func(pattern string) bool {
		d, err := c.matcher(pattern)
		if err != nil {
			failed = err
			return false
		}
		return d.accepts(quote(name))
	})
	return values, failed
}

// closed reports whether there can be no properties but those that are named; listed: where none others are meant.
func (p *properties) closed(listed bool) bool {
	if slices.ContainsFunc(p.facts, func(n *node) bool { return n.patterned != nil }) {
		return false
	}
	return listed && p.listed() ||
		slices.ContainsFunc(p.facts, func(n *node) bool { return n.additional != nil && n.additional.never })
}

// class are names of properties that match the same patterns.
type class struct {
	names   *dfa
	matches set
}

// others adds properties that have no name, behind those that have.
func (c *compiler) others(p *properties, at []int32) error {
	if p.closed(c.schema.closed) {
		return nil
	}
	classes, err := c.classes(p)
	if err != nil {
		return errorf(pathOf(p.facts), "%w", err)
	}
	keys := c.keys(at, p)
	for _, class := range classes {
		if len(class.matches) == 0 && c.schema.closed && p.listed() {
			continue
		}
		values := p.values(nil, class.matches.has)
		if slices.ContainsFunc(values, func(n *node) bool { return n.never }) {
			continue
		}
		value, err := c.rule(values...)
		if err != nil {
			return err
		}
		names, err := c.place("", func() (*dfa, error) { return class.names, nil })
		if err != nil {
			return errorf(pathOf(p.facts), "%w", err)
		}
		for n, key := range keys {
			colon, found := c.state(0), c.state(0)
			c.at(key).calls = append(c.at(key).calls, call{names, colon})
			c.spaced(colon, ":", found)
			c.at(found).calls = append(c.at(found).calls, call{value, at[n]})
		}
	}
	return nil
}

// classes returns the names that properties can have beside those that are named, by the patterns that they match.
func (c *compiler) classes(p *properties) ([]class, error) {
	names, err := p.names, error(nil)
	if names == nil {
		names, err = c.matcher("^") // any
	}
	if err != nil {
		return nil, err
	}
	var named []string
	for _, name := range p.objects.names {
		named = append(named, quote(name))
	}
	known, err := setOfTexts(named)
	if err == nil {
		names, err = names.product(c.effort, known, true)
	}
	if err != nil {
		return nil, err
	}
	all := []class{{names, set{}}}
	done := set{}
	for _, n := range p.facts {
		for _, q := range n.patterned {
			if !done.add(q.pattern.text) {
				continue
			}
			m, err := c.matcher(q.pattern.text)
			if err != nil {
				return nil, err
			}
			if all, err = c.splitClasses(all, q.pattern.text, m); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// splitClasses splits classes into the names that match a pattern and those that do not.
func (c *compiler) splitClasses(all []class, pattern string, m *dfa) (split []class, err error) {
	for _, k := range all {
		for _, not := range []bool{false, true} {
			names, err := k.names.product(c.effort, m, not)
			if err != nil {
				return nil, err
			}
			matches := maps.Clone(k.matches)
			if !not {
				matches.add(pattern)
			}
			if !names.empty() {
				split = append(split, class{names, matches})
			}
		}
	}
	if len(split) > maxClasses {
		return nil, errSize
	}
	return split, nil
}
