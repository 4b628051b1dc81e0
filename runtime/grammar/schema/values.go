package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar"
	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

func (c *compiler) addValues(start int32, facts []*node) error {
	if list := listedValues(facts); list != nil {
		return c.addListedValues(start, facts, list)
	}
	return c.addKinds(start, facts, c.allowedKinds(facts))
}

// addKinds adds the values of some types.
func (c *compiler) addKinds(start int32, facts []*node, k kinds) error {
	for _, of := range []struct {
		kinds kinds
		make  func(int32, []*node) error
	}{{text, c.addStrings}, {number, c.addNumbers}, {object, c.addObject}, {array, c.addArray}} {
		if k&of.kinds != 0 {
			if err := of.make(start, facts); err != nil {
				return err
			}
		}
	}
	not := exceptedValues(facts, boolean|null)
	for _, word := range literalWords(k) {
		if !slices.Contains(not, word) {
			c.Literal(start, word, c.End())
		}
	}
	return nil
}

func literalWords(k kinds) (all []string) {
	if k&boolean != 0 {
		all = append(all, "true", "false")
	}
	if k&null != 0 {
		all = append(all, "null")
	}
	return all
}

func (c *compiler) addRegularPart(start int32, path, key string, make func() (*regular.Set, error)) error {
	part, err := c.Part(key, make)
	if err != nil {
		return &grammar.Error{Path: path, Err: err}
	}
	c.Jump(start, part)
	return nil
}

func (c *compiler) addListedValues(start int32, facts []*node, values []string) error {
	values, err := c.fittingValues(facts, values)
	if err != nil {
		return err
	}
	return c.addRegularPart(start, pathOf(facts), "", func() (*regular.Set, error) { return regular.Values(values) })
}

// fittingValues returns those of some listed values that all conditions of some schemas allow.
func (c *compiler) fittingValues(facts []*node, values []string) (fit []string, err error) {
	if !slices.ContainsFunc(facts, func(n *node) bool { return n.implied|n.kinds != 0 || n.except != nil || n.never }) {
		return values, nil
	}
	others := make([]*node, len(facts)+1)
	for i, n := range facts {
		others[i] = new(*n)
		others[i].values, others[i].implied = nil, 0 // the values have their types
	}
	others[len(facts)] = c.newDerivedNode(pathOf(facts))
	for _, v := range values {
		others[len(facts)].kinds |= kindOf(json.RawMessage(v))
	}
	rest := newCompiler(c.reader)
	begin := rest.State()
	err = rest.addValues(begin, others)
	if err == nil {
		err = rest.buildPendingRules()
	}
	if err != nil {
		return nil, err
	}
	c.left, c.narrowed = cmp.Or(c.left, rest.left), cmp.Or(c.narrowed, rest.narrowed)
	g, some := rest.Trim(begin)
	for _, v := range values {
		if !some {
			return nil, nil
		}
		if s := g.Next(g.Start(), []byte(v)...); s != nil && s.Done() {
			fit = append(fit, v)
		}
	}
	return fit, nil
}

func (c *compiler) addStrings(start int32, facts []*node) error {
	s, path := stringConditions(facts)
	if s.Length.Empty() {
		return nil
	}
	if s.Any() {
		begin, err := c.String(s.Length)
		if err != nil {
			return &grammar.Error{Path: path, Err: err}
		}
		c.Jump(start, begin)
		return nil
	}
	c.recordFormats(facts, s)
	key := fmt.Sprintf("string %v %q %q %q", s.Length, s.Match, s.Not, s.Except)
	return c.addRegularPart(start, path, key, func() (*regular.Set, error) { return c.Strings(s) })
}

// recordFormats records formats of which only some strings are generated.
func (c *compiler) recordFormats(facts []*node, s regular.Strings) {
	for _, n := range facts {
		for _, p := range n.patterns {
			if p.format && (len(s.Match)+len(s.Not)+len(s.Except) > 1 || s.Length != regular.Any()) {
				c.recordOmission(p.path, "only common strings of a format are generated")
			}
		}
	}
}

// stringConditions returns the conditions of some schemas on strings together, and the path of a pattern, or else of a
// schema.
func stringConditions(facts []*node) (s regular.Strings, path string) {
	s, path = regular.Strings{Length: regular.Any(), Except: exceptedValues(facts, text)}, pathOf(facts)
	for _, n := range facts {
		s.Length = s.Length.And(n.charBounds)
		for _, p := range n.patterns {
			path = p.path
			to := &s.Match
			if p.Not {
				to = &s.Not
			}
			*to = append(*to, p.Text)
		}
	}
	for _, list := range []*[]string{&s.Match, &s.Not} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return s, path
}

func (c *compiler) addNumbers(start int32, facts []*node) error {
	var b regular.Numbers
	path := pathOf(facts)
	for _, n := range facts {
		b.And(n.numbers)
		if n.numbers.Min.At != nil || n.numbers.Max.At != nil {
			path = n.path
		}
		if n.numbers.Step != nil {
			path = n.path + "/multipleOf"
		}
	}
	b.Forget()
	k, not := c.allowedKinds(facts)&number, exceptedValues(facts, number)
	key := fmt.Sprint("number ", k)
	if not != nil || b != (regular.Numbers{}) {
		key = ""
	}
	for _, part := range b.Without(not) {
		err := c.addRegularPart(start, path, key, func() (*regular.Set, error) {
			return c.Numbers(part, k&integer != 0, k&broken != 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// countBounds returns the limits of some schemas on the number of items or properties, and reports whether such values
// are possible. Of excepted values, only the empty one is left out here: others would need too many states.
func (c *compiler) countBounds(
	facts []*node, k kinds, empty string, of func(*node) regular.Bounds,
) (b regular.Bounds, some bool) {
	not := exceptedValues(facts, k)
	if len(not) > 1 || len(not) == 1 && not[0] != empty {
		c.recordOmission(pathOf(facts), "only an empty list or object can be excepted, not another one")
		return b, false
	}
	b = regular.Bounds{Min: int32(len(not)), Max: regular.Unbounded}
	for _, n := range facts {
		b = b.And(of(n))
	}
	return b, !b.Empty()
}

func (c *compiler) addArray(start int32, facts []*node) error {
	b, some := c.countBounds(facts, array, "[]", func(n *node) regular.Bounds { return n.itemBounds })
	if !some {
		return nil
	}
	own, unique := 0, ""
	for _, n := range facts {
		own, unique = max(own, len(n.prefix)), cmp.Or(unique, n.unique)
	}
	with, err := containsConditionOf(facts)
	if err != nil {
		return err
	}
	if unique != "" && (!b.Bounded() || b.Max > 1) {
		return c.addUniqueItems(start, facts, own, b, cmp.Or(with.path, unique))
	}
	if with.what != nil { // a position has states of its own, so that none leads to a list that cannot end
		own = max(own, int(b.Min), int(b.Max))
		if int64(own)*int64(with.top+1) > maxNumbered {
			return errorf(with.path, "to count as many items %w", regular.ErrSize)
		}
	}
	at, closed := c.addStates(with.top), c.End() // by the number of items that contains counts
	c.Literal(start, "[", at[0])
	for i := int32(0); ; i++ {
		for k := int(with.Min); k < len(at) && i >= b.Min; k++ {
			c.Literal(at[k], "]", closed)
		}
		if i == b.Max {
			return nil
		}
		steps, err := c.itemSteps(with, itemSchemas(facts, int(i)))
		if err != nil {
			return err
		}
		for k := range at {
			if i > 0 {
				found := c.State()
				c.Spaced(at[k], ",", found)
				at[k] = found
			}
		}
		if int(i) == own {
			more := regular.Bounds{Min: max(0, b.Min-i-1), Max: regular.Unbounded}
			if b.Bounded() {
				more.Max = b.Max - i - 1
			}
			c.List(at, steps, int(with.Min), more, closed)
			return nil
		}
		next := c.addStates(with.top)
		for k := range at {
			for _, s := range steps[k] {
				c.Call(at[k], s.Start, next[s.Level])
			}
		}
		at = next
	}
}

func (c *compiler) complementNode(n *node) *node {
	if c.unfit[n] == nil {
		c.unfit[n] = c.newDerivedNode(n.path)
		c.unfit[n].not = []*node{n}
	}
	return c.unfit[n]
}

// maxContained is the maximum number of items that contains counts.
const maxContained = 64

// containsCondition is how many items must fit a schema.
type containsCondition struct {
	regular.Bounds
	what *node // nil: there is no such condition
	path string
	top  int32 // largest distinguished number; without a Max it includes larger ones
}

func containsConditionOf(facts []*node) (with containsCondition, err error) {
	for _, n := range facts {
		switch {
		case n.contains == nil || n.containBounds == regular.Any():
			continue
		case with.what != nil && (with.what != n.contains || with.Bounds != n.containBounds):
			return with, errorf(n.path+"/contains", "it is supported once for a list")
		}
		with = containsCondition{n.containBounds, n.contains, n.path + "/contains", n.containBounds.Min}
		if with.Bounded() {
			with.top = with.Max
		}
		if max(with.Min, with.top) > maxContained {
			return with, errorf(with.path, "at most %d items can be counted", maxContained)
		}
	}
	return with, nil
}

// itemSteps returns which items may follow, by the number of those before that contains counts. Only if there is a
// maximum must an item that does not count differ.
func (c *compiler) itemSteps(with containsCondition, item []*node) (steps [][]grammar.Step, err error) {
	other, fits := item, append(slices.Clone(item), with.what)
	if with.Bounded() && with.what != nil {
		other = append(slices.Clone(item), c.complementNode(with.what))
	}
	for k := range int(with.top) + 1 {
		start, err := c.ruleStart(other...)
		if err != nil {
			return nil, err
		}
		steps = append(steps, []grammar.Step{{Start: start, Level: k}})
		if k == int(with.top) {
			break
		}
		if start, err = c.ruleStart(fits...); err != nil {
			return nil, err
		}
		steps[k] = append(steps[k], grammar.Step{Start: start, Level: k + 1})
	}
	return steps, nil
}

func itemSchemas(facts []*node, i int) (all []*node) {
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

// maxDifferent is the maximum number of possible values of items that must differ.
const maxDifferent = 128

// addUniqueItems adds lists of items of which no two are equal, in the order in which the schema names them.
func (c *compiler) addUniqueItems(start int32, facts []*node, own int, b regular.Bounds, path string) error {
	values, err := c.enumerateValues(itemSchemas(facts, 0))
	if err != nil {
		return err
	}
	if strings.HasSuffix(path, "/contains") {
		return errorf(path, "it is not supported with uniqueItems")
	}
	if values == nil || own > 0 || len(values) > maxDifferent {
		return errorf(path, "it is supported where items are of an enum of at most %d values, boolean or null, "+
			"without prefixItems; or with maxItems 1", maxDifferent)
	}
	top := int32(len(values))
	if b.Bounded() {
		top = min(top, b.Max)
	}
	closed := c.End()
	open := c.addStates(top) // before an item, by how many there are
	c.Literal(start, "[", open[0])
	if b.Min == 0 {
		c.Literal(open[0], "]", closed)
	}
	for _, v := range values { // from before v to before the one that follows it in the schema
		constant := c.newNode("#")
		constant.values = rawMessages([]string{v})
		rule, err := c.ruleStart(append(itemSchemas(facts, 0), constant)...)
		if err != nil {
			return err
		}
		next := c.addStates(top)
		for n := range next {
			c.Jump(open[n], next[n])
		}
		for n := range top {
			after := c.State()
			c.Call(open[n], rule, after)
			c.Spaced(after, ",", next[n+1])
			if n+1 >= b.Min {
				c.Literal(after, "]", closed)
			}
		}
		open = next
	}
	return nil
}

func (c *compiler) addStates(n int32) []int32 {
	all := make([]int32, n+1)
	for i := range all {
		all[i] = c.State()
	}
	return all
}

// enumerateValues returns the distinct values that some schemas allow; nil if they are not few.
func (c *compiler) enumerateValues(nodes []*node) ([]string, error) {
	ways, err := c.expandChoices(nodes)
	all, known := []string{}, stringSet{}
	for _, facts := range ways {
		values := listedValues(facts)
		if k := c.allowedKinds(facts); values == nil && k&^(boolean|null) != 0 {
			return nil, nil
		} else if values == nil {
			values = literalWords(k)
		}
		for _, v := range values {
			if known.insertString(v) {
				all = append(all, v)
			}
		}
	}
	return all, err
}
