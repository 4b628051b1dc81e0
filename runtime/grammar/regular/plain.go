package regular

import "slices"

// PlainStates is the number of states of plain.
const PlainStates = 10

// plain is the set of characters that JSON does not require to be escaped in a string, in UTF-8. State 0 is the
// boundary of characters. It excludes U+2028 and U+2029, which end lines: the dot of a pattern does not match them. It
// excludes <, too, with which the tag begins that ends a string in tags.
var plain = Set{Arcs: [][]Arc{
	{{0x20, 0x21, 0}, {0x23, 0x3b, 0}, {0x3d, 0x5b, 0}, {0x5d, 0x7f, 0}, {0xc2, 0xdf, 1}, {0xe0, 0xe0, 4},
		{0xe1, 0xe1, 2}, {0xe2, 0xe2, 8}, {0xe3, 0xec, 2}, {0xed, 0xed, 5}, {0xee, 0xef, 2}, {0xf0, 0xf0, 6},
		{0xf1, 0xf3, 3}, {0xf4, 0xf4, 7}},
	{{0x80, 0xbf, 0}}, {{0x80, 0xbf, 1}}, {{0x80, 0xbf, 2}}, // one, two and three bytes before the boundary
	{{0xa0, 0xbf, 1}}, {{0x80, 0x9f, 1}}, {{0x90, 0xbf, 2}}, {{0x80, 0x8f, 2}}, // after E0, ED, F0 and F4
	{{0x80, 0x80, 9}, {0x81, 0xbf, 1}}, {{0x80, 0xa7, 0}, {0xaa, 0xbf, 0}}, // after E2, and after E2 80
}}

// PlainNext returns the state after a byte of plain characters, with 0 for the boundary of characters; -1 if the byte
// cannot follow.
func PlainNext(state int32, b byte) int32 {
	next, _ := plain.nextState(state, b, b)
	return next
}

// Freedom says which plain characters can follow each other at a state.
type Freedom uint8

const (
	Bound    Freedom = iota // not all of them can, or only some of them
	Free                    // any number of any of them, as far as a count allows
	InString                // likewise, and anything that is allowed in any string
)

// Freedom returns the freedom of each state of a set.
func (m *Maker) Freedom(d *Set) ([]Freedom, error) {
	any, err := m.AnyString()
	if err != nil {
		return nil, err
	}
	inAny, _ := any.nextState(0, '"', '"')
	next := make([][]int32, len(d.Arcs)) // after one plain character; nil: some cannot follow
	bound := make([]bool, len(d.Arcs))
	for i := range next {
		next[i] = d.appendPlainSuccessors(nil, int32(i), 0)
		bound[i] = next[i] == nil
	}
	markReachingStates(next, bound)
	free := make([]Freedom, len(bound))
	for i := range free {
		switch {
		case bound[i]:
		case d.equalFrom(int32(i), any, inAny):
			free[i] = InString
		default:
			free[i] = Free
		}
	}
	return free, nil
}

// appendPlainSuccessors appends the states after the rest of one plain character, of which the bytes so far lead to a
// state of plain. It returns nil if one cannot follow.
func (d *Set) appendPlainSuccessors(to []int32, at, state int32) []int32 {
	for _, x := range plain.Arcs[state] {
		for lo := int(x.Lo); lo <= int(x.Hi); {
			next, last := d.nextState(at, byte(lo), x.Hi)
			switch {
			case next < 0:
				return nil
			case x.To != 0:
				if to = d.appendPlainSuccessors(to, next, x.To); to == nil {
					return nil
				}
			case !slices.Contains(to, next):
				to = append(to, next)
			}
			lo = int(last) + 1
		}
	}
	return to
}
