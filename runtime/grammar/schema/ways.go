package schema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

func (c *compiler) ruleStart(nodes ...*node) (int32, error) { return c.startOf("", c.addValues, nodes) }

// startOf returns the start of the rule of some schemas, with the values that add adds. form names that.
func (c *compiler) startOf(form string, add func(start int32, facts []*node) error, nodes []*node) (int32, error) {
	ids := make([]string, len(nodes))
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b *node) int { return a.id - b.id })
	nodes = slices.Compact(nodes)
	for i, n := range nodes {
		ids[i] = strconv.Itoa(n.id)
	}
	key := form + strings.Join(ids, " ")
	if start, ok := c.rules[key]; ok {
		return start, nil
	}
	start := c.State()
	c.rules[key] = start
	c.pending = append(c.pending, func() error {
		ways, err := c.expandChoices(nodes)
		if err != nil {
			return err
		}
		for _, facts := range ways {
			if err := add(start, facts); err != nil {
				return err
			}
		}
		return nil
	})
	return start, nil
}

// pathOf returns the path of the schema that an error refers to.
func pathOf(nodes []*node) string {
	if len(nodes) == 0 {
		return "#"
	}
	return nodes[0].path
}

// maxWays is the maximum number of combinations of alternatives of one value.
const maxWays = 512

// combination is a way in which some schemas can hold: schemas with keywords that hold together, and lists from which
// one schema is still to be chosen.
type combination struct {
	facts   []*node
	choices []choice
	inner   []nestedSchema // schemas within those with conditions on what nothing else describes
}

// nestedSchema is a schema that holds as a part of another one, which has unevaluatedProperties or unevaluatedItems.
type nestedSchema struct{ outer, fact *node }

// choice is a list of schemas, with the nested schemas that contain the list.
type choice struct {
	options, above []*node
}

func (c *compiler) expandChoices(nodes []*node) (ways [][]*node, err error) {
	first := combination{}
	for _, n := range nodes {
		if err := c.gatherSchema(&first, n, nil); err != nil {
			return nil, err
		}
	}
	open := []combination{first}
	for len(open) > 0 {
		w := open[len(open)-1]
		open = open[:len(open)-1]
		if err := c.Spend(100 + len(w.facts)*len(w.facts)); err != nil { // the cost relative to a state of an automaton
			return nil, errorf(pathOf(nodes), "%w", err)
		}
		if len(w.choices) == 0 {
			if w.facts = c.addUnevaluated(w); !isContradiction(w.facts) {
				ways = append(ways, w.facts)
			}
		} else {
			more, err := c.expandFirstChoice(w)
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

// expandFirstChoice returns the combinations in which one alternative of the first choice of w holds, the first
// alternative last; none if one of all choices is impossible.
func (c *compiler) expandFirstChoice(w combination) (ways []combination, err error) {
	steps := 1
	for _, x := range w.choices {
		steps += 4 + 5*len(x.options)*(8+len(w.facts))
	}
	if err := c.Spend(steps); err != nil {
		return nil, errorf(pathOf(w.facts), "%w", err)
	}
	w.choices = slices.DeleteFunc(slices.Clone(w.choices), func(x choice) bool {
		return slices.ContainsFunc(x.options, func(n *node) bool { return isImplied(w.facts, n) })
	})
	switch {
	case isContradiction(w.facts):
		return nil, nil
	case len(w.choices) == 0:
		return []combination{w}, nil
	}
	rest := w.choices[1:]
	for i, x := range w.choices {
		var all []combination
		for _, n := range slices.Backward(x.options) {
			next := combination{slices.Clone(w.facts), slices.Clone(rest), slices.Clone(w.inner)}
			if err := c.gatherSchema(&next, n, x.above); err != nil {
				return nil, err
			}
			if err := c.Spend(50 + 20*len(next.facts) + 4*len(rest)); err != nil {
				return nil, errorf(n.path, "%w", err)
			}
			if !isContradiction(next.facts) {
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

// isImplied reports whether a schema follows from some others, as far as a quick check shows.
func isImplied(facts []*node, n *node) bool {
	if slices.Contains(facts, n) {
		return true
	}
	if !n.made || n.kinds != 0 && strictKinds(facts)&^n.kinds != 0 {
		return false
	}
	if len(n.names) == 0 {
		return n.onlyKinds()
	}
	return len(n.names) == 1 && n.properties[n.names[0]].never && forbidsProperty(facts, n.names[0])
}

// forbidsProperty reports whether objects must not have a property.
func forbidsProperty(facts []*node, name string) bool {
	return slices.ContainsFunc(objects{facts: facts}.schemasOf(name), func(p *node) bool { return p.never })
}

// isContradiction reports whether some schemas contradict each other, by types, values and properties.
func isContradiction(facts []*node) bool {
	k := strictKinds(facts)
	if k != object {
		return k == 0
	}
	for _, n := range facts {
		for _, name := range n.required {
			if strictKinds(objects{facts: facts}.schemasOf(name)) == 0 {
				return true
			}
		}
	}
	return false
}

// gatherSchema adds a schema to a combination, with the schemas that it refers to or combines. above are the schemas
// that contain it.
func (c *compiler) gatherSchema(w *combination, n *node, above []*node) error {
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
	w.recordContainers(n, above)
	more := n.allOf
	if n.ref != "" {
		more = append(slices.Clone(more), c.nodes[n.ref])
	}
	for _, m := range n.not {
		if c.loose {
			break
		}
		not, err := c.negateNode(m)
		if err == nil {
			err = c.gatherSchema(w, not, append(slices.Clone(above), nil)) // what is not evaluates nothing
		}
		if err != nil {
			return err
		}
	}
	for _, m := range more {
		if err := c.gatherSchema(w, m, above); err != nil {
			return err
		}
	}
	for _, options := range n.choices {
		w.choices = append(w.choices, choice{options, above})
	}
	if n.oneOf != nil {
		options, err := c.exclusiveOptions(n)
		if err != nil {
			return err
		}
		w.choices = append(w.choices, choice{options, above})
	}
	return nil
}

// recordContainers records of which schemas n is a part, from it outwards; nil ends them.
func (w *combination) recordContainers(n *node, above []*node) {
	for _, outer := range slices.Backward(above) {
		if outer == nil {
			return
		}
		if outer.otherNames != nil || outer.otherItems != nil {
			w.inner = append(w.inner, nestedSchema{outer, n})
		}
	}
}

// addUnevaluated returns the facts of a combination, with a schema for each condition on properties or items that
// nothing else describes. Alternatives that hold, too, may describe more of them: so the condition is stricter here
// than it needs to be, if not all values need to be described.
func (c *compiler) addUnevaluated(w combination) []*node {
	if c.loose {
		return w.facts
	}
	facts := slices.Clip(w.facts)
	for _, n := range w.facts {
		if n.otherNames == nil && n.otherItems == nil {
			continue
		}
		rest := c.newDerivedNode(n.path)
		rest.additional, rest.items, rest.properties = n.otherNames, n.otherItems, map[string]*node{}
		for _, in := range w.inner {
			if in.outer == n {
				c.removeEvaluated(rest, in.fact, in.fact != n)
			}
		}
		facts = append(facts, rest)
		c.recordOmission(n.path,
			"alternatives that hold together are taken one by one for unevaluatedProperties and -Items")
	}
	return facts
}

// removeEvaluated removes the conditions of rest on what n describes; nested says that its own unevaluatedProperties
// and unevaluatedItems count.
func (c *compiler) removeEvaluated(rest, n *node, nested bool) {
	for _, name := range n.names {
		rest.names, rest.properties[name] = append(rest.names, name), c.any
	}
	for _, p := range n.patterned {
		rest.patterned = append(rest.patterned, property{p.pattern, c.any})
	}
	for len(rest.prefix) < len(n.prefix) {
		rest.prefix = append(rest.prefix, c.any)
	}
	if n.additional != nil || nested && n.otherNames != nil {
		rest.additional = nil
	}
	if n.items != nil || nested && n.otherItems != nil {
		rest.items = nil
	}
}

// exclusiveOptions returns alternatives of oneOf of which no two hold at once: an alternative is unchanged if that is
// known for it, and otherwise it excludes the values of the others.
func (c *compiler) exclusiveOptions(n *node) ([]*node, error) {
	if c.loose {
		return n.oneOf, nil
	}
	if options := c.apartOf[n]; options != nil {
		return options, nil
	}
	c.apartOf[n] = n.oneOf // for a value within itself
	if len(n.oneOf) > maxWays {
		return nil, errorf(n.path+"/oneOf", "more than %d alternatives are not supported", maxWays)
	}
	both := make([][]*node, len(n.oneOf)) // for each alternative, those that may hold at the same time
	for i, a := range n.oneOf {
		for j, b := range n.oneOf[:i] {
			apart, err := c.areDisjoint(b, a, 0)
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
		option, err := c.excludeOthers(a, both[i])
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
	c.left = cmp.Or(c.left, first)
	c.apartOf[n] = options
	return options, nil
}

func (c *compiler) excludeOthers(a *node, others []*node) (*node, error) {
	if len(others) == 0 {
		return a, nil
	}
	for _, o := range others {
		if _, err := c.negateNode(o); err != nil {
			return nil, err
		}
	}
	option := c.newDerivedNode(a.path)
	option.allOf, option.not = []*node{a}, others
	return option, nil
}

// areDisjoint reports whether no value can fit both schemas, by types and values. It does not consider negations, which
// are known only in part.
func (c *compiler) areDisjoint(a, b *node, depth int) (bool, error) {
	if depth > 4 {
		return false, nil
	}
	defer func(before bool) { c.loose = before }(c.loose)
	c.loose = true
	ways, err := c.expandChoices([]*node{a})
	if err != nil {
		return false, err
	}
	others, err := c.expandChoices([]*node{b})
	if err != nil {
		return false, err
	}
	for _, x := range ways {
		for _, y := range others {
			if apart, err := c.combinationsDisjoint(x, y, depth); err != nil || !apart {
				return false, err
			}
		}
	}
	return true, nil
}

func (c *compiler) combinationsDisjoint(a, b []*node, depth int) (bool, error) {
	k := strictKinds(a) & strictKinds(b)
	if k == 0 {
		return true, nil
	}
	x, y := listedValues(a), listedValues(b)
	if err := c.Spend(5 * (len(x) + len(y))); err != nil {
		return false, errorf(pathOf(a), "%w", err)
	}
	if x != nil && y != nil && k&(object|array) == 0 {
		return !slices.ContainsFunc(x, stringSetOf(y).hasString), nil
	}
	if k != object {
		return false, nil
	}
	one, other := objectOf(a), objectOf(b)
	if err := c.Spend(100 * (len(one.names) + len(other.names))); err != nil {
		return false, errorf(pathOf(a), "%w", err)
	}
	if isContradiction(slices.Concat(a, b)) {
		return true, nil
	}
	for _, name := range slices.Concat(one.required, other.required) {
		for _, p := range one.schemasOf(name) {
			for _, q := range other.schemasOf(name) { // without those of patterns
				if apart, err := c.areDisjoint(p, q, depth+1); err != nil || apart {
					return apart, err
				}
			}
		}
	}
	return false, nil
}
