package schema

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// Bounds of objects.
const (
	maxNumbered = 1 << 14 // named properties, times how many of them are counted
	maxClasses  = 64      // of names, by which patterns they match
	sorts       = 8       // of names, if some of them must differ
)

// objects are the conditions of some schemas on objects together.
type objects struct {
	facts    []*node
	names    []string // of properties, in order; required ones without a schema are last
	required []string
}

func objectOf(facts []*node) objects {
	o, names, required := objects{facts: facts}, stringSet{}, stringSet{}
	for _, n := range facts {
		for _, name := range n.names {
			if names.insertString(name) {
				o.names = append(o.names, name)
			}
		}
	}
	for _, n := range facts {
		for _, name := range n.required {
			if required.insertString(name) {
				o.required = append(o.required, name)
			}
			if names.insertString(name) {
				o.names = append(o.names, name)
			}
		}
	}
	return o
}

// schemasOf returns the schemas that apply to a property because of its name alone.
func (o objects) schemasOf(name string) (all []*node) {
	for _, n := range o.facts {
		p := n.properties[name]
		if p == nil && n.patterned == nil {
			p = n.additional
		}
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// listsProperties reports whether properties are listed, and there is no condition on others.
func (o objects) listsProperties() bool {
	return slices.ContainsFunc(o.facts, func(n *node) bool { return n.properties != nil && !n.made }) &&
		!slices.ContainsFunc(o.facts, func(n *node) bool { return n.additional != nil })
}

// propertySchemas returns the schemas of the property with a name, or of any unnamed one if name is nil. matches
// reports which patterns its name matches.
func (o objects) propertySchemas(name *string, matches func(pattern string) bool) (all []*node) {
	for _, n := range o.facts {
		known := false
		if name != nil && n.properties[*name] != nil {
			all, known = append(all, n.properties[*name]), true
		}
		for _, q := range n.patterned {
			if matches(q.pattern) {
				all, known = append(all, q.value), true
			}
		}
		if !known && n.additional != nil {
			all = append(all, n.additional)
		}
	}
	return all
}

// properties are the properties of an object while its states are built.
type properties struct {
	objects
	b      regular.Bounds // of how many there are
	counts int32          // largest distinguished count; without an upper bound it includes larger ones
	names  *regular.Set   // possible names; nil: any
	tags   bool           // they are parameters of a call in tags
}

func (c *compiler) addObject(start int32, facts []*node) error {
	return c.addObjectIn(start, facts, false)
}

// addObjectIn adds the objects that fit, in JSON or in tags.
func (c *compiler) addObjectIn(start int32, facts []*node, tags bool) error {
	b, some := c.countBounds(facts, object, "{}", func(n *node) regular.Bounds { return n.propertyBounds })
	if !some {
		return nil
	}
	p := properties{objects: objectOf(facts), b: b, counts: max(1, b.Min), tags: tags}
	if b.Bounded() {
		p.counts = b.Max
	}
	if p.counts > 1 && int64(p.counts)*int64(len(p.objects.names)+1) > maxNumbered {
		return errorf(pathOf(facts), "to count as many properties %w", regular.ErrSize)
	}
	var err error
	if p.names, err = c.nameSet(facts); err != nil {
		return err
	}
	return c.addProperties(start, &p)
}

// nameSet returns the names that propertyNames allows, in JSON's spelling; nil if it is absent.
func (c *compiler) nameSet(facts []*node) (names *regular.Set, err error) {
	var all []*node
	for _, n := range facts {
		if n.propertyNames != nil {
			all = append(all, n.propertyNames)
		}
	}
	if all == nil {
		return nil, nil
	}
	ways, err := c.expandChoices(all)
	if err != nil {
		return nil, err
	}
	sets := make([]*regular.Set, len(ways))
	for i := 0; i < len(ways) && err == nil; i++ {
		sets[i], err = c.nameSetOf(ways[i])
	}
	if err == nil {
		names, err = c.Or(sets...)
	}
	if err != nil {
		return nil, errorf(pathOf(all), "%w", err)
	}
	return names, nil
}

func (c *compiler) nameSetOf(facts []*node) (*regular.Set, error) {
	s, _ := stringConditions(facts)
	if strictKinds(facts)&text == 0 || s.Length.Empty() {
		return new(regular.Set), nil
	}
	d, err := c.Strings(s)
	list := listedValues(facts)
	if err != nil || list == nil {
		return d, err
	}
	some, err := regular.Of(list)
	if err != nil {
		return nil, err
	}
	return c.And(d, some)
}

// addProperties adds the properties of an object, the first of which come in order.
//
// at[n] is the state before a property, with n properties before it; key[n] the one before the name of the property
// that is the n-th.
func (c *compiler) addProperties(start int32, p *properties) error {
	at := c.addStates(p.counts)
	c.addBrace(p, start, "{", at[0])
	required := stringSetOf(p.required)
	for _, name := range p.objects.names {
		values, err := c.namedPropertySchemas(p, name)
		if err != nil {
			return err
		}
		value, err := c.valueStart(p, values)
		if err != nil {
			return err
		}
		next := c.addStates(p.counts)
		for n, key := range c.addKeyStates(at, 0, p) {
			if p.names == nil || p.names.Has(regular.Quote(name)) {
				c.addNamed(p, key, name, value, next[n])
			}
		}
		for n := range at {
			if !required.hasString(name) {
				c.Jump(at[n], next[n])
			}
		}
		at = next
	}
	if err := c.addUnnamedProperties(p, at); err != nil {
		return err
	}
	closed := c.End()
	for n := range at {
		if int32(n) >= p.b.Min {
			c.addBrace(p, at[n], "}", closed)
		}
	}
	return nil
}

// addBrace adds the path over a brace of the object, which tags have not.
func (c *compiler) addBrace(p *properties, from int32, brace string, to int32) {
	if p.tags {
		c.Jump(from, to)
		return
	}
	c.Literal(from, brace, to)
}

func (c *compiler) valueStart(p *properties, values []*node) (int32, error) {
	if p.tags {
		return c.startOf("value in tags ", c.addTagged, values)
	}
	return c.ruleStart(values...)
}

// addSeparator adds the path from a property to the next one.
func (c *compiler) addSeparator(p *properties, from, to int32) {
	if p.tags {
		c.Jump(from, to)
		return
	}
	c.Spaced(from, ",", to)
}

// addNamed adds a property with a name, and a value of a rule.
func (c *compiler) addNamed(p *properties, from int32, name string, value, to int32) {
	found := c.State()
	switch {
	case !p.tags:
		c.Spaced(from, regular.Quote(name)+":", found)
	case isTagName(name):
		c.Literal(from, ParameterTag+name+TagEnd, found)
	default:
		c.recordOmission(pathOf(p.facts), "tags cannot hold the name %q", name)
	}
	c.Call(found, value, to)
}

// addUnnamed adds a property with a name of a part.
func (c *compiler) addUnnamed(p *properties, from, names, value, to int32) {
	colon, found := c.State(), c.State()
	if p.tags {
		name := c.State()
		c.Literal(from, ParameterTag, name)
		c.Call(name, names, colon)
		c.Literal(colon, TagEnd, found)
	} else {
		c.Call(from, names, colon)
		c.Spaced(colon, ":", found)
	}
	c.Call(found, value, to)
}

// addKeyStates makes the states before the name of the next property, by the number of properties including it, if
// there are at least some before it.
func (c *compiler) addKeyStates(at []int32, least int, p *properties) map[int]int32 {
	keys := map[int]int32{}
	for n := least + 1; n < len(at); n++ {
		keys[n] = c.State()
	}
	for n, from := range at {
		if n < least {
			continue
		}
		key, ok := keys[n+1]
		if !ok && p.b.Max == regular.Unbounded {
			key, ok = keys[n], true
		}
		switch {
		case !ok:
		case n == 0:
			c.Jump(from, key)
		default:
			c.addSeparator(p, from, key)
		}
	}
	return keys
}

func (c *compiler) namedPropertySchemas(p *properties, name string) ([]*node, error) {
	var failed error
	values := p.propertySchemas(&name, func(pattern string) bool {
		d, err := c.Matching(pattern)
		if err != nil {
			failed = errorf(pathOf(p.facts), "%w", err)
			return false
		}
		return d.Has(regular.Quote(name))
	})
	return values, failed
}

// onlyNamed reports whether only named properties are possible. listed says that the schema lists properties and means
// no others.
func (p *properties) onlyNamed(listed bool) bool {
	if slices.ContainsFunc(p.facts, func(n *node) bool { return n.patterned != nil }) {
		return false
	}
	return listed && p.listsProperties() ||
		slices.ContainsFunc(p.facts, func(n *node) bool { return n.additional != nil && n.additional.never })
}

// nameClass is a set of property names that match the same patterns.
type nameClass struct {
	names   *regular.Set
	matches stringSet
}

func (c *compiler) addUnnamedProperties(p *properties, at []int32) error {
	if p.onlyNamed(c.closed) {
		if !p.onlyNamed(false) {
			c.recordOmission(pathOf(p.facts), "objects have the properties that are listed here, no others")
		}
		return nil
	}
	classes, err := c.nameClasses(p)
	if err != nil {
		return errorf(pathOf(p.facts), "%w", err)
	}
	keys := c.addKeyStates(at, int(max(0, p.b.Min-1)), p)
	var free []unnamedProperties
	for _, class := range classes {
		if len(class.matches) == 0 && c.closed && p.listsProperties() {
			continue
		}
		values := p.propertySchemas(nil, class.matches.hasString)
		if slices.ContainsFunc(values, func(n *node) bool { return n.never }) {
			continue
		}
		value, err := c.valueStart(p, values)
		if err == nil && p.tags {
			class.names, err = c.tagNames(class.names)
		}
		if err != nil {
			return err
		}
		names, err := c.Part("", func() (*regular.Set, error) { return class.names, nil })
		if err != nil {
			return errorf(pathOf(p.facts), "%w", err)
		}
		for n, key := range keys {
			c.addUnnamed(p, key, names, value, at[n])
		}
		free = append(free, unnamedProperties{class.names, value})
	}
	return c.addDifferingNames(p, at, free)
}

// unnamedProperties are properties with some names and values of a rule.
type unnamedProperties struct {
	names *regular.Set
	value int32
}

// addDifferingNames adds unnamed properties after which more of them are needed. An automaton cannot remember names, so
// only names of sorts that have not been there count, because these differ.
func (c *compiler) addDifferingNames(p *properties, at []int32, all []unnamedProperties) error {
	if p.b.Min < 2 {
		return nil
	}
	var rules []sortedProperties
	for _, u := range all {
		parts, err := c.Sorts(u.names, sorts)
		one := sortedProperties{value: u.value}
		for i := 0; i < len(parts) && err == nil; i++ {
			one.names[i], err = c.Part("", func() (*regular.Set, error) { return parts[i], nil })
		}
		if err != nil {
			return errorf(pathOf(p.facts), "%w", err)
		}
		rules = append(rules, one)
	}
	if p.b.Min > sorts {
		c.recordOmission(pathOf(p.facts),
			"of properties that are not listed, at most %d that must differ are generated", sorts)
	}
	for n := max(0, p.b.Min-sorts); n+1 < p.b.Min; n++ {
		c.addNamesBySort(p, at, n, rules)
	}
	return nil
}

// sortedProperties are unnamed properties, with the starts of their names by sorts.
type sortedProperties struct {
	names [sorts]int32
	value int32
}

func (c *compiler) addNamesBySort(p *properties, at []int32, n int32, all []sortedProperties) {
	states, open := map[uint]int32{0: at[n]}, []uint{0} // by the sorts that have been there
	for len(open) > 0 && !c.Full() {
		seen := open[len(open)-1]
		open = open[:len(open)-1]
		key := c.State()
		if n == 0 && seen == 0 {
			c.Jump(states[seen], key)
		} else {
			c.addSeparator(p, states[seen], key)
		}
		for _, u := range all {
			for s, names := range u.names {
				next := seen | 1<<s
				to, known := states[next]
				switch {
				case next == seen && p.b.Bounded(): // it would count for the maximum
					continue
				case int32(bits.OnesCount(next)) == p.b.Min-n:
					to = at[p.b.Min]
				case !known:
					to = c.State()
					states[next], open = to, append(open, next)
				}
				c.addUnnamed(p, key, names, u.value, to)
			}
		}
	}
}

func (c *compiler) nameClasses(p *properties) ([]nameClass, error) {
	names, err := p.names, error(nil)
	if names == nil {
		names, err = c.AnyString()
	}
	if err != nil {
		return nil, err
	}
	var named []string
	for _, name := range p.objects.names {
		named = append(named, regular.Quote(name))
	}
	known, err := regular.Of(named)
	if err == nil {
		names, err = c.Without(names, known)
	}
	if err != nil {
		return nil, err
	}
	all := []nameClass{{names, stringSet{}}}
	done := stringSet{}
	for _, n := range p.facts {
		for _, q := range n.patterned {
			if !done.insertString(q.pattern) {
				continue
			}
			m, err := c.Matching(q.pattern)
			if err != nil {
				return nil, err
			}
			if all, err = c.splitClasses(all, q.pattern, m); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (c *compiler) splitClasses(all []nameClass, pattern string, m *regular.Set) (split []nameClass, err error) {
	for _, k := range all {
		matching, err := c.And(k.names, m)
		if err != nil {
			return nil, err
		}
		others, err := c.Without(k.names, m)
		if err != nil {
			return nil, err
		}
		matches := maps.Clone(k.matches)
		matches.insertString(pattern)
		for _, part := range []nameClass{{matching, matches}, {others, k.matches}} {
			if !part.names.Empty() {
				split = append(split, part)
			}
		}
	}
	if len(split) > maxClasses {
		return nil, regular.ErrSize
	}
	return split, nil
}
