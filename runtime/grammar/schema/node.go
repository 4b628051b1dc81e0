package schema

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// kinds is a set of types of values. Whole numbers and other numbers are different types.
type kinds uint8

const (
	null kinds = 1 << iota
	boolean
	integer
	broken
	text
	object
	array
	number  = integer | broken
	anyKind = null | boolean | number | text | object | array
)

var kindNames = map[string]kinds{
	"null": null, "boolean": boolean, "integer": integer, "number": number, "string": text, "object": object,
	"array": array,
}

// node is one schema of the document, or one derived from others: see negateNode.
type node struct {
	id      int
	path    string
	made    bool  // derived from others
	never   bool  // false
	kinds   kinds // types allowed; 0: any
	implied kinds // types that its keywords apply to
	ref     string
	dynamic string // the keyword of ref, if it is $dynamicRef or $recursiveRef
	allOf   []*node
	choices [][]*node // from each list at least one must hold: anyOf, and its equivalents
	oneOf   []*node
	not     []*node           // none of which holds
	values  []json.RawMessage // of enum or const; nil: none
	spelled []string          // values as they are generated; nil before the first use
	except  []string          // values that are not allowed, as they are generated

	names          []string // of properties, in the order of the schema
	properties     map[string]*node
	required       []string
	patterned      []property
	additional     *node // nil: any
	propertyNames  *node // nil: any
	propertyBounds regular.Bounds
	otherNames     *node // unevaluatedProperties; nil: any

	prefix        []*node
	items         *node // nil: any
	itemBounds    regular.Bounds
	unique        string // path of uniqueItems, where it is true
	otherItems    *node  // unevaluatedItems; nil: any
	contains      *node  // nil: any
	containBounds regular.Bounds

	charBounds regular.Bounds
	patterns   []pattern
	numbers    regular.Numbers
}

// property is the schema of properties with names that match a pattern.
type property struct {
	pattern string
	value   *node
}

// pattern is a regular expression, of pattern or of format.
type pattern struct {
	regular.Pattern
	path   string
	format bool
}

func (n *node) allowsAnything() bool {
	return !n.never && n.kinds == 0 && n.implied == 0 && n.values == nil && n.except == nil && n.ref == "" &&
		n.allOf == nil && n.choices == nil && n.oneOf == nil && n.not == nil && len(n.properties) == 0 &&
		len(n.required) == 0
}

// onlyKinds reports whether a derived schema has no condition except the type.
func (n *node) onlyKinds() bool {
	o := *n
	o.kinds = 0
	return o.allowsAnything() && o.patterns == nil && o.prefix == nil && o.items == nil && o.contains == nil &&
		o.numbers == regular.Numbers{} && o.itemBounds == regular.Any() && o.charBounds == regular.Any() &&
		o.propertyBounds == regular.Any()
}

// restrictValues restricts a schema to some values, and to values listed before, if any.
func (n *node) restrictValues(values []json.RawMessage) {
	if n.values == nil {
		n.values = values
		return
	}
	n.values = slices.DeleteFunc(n.values, func(v json.RawMessage) bool {
		return !slices.ContainsFunc(values, func(w json.RawMessage) bool { return spellValue(v) == spellValue(w) })
	})
}

func (n *node) spelledValues() []string {
	if n.spelled == nil {
		n.spelled = []string{}
		for _, v := range n.values {
			n.spelled = append(n.spelled, spellValue(v))
		}
	}
	return n.spelled
}

// scalars matches the strings and numbers of JSON.
var scalars = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*`)

// spellValue returns a value in the generated spelling: compact, strings as in package regular, and numbers without an
// exponent and without redundant digits.
func spellValue(raw json.RawMessage) string {
	return scalars.ReplaceAllStringFunc(string(raw), func(one string) string {
		var s string
		if json.Unmarshal([]byte(one), &s) == nil {
			return regular.Quote(s)
		}
		r, err := regular.ParseNumber(one)
		if err != nil {
			return one
		}
		digits, _ := r.FloatPrec()
		return r.FloatString(digits)
	})
}

func rawMessages(values []string) (all []json.RawMessage) {
	for _, v := range values {
		all = append(all, json.RawMessage(v))
	}
	return all
}

func kindOf(raw json.RawMessage) kinds {
	switch raw[0] {
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

// strictKinds returns the types that some schemas allow together, by their conditions on types and values.
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

// allowedKinds returns the types of values: if no type is named, those that the keywords apply to.
func (c *compiler) allowedKinds(facts []*node) kinds {
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
	if named || implied == 0 {
		return k
	}
	if c.narrowed == "" && implied != anyKind {
		c.narrowed = pathOf(facts)
	}
	return implied
}

// listedValues returns the values that some schemas list together, in the generated spelling; nil if none lists any.
func listedValues(facts []*node) []string {
	var all []string
	for _, n := range facts {
		if n.values == nil {
			continue
		}
		some := n.spelledValues()
		if all == nil {
			all = slices.Clone(some)
			continue
		}
		also := stringSetOf(some)
		all = slices.DeleteFunc(all, func(v string) bool { return !also[v] })
	}
	return all
}

func exceptedValues(facts []*node, k kinds) (values []string) {
	for _, n := range facts {
		for _, v := range n.except {
			if kindOf(json.RawMessage(v))&k != 0 {
				values = append(values, v)
			}
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// stringSet is a set of texts.
type stringSet map[string]bool

func stringSetOf(all []string) stringSet {
	s := make(stringSet, len(all))
	for _, v := range all {
		s[v] = true
	}
	return s
}

func (s stringSet) hasString(v string) bool { return s[v] }

func (s stringSet) insertString(v string) bool {
	if s[v] {
		return false
	}
	s[v] = true
	return true
}
