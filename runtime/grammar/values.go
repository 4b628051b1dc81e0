package grammar

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
)

// values adds what some schemas allow together to a rule.
func (c *compiler) values(start int32, facts []*node) error {
	if list := listed(facts); list != nil {
		return c.list(start, facts, list)
	}
	k := allowedKinds(facts)
	for _, of := range []struct {
		kinds kinds
		make  func(int32, []*node) error
	}{{text, c.text}, {integer, c.number}, {object, c.object}, {array, c.array}} {
		if k&of.kinds != 0 {
			if err := of.make(start, facts); err != nil {
				return err
			}
		}
	}
	for _, word := range []struct {
		kinds kinds
		text  string
	}{{boolean, "true"}, {boolean, "false"}, {null, "null"}} {
		if k&word.kinds != 0 {
			c.literal(start, word.text, c.end())
		}
	}
	return nil
}

// end makes a state at which a rule ends.
func (c *compiler) end() int32 {
	s := c.state(0)
	c.at(s).accept = true
	return s
}

// regular adds a regular part to a rule.
func (c *compiler) regular(start int32, key string, make func() (*dfa, error)) error {
	part, err := c.place(key, make)
	if err == nil {
		c.jump(start, part, keep)
	}
	return err
}

// list adds those of some values that the schemas allow otherwise as well.
func (c *compiler) list(start int32, facts []*node, values []string) error {
	others := make([]*node, len(facts))
	for i, n := range facts {
		others[i] = new(*n)
		others[i].values = nil
	}
	rest := newCompiler(c.schema)
	rest.work = c.work
	begin := rest.state(0)
	if err := rest.values(begin, others); err != nil {
		return err
	}
	if some, err := rest.finish(begin); err != nil || !some {
		return err
	}
	c.work = rest.work
	a := newNFA()
	for _, v := range values {
		if s := rest.g.Next(rest.g.Start(), []byte(v)...); s != nil && s.Done() {
			a.end[a.text(0, v)] = true
		}
		if len(a.places) > mostRegular {
			return errorf(pathOf(facts), "%w", errSize)
		}
	}
	return c.regular(start, "", a.determine)
}

// text adds strings.
func (c *compiler) text(start int32, facts []*node) error {
	b, pattern := bounds{0, unbounded}, (*node)(nil)
	for _, n := range facts {
		b = b.both(n.charBounds)
		if n.pattern == "" || pattern != nil && pattern.pattern == n.pattern {
			continue
		}
		if pattern != nil {
			return errorf(n.patternPath, "two patterns or formats of one string are not supported: the other is %s",
				pattern.patternPath)
		}
		pattern = n
	}
	if b.most != unbounded && b.least > b.most {
		return nil
	}
	if pattern == nil {
		c.jump(start, c.string(b), keep)
		return nil
	}
	key := "string " + strconv.Itoa(int(b.least)) + " " + strconv.Itoa(int(b.most)) + " " + pattern.pattern
	err := c.regular(start, key, func() (*dfa, error) {
		p, err := parsePattern(pattern.pattern)
		if err == nil {
			p, err = p.bound(b)
		}
		if err != nil {
			return nil, err
		}
		return p.quoted()
	})
	if err != nil {
		return &Error{pattern.patternPath, err}
	}
	return nil
}

// both returns the bounds that hold where two do.
func (b bounds) both(o bounds) bounds {
	b.least = max(b.least, o.least)
	if b.most == unbounded || o.most != unbounded && o.most < b.most {
		b.most = o.most
	}
	return b
}

// string returns the start of a string with as many characters as b says.
func (c *compiler) string(b bounds) int32 {
	key := "any string " + strconv.Itoa(int(b.least)) + " " + strconv.Itoa(int(b.most))
	if start, ok := c.parts[key]; ok {
		return start
	}
	c.g.bounds = append(c.g.bounds, b)
	of := int32(len(c.g.bounds) - 1)
	start, loop := c.state(of), c.state(of)
	c.parts[key] = start
	c.literal(start, `"`, loop)
	a := newNFA()
	back := a.place()
	a.end[back] = true
	a.chars(0, anyChar, back)
	d, err := a.determine()
	if err != nil {
		panic(err) // it is always the same
	}
	// The states of one character, of which the first is the loop: each way through it counts.
	names := make([]int32, len(d.arcs))
	for i := range names {
		names[i] = c.state(of)
	}
	names[0] = loop
	for i, arcs := range d.arcs {
		for _, x := range arcs {
			to, o := names[x.to], keep
			if len(d.arcs[x.to]) == 0 {
				to = loop
			}
			if i == 0 {
				o = count
			}
			c.at(names[i]).arcs = append(c.at(names[i]).arcs, arc{x.lo, x.hi, o, to})
		}
	}
	quote := c.end()
	c.at(loop).text = true
	c.at(loop).arcs = append(c.at(loop).arcs, arc{'"', '"', enough, quote})
	sortArcs(c.at(loop).arcs)
	return start
}

func sortArcs(arcs []arc) {
	slices.SortStableFunc(arcs, func(a, b arc) int { return int(a.lo) - int(b.lo) })
}

// number adds numbers, or whole ones.
func (c *compiler) number(start int32, facts []*node) error {
	var b numbers
	path := pathOf(facts)
	for _, n := range facts {
		if v := n.numbers.least; v != nil {
			b.atLeast(v, n.numbers.aboveLeast)
			path = n.path
		}
		if v := n.numbers.most; v != nil {
			b.atMost(v, n.numbers.belowMost)
			path = n.path
		}
		if v := n.numbers.step; v != nil {
			b.multipleOf(v)
			path = n.path + "/multipleOf"
		}
	}
	make, key := b.all, "number"
	if allowedKinds(facts)&broken == 0 {
		make, key = b.integers, "integer"
	}
	if b.least != nil || b.most != nil || b.step != nil {
		key = ""
	}
	if err := c.regular(start, key, make); err != nil {
		return &Error{path, err}
	}
	return nil
}

// objects are what some schemas say of objects together.
type objects struct {
	facts    []*node
	names    []string // of properties, in order, required ones that nobody describes last
	required []string
}

func objectOf(facts []*node) objects {
	o, names, required := objects{facts: facts}, set{}, set{}
	for _, n := range facts {
		for _, name := range n.names {
			if names.add(name) {
				o.names = append(o.names, name)
			}
		}
	}
	for _, n := range facts {
		for _, name := range n.required {
			if required.add(name) {
				o.required = append(o.required, name)
			}
			if names.add(name) {
				o.names = append(o.names, name)
			}
		}
	}
	return o
}

// of returns the schemas of a property.
func (o objects) of(name string) (all []*node) {
	for _, n := range o.facts {
		p := n.properties[name]
		if p == nil {
			p = n.additional
		}
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// others returns the schemas of properties that have no name.
func (o objects) others() (all []*node) {
	for _, n := range o.facts {
		if n.additional != nil {
			all = append(all, n.additional)
		}
	}
	return all
}

// listed reports whether properties are listed, and nothing is said of others.
func (o objects) listed() bool {
	return slices.ContainsFunc(o.facts, func(n *node) bool { return n.properties != nil }) &&
		!slices.ContainsFunc(o.facts, func(n *node) bool { return n.additional != nil })
}

// object adds objects: their properties in order, then others if there may be some.
//
//	first[i], more[i]: before property i, and whether there was one before it
func (c *compiler) object(start int32, facts []*node) error {
	o := objectOf(facts)
	open, closed := c.state(0), c.end()
	c.literal(start, "{", open)
	first, more := open, c.state(0)
	behind := more // a comma, if there was a property
	required := setOf(o.required)
	for _, name := range o.names {
		value, err := c.rule(o.of(name)...)
		if err != nil {
			return err
		}
		key, found := c.state(0), c.state(0)
		c.spaced(key, quote(name)+":", found)
		nextFirst, nextMore := c.state(0), c.state(0)
		c.at(found).calls = append(c.at(found).calls, call{value, nextMore})
		c.jump(first, key, keep)
		c.spaced(behind, ",", key)
		if !required.has(name) {
			c.jump(first, nextFirst, keep)
			c.jump(behind, nextMore, keep)
		}
		first, behind = nextFirst, nextMore
	}
	if !c.closed || !o.listed() {
		if err := c.other(o, first, behind); err != nil {
			return err
		}
	}
	c.literal(first, "}", closed)
	c.literal(behind, "}", closed)
	return nil
}

// other adds properties that have no name, behind some or none.
func (c *compiler) other(o objects, first, behind int32) error {
	value, err := c.rule(o.others()...)
	if err != nil {
		return err
	}
	names, err := c.place("", func() (*dfa, error) { return unlike(o.names).quoted() })
	if err != nil {
		return errorf(pathOf(o.facts), "%w", err)
	}
	key, colon, found := c.state(0), c.state(0), c.state(0)
	c.at(key).calls = append(c.at(key).calls, call{names, colon})
	c.spaced(colon, ":", found)
	c.at(found).calls = append(c.at(found).calls, call{value, behind})
	c.jump(first, key, keep)
	c.spaced(behind, ",", key)
	return nil
}

// unlike is all strings but some.
func unlike(names []string) *chars {
	c := newChars()
	rest := c.any(c.place())
	c.end[0], c.end[rest] = true, true
	at := map[string]int32{"": 0}
	for _, name := range names {
		for i, r := range name {
			before, after := name[:i], name[:i]+string(r)
			if _, ok := at[after]; !ok {
				at[after] = c.char(at[before], []rune{r, r})
				c.end[at[after]] = true
			}
		}
	}
	for _, name := range names {
		c.end[at[name]] = false
	}
	for _, p := range at {
		var used []rune
		for _, a := range c.places[p].arcs {
			used = append(used, a.ranges[0])
		}
		c.places[p].arcs = append(c.places[p].arcs, charArc{except(used), rest})
	}
	return c
}

// except is all characters but some.
func except(used []rune) (ranges []rune) {
	slices.Sort(used)
	from := rune(0)
	for _, r := range used {
		if from < r {
			ranges = append(ranges, from, r-1)
		}
		from = r + 1
	}
	return append(ranges, from, anyChar[1])
}

// array adds lists: the items that have schemas of their own, then as many of the others as there may be.
func (c *compiler) array(start int32, facts []*node) error {
	b, own, unique := bounds{0, unbounded}, 0, ""
	for _, n := range facts {
		b, own, unique = b.both(n.itemBounds), max(own, len(n.prefix)), cmp.Or(unique, n.unique)
	}
	if b.most != unbounded && b.least > b.most {
		return nil
	}
	if unique != "" && (b.most == unbounded || b.most > 1) {
		return c.different(start, facts, own, b, unique)
	}
	open, closed := c.state(0), c.end()
	c.literal(start, "[", open)
	at := open
	for i := 0; ; i++ {
		if int32(i) >= b.least {
			c.literal(at, "]", closed)
		}
		if b.most == int32(i) {
			return nil
		}
		item, err := c.rule(items(facts, i)...)
		if err != nil {
			return err
		}
		if i == own {
			return c.items(item, at, closed, i, b)
		}
		next := c.state(0)
		c.item(item, at, next, i)
		at = next
	}
}

// mostDifferent is how many values there can be of which each may be an item once.
const mostDifferent = 128

// different adds lists of items of which no two are equal, in the order in which the schema names them.
func (c *compiler) different(start int32, facts []*node, own int, b bounds, path string) error {
	values := few(items(facts, 0))
	if values == nil || own > 0 || len(values) > mostDifferent {
		return errorf(path, "it is supported where items are of an enum of at most %d values, boolean or null, "+
			"without prefixItems; or with maxItems 1", mostDifferent)
	}
	most := int32(len(values))
	if b.most != unbounded {
		most = min(most, b.most)
	}
	closed := c.end()
	open := make([]int32, most+1) // before an item, by how many there are
	for n := range open {
		open[n] = c.state(0)
	}
	c.literal(start, "[", open[0])
	if b.least == 0 {
		c.literal(open[0], "]", closed)
	}
	for _, v := range values { // from before v to before the one that follows it in the schema
		rule, err := c.rule(append(items(facts, 0), c.constant(v))...)
		if err != nil {
			return err
		}
		next := make([]int32, most+1)
		for n := range next {
			next[n] = c.state(0)
			c.jump(open[n], next[n], keep)
		}
		for n := range most {
			behind := c.state(0)
			c.at(open[n]).calls = append(c.at(open[n]).calls, call{rule, behind})
			c.spaced(behind, ",", next[n+1])
			if n+1 >= b.least {
				c.literal(behind, "]", closed)
			}
		}
		open = next
	}
	return nil
}

// few returns the values that some schemas allow, as far as these are few; nil where they are not.
func few(facts []*node) []string {
	if values := listed(facts); values != nil {
		all, known := []string{}, set{}
		for _, v := range values {
			if known.add(v) {
				all = append(all, v)
			}
		}
		return all
	}
	k := allowedKinds(facts)
	if k&^(boolean|null) != 0 {
		return nil
	}
	all := []string{}
	if k&boolean != 0 {
		all = append(all, "true", "false")
	}
	if k&null != 0 {
		all = append(all, "null")
	}
	return all
}

// constant makes the schema of one value.
func (c *compiler) constant(value string) *node {
	free := bounds{0, unbounded}
	n := &node{id: c.count, itemBounds: free, charBounds: free, values: []json.RawMessage{json.RawMessage(value)}}
	c.count++
	return n
}

// items returns the schemas of an item.
func items(facts []*node, i int) (all []*node) {
	for _, n := range facts {
		switch {
		case i < len(n.prefix):
			all = append(all, n.prefix[i])
		case n.items != nil:
			all = append(all, n.items)
		}
	}
	return all
}

// item adds the item i between two states.
func (c *compiler) item(rule, from, to int32, i int) {
	if i > 0 {
		found := c.state(0)
		c.spaced(from, ",", found)
		from = found
	}
	c.at(from).calls = append(c.at(from).calls, call{rule, to})
}

// items adds any number of items of one kind behind the first i, as far as b allows.
func (c *compiler) items(rule, from, closed int32, i int, b bounds) error {
	b.least = max(0, b.least-int32(i)-1) // of those that follow the first of them
	if b.most != unbounded {
		b.most -= int32(i) + 1
	}
	c.g.bounds = append(c.g.bounds, b)
	loop := c.state(int32(len(c.g.bounds) - 1))
	c.item(rule, from, loop, i)
	found, end := c.state(c.at(loop).bounds), c.state(c.at(loop).bounds)
	c.jump(loop, found, count)
	next := c.state(c.at(loop).bounds)
	c.spaced(found, ",", next)
	c.at(next).calls = append(c.at(next).calls, call{rule, loop})
	c.jump(loop, end, enough)
	c.literal(end, "]", closed)
	return nil
}
