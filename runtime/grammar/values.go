package grammar

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// values adds what some schemas allow together to a rule.
func (c *compiler) values(start int32, facts []*node) error {
	if list := listed(facts); list != nil {
		return c.list(start, facts, list)
	}
	k, not := allowedKinds(facts), exceptions(facts)
	for _, of := range []struct {
		kinds kinds
		make  func(int32, []*node) error
	}{{text, c.text}, {number, c.number}, {object, c.object}, {array, c.array}} {
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
		if k&word.kinds != 0 && !not.has(word.text) {
			c.literal(start, word.text, c.end())
		}
	}
	return nil
}

// exceptions returns the values that some schemas except, spelled as they are generated.
func exceptions(facts []*node) set {
	not := set{}
	for _, n := range facts {
		for _, v := range n.except {
			not.add(v)
		}
	}
	return not
}

// of returns those of some values that are of a type.
func (s set) of(k kinds) (values []string) {
	for v := range s {
		if kindOf(json.RawMessage(v))&k != 0 {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
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
	values, err := c.fitting(facts, slices.Clone(values))
	if err != nil {
		return err
	}
	for i, v := range values {
		values[i] = marked(v)
	}
	return c.regular(start, "", func() (*dfa, error) {
		d, err := setOfTexts(values)
		if err == nil {
			d.space()
		}
		return d, err
	})
}

// mark stands for a space if one likes. No value has it: JSON escapes it.
const mark = '\x1f'

// marked puts marks behind the commas and colons of a value.
func marked(value string) string {
	if value[0] != '[' && value[0] != '{' {
		return value
	}
	var b strings.Builder
	in := false // a string
	for i := 0; i < len(value); i++ {
		c := value[i]
		b.WriteByte(c)
		switch {
		case c == '"':
			in = !in
		case in && c == '\\':
			i++
			b.WriteByte(value[i])
		case !in && (c == ',' || c == ':'):
			b.WriteByte(mark)
		}
	}
	return b.String()
}

// fitting returns those of some values that some schemas allow that list them.
func (c *compiler) fitting(facts []*node, values []string) (fit []string, err error) {
	if !slices.ContainsFunc(facts, func(n *node) bool { return n.implied|n.kinds != 0 || n.except != nil || n.never }) {
		return values, nil
	}
	others := make([]*node, len(facts))
	for i, n := range facts {
		others[i] = new(*n)
		others[i].values = nil
	}
	rest := newCompiler(c.schema)
	begin := rest.state(0)
	if err := rest.values(begin, others); err != nil {
		return nil, err
	}
	if some, err := rest.finish(begin); err != nil || !some {
		return nil, err
	}
	for _, v := range values {
		if s := rest.g.Next(rest.g.Start(), []byte(v)...); s != nil && s.Done() {
			fit = append(fit, v)
		}
	}
	return fit, nil
}

// text adds strings.
func (c *compiler) text(start int32, facts []*node) error {
	t := textsOf(facts)
	switch {
	case t.bounds.most != unbounded && t.bounds.least > t.bounds.most:
		return nil
	case len(t.patterns)+len(t.not)+len(t.except) == 0:
		c.jump(start, c.string(t.bounds), keep)
		return nil
	}
	key := fmt.Sprintf("string %v %q %q %q", t.bounds, t.patterns, t.not, t.except)
	err := c.regular(start, key, func() (*dfa, error) { return c.strings(t) })
	if err == nil || len(t.patterns) == 0 {
		return err
	}
	return &Error{t.path, err}
}

// texts are what some schemas say of strings together.
type texts struct {
	bounds   bounds
	patterns []string // that match
	not      []string // that do not
	except   []string
	path     string // of a pattern
}

func textsOf(facts []*node) (t texts) {
	t.bounds = anyNumber
	for _, n := range facts {
		t.bounds = t.bounds.both(n.charBounds)
		for _, p := range n.patterns {
			t.path = p.path
			if p.not {
				t.not = append(t.not, p.text)
			} else {
				t.patterns = append(t.patterns, p.text)
			}
		}
	}
	t.except = exceptions(facts).of(text)
	for _, list := range []*[]string{&t.patterns, &t.not} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return t
}

// strings returns the strings of which t tells, as JSON spells them.
func (c *compiler) strings(t texts) (*dfa, error) {
	first := `^` // any
	if len(t.patterns) > 0 {
		first = t.patterns[0]
	}
	p, err := parsePattern(first)
	if err == nil {
		p, err = p.bound(t.bounds)
	}
	if err != nil {
		return nil, err
	}
	d, err := p.quoted(c.effort)
	for _, one := range t.patterns[min(1, len(t.patterns)):] {
		d, err = c.split(d, err, one, false)
	}
	for _, one := range t.not {
		d, err = c.split(d, err, one, true)
	}
	if err != nil || len(t.except) == 0 {
		return d, err
	}
	not, err := setOfTexts(t.except)
	if err != nil {
		return nil, err
	}
	return d.product(c.effort, not, true)
}

// split leaves of strings those that match a pattern, or those that do not, if there was no error before.
func (c *compiler) split(d *dfa, err error, pattern string, not bool) (*dfa, error) {
	if err != nil {
		return nil, err
	}
	m, err := c.matcher(pattern)
	if err != nil {
		return nil, err
	}
	return d.product(c.effort, m, not)
}

// matcher returns the strings that match a pattern, as JSON spells them.
func (c *compiler) matcher(text string) (d *dfa, err error) {
	if d = c.matchers[text]; d != nil {
		return d, nil
	}
	parts := lookaheads(text, "")
	last := len(parts) - 1
	p, err := parsePattern(parts[last].text)
	if err != nil {
		return nil, err
	}
	d, err = p.quoted(c.effort)
	for _, part := range parts[:last] {
		d, err = c.split(d, err, part.text, part.not)
	}
	if err == nil {
		c.matchers[text] = d
	}
	return d, err
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
	d, err := c.oneChar()
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
	c.at(loop).free = inString
	c.at(loop).arcs = append(c.at(loop).arcs, arc{'"', '"', enough, quote})
	sortArcs(c.at(loop).arcs)
	return start
}

// oneChar returns any character, as JSON spells it in a string.
func (c *compiler) oneChar() (*dfa, error) {
	if c.char == nil {
		a := newNFA()
		end := a.place()
		a.end[end] = true
		a.chars(0, anyChar, end)
		d, err := a.determine(c.effort)
		if err != nil {
			return nil, err
		}
		c.char = d
	}
	return c.char, nil
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
	b.forget()
	kinds, not := allowedKinds(facts)&number, exceptions(facts).of(number)
	key := fmt.Sprint("number ", kinds)
	if not != nil || b.least != nil || b.most != nil || b.step != nil {
		key = ""
	}
	for _, part := range b.without(not) {
		if err := c.regular(start, key, func() (*dfa, error) { return part.of(c.effort, kinds) }); err != nil {
			return &Error{path, err}
		}
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

// of returns the schemas of a property that its name alone tells of.
func (o objects) of(name string) (all []*node) {
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

// listed reports whether properties are listed, and nothing is said of others.
func (o objects) listed() bool {
	return slices.ContainsFunc(o.facts, func(n *node) bool { return n.properties != nil && !n.made }) &&
		!slices.ContainsFunc(o.facts, func(n *node) bool { return n.additional != nil })
}

// named returns the schema of a property with a name; nil where there is none.
func (n *node) named(name *string) *node {
	if name == nil {
		return nil
	}
	return n.properties[*name]
}

// values returns the schemas of a property with a name, or nil for any that is not named, that matches patterns or not.
func (o objects) values(name *string, matches func(pattern string) bool) (all []*node) {
	for _, n := range o.facts {
		known := false
		if p := n.named(name); p != nil {
			all, known = append(all, p), true
		}
		for _, q := range n.patterned {
			if matches(q.pattern.text) {
				all, known = append(all, q.value), true
			}
		}
		if !known && n.additional != nil {
			all = append(all, n.additional)
		}
	}
	return all
}

// array adds lists: the items that have schemas of their own, then as many of the others as there may be.
func (c *compiler) array(start int32, facts []*node) error {
	b, own, unique := anyNumber, 0, ""
	not := exceptions(facts).of(array)
	if len(not) > 1 || len(not) == 1 && not[0] != "[]" {
		return nil // to tell others apart from these would take too much
	}
	b.least = int32(len(not))
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

// maxDifferent is how many values there can be of which each may be an item once.
const maxDifferent = 128

// different adds lists of items of which no two are equal, in the order in which the schema names them.
func (c *compiler) different(start int32, facts []*node, own int, b bounds, path string) error {
	values := few(items(facts, 0))
	if values == nil || own > 0 || len(values) > maxDifferent {
		return errorf(path, "it is supported where items are of an enum of at most %d values, boolean or null, "+
			"without prefixItems; or with maxItems 1", maxDifferent)
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
	n := c.empty("#")
	n.values = raws([]string{value})
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
