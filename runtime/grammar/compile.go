package grammar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Schema makes the grammar of the values of a JSON schema: a part of draft 2020-12 that docs/structured.md lists. What
// is wrong, is not supported, or allows no value at all is an [Error].
//
// What it takes is bounded, in steps and in memory, and it ends with the cause of ctx when that does.
func Schema(ctx context.Context, raw []byte) (*Grammar, error) { return grammarOf(ctx, raw, false) }

// Closed makes the grammar of those values of a JSON schema in which objects have no other properties than those that
// are listed, unless none are or additionalProperties says otherwise: what is meant where nobody thought of others.
func Closed(ctx context.Context, raw []byte) (*Grammar, error) { return grammarOf(ctx, raw, true) }

func grammarOf(ctx context.Context, raw []byte, closed bool) (g *Grammar, err error) {
	s, err := parse(&effort{stop: func() error { return context.Cause(ctx) }}, raw)
	if err == nil {
		s.closed = closed
		g, err = compile(s)
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return g, err
}

// Object makes the grammar of all JSON objects.
func Object() *Grammar {
	g, err := Schema(context.Background(), []byte(`{"type": "object"}`))
	if err != nil {
		panic(err)
	}
	return g
}

// compiler makes states of schemas.
type compiler struct {
	*schema
	g       *Grammar
	rules   map[string]int32 // starts, by the facts that they are of
	parts   map[string]int32 // starts of regular parts, by what they are
	pending []func() error   // what is still to be made of rules that have a start

	apartOf  map[*node][]*node // what to choose of where one of oneOf holds: see exclusive
	negated  map[*node]*node   // what does not fit a schema
	matchers map[string]*dfa   // of patterns
	char     *dfa              // any character of a string; nil until it is needed
	loose    bool              // values may be more than fit: see apart
}

func newCompiler(s *schema) *compiler {
	g := &Grammar{bounds: []bounds{anyNumber}}
	return &compiler{schema: s, g: g, rules: map[string]int32{}, parts: map[string]int32{},
		apartOf: map[*node][]*node{}, negated: map[*node]*node{}, matchers: map[string]*dfa{}}
}

func compile(s *schema) (*Grammar, error) {
	c := newCompiler(s)
	start, err := c.rule(s.root)
	if err != nil {
		return nil, err
	}
	ok, err := c.finish(start)
	if err == nil && !ok {
		err = errorf("#", "no value fits")
	}
	if err != nil {
		return nil, err
	}
	c.g.measure()
	c.g.ignored = s.ignored
	return c.g, nil
}

// finish makes all rules, the first of which begins at start, and reports whether that one has any value.
func (c *compiler) finish(start int32) (some bool, err error) {
	for len(c.pending) > 0 {
		next := c.pending[0]
		c.pending = c.pending[1:]
		if err := next(); err != nil {
			return false, err
		}
		if len(c.g.states) > maxStates {
			return false, errorf("#", "%w", errSize)
		}
	}
	c.g.start = start
	return c.g.prune(), nil
}

// state makes a state; of the rule of another, where they share a count.
func (c *compiler) state(bounds int32) int32 {
	c.g.states = append(c.g.states, state{bounds: bounds})
	return int32(len(c.g.states) - 1)
}

func (c *compiler) at(s int32) *state { return &c.g.states[s] }

func (c *compiler) jump(from, to int32, o op) {
	c.at(from).jumps = append(c.at(from).jumps, jump{o, to})
}

// literal leads along a text from a state to another one.
func (c *compiler) literal(from int32, text string, to int32) {
	for i := range len(text) {
		next := to
		if i+1 < len(text) {
			next = c.state(c.at(from).bounds)
		}
		c.at(from).arcs = append(c.at(from).arcs, arc{lo: text[i], hi: text[i], to: next})
		from = next
	}
}

// spaced is literal with a space behind it, if one likes.
func (c *compiler) spaced(from int32, text string, to int32) {
	space := c.state(c.at(from).bounds)
	c.literal(from, text, space)
	c.literal(space, " ", to)
	c.jump(space, to, keep)
}

// place puts a dfa into the grammar and returns its start; known by key, if that is not "".
func (c *compiler) place(key string, make func() (*dfa, error)) (int32, error) {
	if start, ok := c.parts[key]; ok && key != "" {
		return start, nil
	}
	d, err := make()
	if err == nil {
		err = c.spend(20 * len(d.arcs))
	}
	if err != nil {
		return 0, err
	}
	if d.empty() {
		return c.state(0), nil // it leads nowhere
	}
	any, err := c.matcher("^")
	if err != nil {
		return 0, err
	}
	first, frees := int32(len(c.g.states)), d.frees()
	for i, arcs := range d.arcs {
		s := state{arcs: slices.Clone(arcs), accept: d.end[i], regular: true}
		if frees[i] {
			s.free = free
			if d.same(int32(i), any, any.next(0, '"')) {
				s.free = inString
			}
		}
		for j := range s.arcs {
			s.arcs[j].to += first
		}
		c.g.states = append(c.g.states, s)
	}
	if key != "" {
		c.parts[key] = first
	}
	return first, nil
}

// rule returns the start of the rule of values that all of some schemas allow.
func (c *compiler) rule(nodes ...*node) (int32, error) {
	ids := make([]string, len(nodes))
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b *node) int { return a.id - b.id })
	nodes = slices.Compact(nodes)
	for i, n := range nodes {
		ids[i] = strconv.Itoa(n.id)
	}
	key := strings.Join(ids, " ")
	if start, ok := c.rules[key]; ok {
		return start, nil
	}
	start := c.state(0)
	c.rules[key] = start
	c.pending = append(c.pending, func() error {
		ways, err := c.expand(nodes)
		if err != nil {
			return err
		}
		for _, facts := range ways {
			if err := c.values(start, facts); err != nil {
				return err
			}
		}
		return nil
	})
	return start, nil
}

// pathOf says which of some schemas an error is about.
func pathOf(nodes []*node) string {
	if len(nodes) == 0 {
		return "#"
	}
	return nodes[0].path
}

// maxWays is how many combinations of alternatives one value can have.
const maxWays = 512

// way is a combination of alternatives: schemas whose own keywords hold together, and those of which one of each list
// is still to be chosen.
type way struct {
	facts   []*node
	choices []choice
}

// choice is a list of schemas, and those within each other that the list stands in.
type choice struct {
	options, above []*node
}

// expand returns the ways in which all of some schemas can hold.
func (c *compiler) expand(nodes []*node) (ways [][]*node, err error) {
	first := way{}
	for _, n := range nodes {
		if err := c.gather(&first, n, nil); err != nil {
			return nil, err
		}
	}
	open := []way{first}
	for len(open) > 0 {
		w := open[len(open)-1]
		open = open[:len(open)-1]
		if err := c.spend(100 + len(w.facts)*len(w.facts)); err != nil { // that much more than a place of an automaton
			return nil, errorf(pathOf(nodes), "%w", err)
		}
		if len(w.choices) == 0 {
			if !impossible(w.facts) {
				ways = append(ways, w.facts)
			}
		} else {
			more, err := c.choose(w)
			if err != nil {
				return nil, err
			}
			open = append(open, more...)
		}
		if len(ways)+len(open) > maxWays {
			return nil, errorf(pathOf(nodes), "more than %d combinations of alternatives are not supported", maxWays)
		}
	}
	return ways, nil
}

// choose returns the ways in which one of the first choice of a way holds, the first of them last; none if one of
// all choices is impossible.
func (c *compiler) choose(w way) (ways []way, err error) {
	steps := 1
	for _, x := range w.choices {
		steps += 4 + 5*len(x.options)*(8+len(w.facts))
	}
	if err := c.spend(steps); err != nil {
		return nil, errorf(pathOf(w.facts), "%w", err)
	}
	w.choices = slices.DeleteFunc(slices.Clone(w.choices), func(x choice) bool {
		return slices.ContainsFunc(x.options, func(n *node) bool { return holds(w.facts, n) })
	})
	switch {
	case impossible(w.facts):
		return nil, nil
	case len(w.choices) == 0:
		return []way{w}, nil
	}
	rest := w.choices[1:]
	for i, x := range w.choices {
		var all []way
		for _, n := range slices.Backward(x.options) {
			next := way{slices.Clone(w.facts), slices.Clone(rest)}
			if err := c.gather(&next, n, x.above); err != nil {
				return nil, err
			}
			if err := c.spend(50 + 20*len(next.facts) + 4*len(rest)); err != nil {
				return nil, errorf(n.path, "%w", err)
			}
			if !impossible(next.facts) {
				if all = append(all, next); i > 0 {
					break
				}
			}
		}
		if len(all) == 0 {
			return nil, nil
		}
		if i == 0 {
			ways = all
		}
	}
	return ways, nil
}

// holds reports whether a schema says no more than some others, as far as that is told at a glance.
func holds(facts []*node, n *node) bool {
	if slices.Contains(facts, n) {
		return true
	}
	if !n.made || n.kinds != 0 && strictKinds(facts)&^n.kinds != 0 {
		return false
	}
	if len(n.names) == 0 {
		return n.onlyKinds()
	}
	return len(n.names) == 1 && n.properties[n.names[0]].never && forbidden(facts, n.names[0])
}

// onlyKinds reports whether a schema that was made says nothing but the type.
func (n *node) onlyKinds() bool {
	o := *n
	o.kinds = 0
	return o.anything() && o.patterns == nil && o.prefix == nil && o.numbers == numbers{} &&
		o.itemBounds == anyNumber && o.charBounds == anyNumber && o.propertyBounds == anyNumber
}

// forbidden reports whether objects cannot have a property.
func forbidden(facts []*node, name string) bool {
	return slices.ContainsFunc(objects{facts: facts}.of(name), func(p *node) bool { return p.never })
}

// impossible reports whether some schemas contradict each other, as far as types, values and properties tell.
func impossible(facts []*node) bool {
	k := strictKinds(facts)
	if k != object {
		return k == 0
	}
	for _, n := range facts {
		for _, name := range n.required {
			if strictKinds(objects{facts: facts}.of(name)) == 0 {
				return true
			}
		}
	}
	return false
}

// gather adds a schema to a way, with those that it refers to or holds together. It stands in those above.
func (c *compiler) gather(w *way, n *node, above []*node) error {
	if slices.Contains(above, n) {
		return errorf(n.path, "it refers to itself without a property or an item between")
	}
	if slices.Contains(w.facts, n) {
		return nil
	}
	w.facts = append(w.facts, n)
	if len(w.facts) > maxWays {
		return errorf(n.path, "more than %d schemas of one value are not supported", maxWays)
	}
	above = append(slices.Clone(above), n)
	more := n.allOf
	if n.ref != "" {
		more = append(slices.Clone(more), c.nodes[n.ref])
	}
	for _, m := range n.not {
		if c.loose {
			break
		}
		not, err := c.negation(m)
		if err != nil {
			return err
		}
		more = append(slices.Clone(more), not)
	}
	for _, m := range more {
		if err := c.gather(w, m, above); err != nil {
			return err
		}
	}
	for _, options := range n.choices {
		w.choices = append(w.choices, choice{options, above})
	}
	if n.oneOf != nil {
		options, err := c.exclusive(n)
		if err != nil {
			return err
		}
		w.choices = append(w.choices, choice{options, above})
	}
	return nil
}

// exclusive returns alternatives of oneOf of which no two hold at once: each as it is if that is known of it, and else
// without the values of the others.
func (c *compiler) exclusive(n *node) ([]*node, error) {
	if c.loose {
		return n.oneOf, nil
	}
	if options := c.apartOf[n]; options != nil {
		return options, nil
	}
	c.apartOf[n] = n.oneOf // of a value within itself
	if len(n.oneOf) > maxWays {
		return nil, errorf(n.path+"/oneOf", "more than %d alternatives are not supported", maxWays)
	}
	both := make([][]*node, len(n.oneOf)) // by alternative, those that may hold beside it
	for i, a := range n.oneOf {
		for j, b := range n.oneOf[:i] {
			apart, err := c.apart(b, a, 0)
			if err != nil {
				return nil, err
			}
			if !apart {
				both[i], both[j] = append(both[i], b), append(both[j], a)
			}
		}
	}
	var options []*node
	var first error
	for i, a := range n.oneOf {
		option, err := c.alone(a, both[i])
		if err != nil && first == nil {
			first = errorf(a.path, "a value may fit other schemas of oneOf, too, as far as is known (%w): "+
				"give anyOf in place of oneOf, or a required property with a const of its own", err)
		} else if err == nil {
			options = append(options, option)
		}
	}
	if len(options) == 0 {
		return nil, first
	}
	c.apartOf[n] = options
	return options, nil
}

// alone returns the schema of values of a that do not fit others.
func (c *compiler) alone(a *node, others []*node) (*node, error) {
	if len(others) == 0 {
		return a, nil
	}
	for _, o := range others {
		if _, err := c.negation(o); err != nil {
			return nil, err
		}
	}
	option := c.follows(a.path)
	option.allOf, option.not = []*node{a}, others
	return option, nil
}

// apart reports whether no value can fit two schemas, as far as types and values tell. What negations leave is known
// in part alone, and so is not looked at.
func (c *compiler) apart(a, b *node, depth int) (bool, error) {
	if depth > 4 {
		return false, nil
	}
	defer func(before bool) { c.loose = before }(c.loose)
	c.loose = true
	ways, err := c.expand([]*node{a})
	if err != nil {
		return false, err
	}
	others, err := c.expand([]*node{b})
	if err != nil {
		return false, err
	}
	for _, x := range ways {
		for _, y := range others {
			if apart, err := c.waysApart(x, y, depth); err != nil || !apart {
				return false, err
			}
		}
	}
	return true, nil
}

func (c *compiler) waysApart(a, b []*node, depth int) (bool, error) {
	k := strictKinds(a) & strictKinds(b)
	if k == 0 {
		return true, nil
	}
	x, y := listed(a), listed(b)
	if err := c.spend(5 * (len(x) + len(y))); err != nil {
		return false, errorf(pathOf(a), "%w", err)
	}
	if x != nil && y != nil && k&(object|array) == 0 {
		return !slices.ContainsFunc(x, setOf(y).has), nil
	}
	if k != object {
		return false, nil
	}
	one, other := objectOf(a), objectOf(b)
	if err := c.spend(100 * (len(one.names) + len(other.names))); err != nil {
		return false, errorf(pathOf(a), "%w", err)
	}
	if impossible(slices.Concat(a, b)) {
		return true, nil
	}
	also := setOf(other.required)
	for _, name := range one.required {
		if !also.has(name) {
			continue
		}
		for _, p := range one.of(name) {
			for _, q := range other.of(name) { // without those of patterns
				if apart, err := c.apart(p, q, depth+1); err != nil || apart {
					return apart, err
				}
			}
		}
	}
	return false, nil
}

// strictKinds are the types that some schemas allow together, as they say so themselves.
func strictKinds(facts []*node) kinds {
	k := anyKind
	for _, n := range facts {
		if n.never {
			return 0
		}
		if n.kinds != 0 {
			k &= n.kinds
		}
		if n.values != nil {
			var of kinds
			for _, v := range n.values {
				of |= kindOf(v)
			}
			k &= of
		}
	}
	return k
}

// kindOf is the type of a value.
func kindOf(raw json.RawMessage) kinds {
	switch b := bytes.TrimSpace(raw); b[0] {
	case 'n':
		return null
	case 't', 'f':
		return boolean
	case '"':
		return text
	case '{':
		return object
	case '[':
		return array
	}
	return number
}

// allowedKinds are the types of values: where none is named, those that the keywords are about.
func allowedKinds(facts []*node) kinds {
	k, named, implied := anyKind, false, kinds(0)
	for _, n := range facts {
		if n.never {
			return 0
		}
		implied |= n.implied
		if n.kinds != 0 {
			k, named = k&n.kinds, true
		}
	}
	if !named && implied != 0 {
		return implied
	}
	return k
}

// listed returns the values that some schemas list together, spelled alike; nil where none lists any.
func listed(facts []*node) []string {
	var all []string
	for _, n := range facts {
		if n.values == nil {
			continue
		}
		some := n.spell()
		if all == nil {
			all = slices.Clone(some)
			continue
		}
		also := setOf(some)
		all = slices.DeleteFunc(all, func(v string) bool { return !also.has(v) })
	}
	return all
}

// spell returns the values that a schema lists, as they are generated.
func (n *node) spell() []string {
	if n.spelled == nil {
		n.spelled = []string{}
		for _, v := range n.values {
			n.spelled = append(n.spelled, spell(v))
		}
	}
	return n.spelled
}

// set is a set of texts.
type set map[string]bool

func setOf(all []string) set {
	s := make(set, len(all))
	for _, v := range all {
		s[v] = true
	}
	return s
}

func (s set) has(v string) bool { return s[v] }

// add adds a text, and reports whether it was not there.
func (s set) add(v string) bool {
	if s[v] {
		return false
	}
	s[v] = true
	return true
}

// spell returns a value as it is generated.
func spell(raw json.RawMessage) string {
	var b bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = respell(&b, d) // it was read before, as a part of the schema
	return b.String()
}

// respell writes the next value, compact and with its strings as this package spells them.
func respell(b *bytes.Buffer, d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		b.WriteString(t.String())
		for i := 0; d.More(); i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := respell(b, d); err != nil {
				return err
			}
			if t == '{' {
				b.WriteByte(':')
				if err := respell(b, d); err != nil {
					return err
				}
			}
		}
		if t, err = end(d); err != nil {
			return err
		}
		b.WriteString(t.String())
	case string:
		b.WriteString(quote(t))
	case json.Number:
		b.WriteString(plain(t))
	case nil:
		b.WriteString("null")
	default:
		fmt.Fprint(b, t)
	}
	return nil
}

// plain returns a number without an exponent, and without digits that make no difference.
func plain(n json.Number) string {
	r, err := parseNumber(n.String())
	if err != nil {
		return n.String()
	}
	digits, _ := r.FloatPrec()
	return r.FloatString(digits)
}

// end reads what ends a list or an object.
func end(d *json.Decoder) (json.Delim, error) {
	t, err := d.Token()
	if err != nil {
		return 0, err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return 0, errors.New("no end")
	}
	return delim, nil
}

// quote returns a string as JSON, with no character escaped that need not be.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if e := escape(r); e != "" {
			b.WriteString(e)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
