package grammar

import "slices"

// States of reading UTF-8: at a character's beginning, or behind bytes after which so many follow, the next of which
// may be all or some that continue characters. U+2028 and U+2029, which end lines, are not plain: the dot of a pattern
// does not stand for them.
const (
	boundary = iota
	one
	two
	three
	behindE0
	behindED
	behindF0
	behindF4
	behindE2
	behindE280
	utf8States
)

// utf8Next returns the state behind a byte of a string that JSON need not escape; false if it cannot stand there.
func utf8Next(state int, b byte) (next int, ok bool) {
	if state == boundary {
		switch {
		case b < 0x80:
			return boundary, b >= 0x20 && b != '"' && b != '\\'
		case b < 0xc2:
			return 0, false
		case b < 0xe0:
			return one, true
		case b == 0xe0:
			return behindE0, true
		case b == 0xed:
			return behindED, true
		case b == 0xe2:
			return behindE2, true
		case b < 0xf0:
			return two, true
		case b == 0xf0:
			return behindF0, true
		case b < 0xf4:
			return three, true
		}
		return behindF4, b == 0xf4
	}
	lo, hi, next := byte(0x80), byte(0xbf), one
	switch state {
	case one:
		next = boundary
	case behindE2:
		if b == 0x80 {
			next = behindE280
		}
	case behindE280:
		if next = boundary; b == 0xa8 || b == 0xa9 {
			return 0, false
		}
	case three:
		next = two
	case behindE0:
		lo = 0xa0
	case behindED:
		hi = 0x9f
	case behindF0:
		lo, next = 0x90, two
	case behindF4:
		hi, next = 0x8f, two
	}
	return next, lo <= b && b <= hi
}

// plainChars returns how many characters a token has that may stand in any string of JSON; 0 if it has others, or ends
// within one.
func plainChars(token []byte) (n int) {
	state, ok := boundary, true
	for _, b := range token {
		if state, ok = utf8Next(state, b); !ok {
			return 0
		}
		if state == boundary {
			n++
		}
	}
	if state != boundary {
		return 0
	}
	return n
}

// survey finds for each node of the tree from which states of reading all that is below can stand in a string, and how
// deep it is below.
func (v *tree) survey() {
	v.plain, v.depth = make([]uint16, len(v.bytes)), make([]int32, len(v.bytes))
	for node := int32(len(v.bytes)) - 1; node >= 0; node-- {
		v.plain[node] = 1<<utf8States - 1
		for c, end := node+1, v.below[node]; c < end; c = v.below[c] {
			v.depth[node] = max(v.depth[node], v.depth[c]+1)
			for state := range utf8States {
				if next, ok := utf8Next(state, v.bytes[c]); !ok || v.plain[c]>>next&1 == 0 {
					v.plain[node] &^= 1 << state
				}
			}
		}
	}
}

// whole reports whether a thread at a node can follow all that is below, as plain text of the string that it is in.
func (w *walker) whole(t thread, node int32) bool {
	s := &w.g.states[t.at]
	if s.free == bound || w.tree.plain[node]>>boundary&1 == 0 {
		return false
	}
	b := w.g.bounds[s.bounds]
	return b.most == unbounded || t.n+w.tree.depth[node] <= b.most
}

// freedom is how far plain characters can follow each other at a state.
type freedom uint8

const (
	bound    freedom = iota // not all of them can, or only some of them
	free                    // any number of any of them, as far as the count of the rule allows
	inString                // likewise, and whatever may stand in any string
)

// frees finds the states at which any number of plain characters can follow.
func (d *dfa) frees() []bool {
	next := make([][]int32, len(d.arcs)) // behind one plain character; nil: some cannot follow
	for i := range d.arcs {
		next[i] = d.plainly(nil, int32(i), boundary)
	}
	bound := make([]bool, len(d.arcs))
	for i := range bound {
		bound[i] = next[i] == nil
	}
	reaching(next, bound)
	for i := range bound {
		bound[i] = !bound[i]
	}
	return bound
}

// plainly appends the states behind one plain character, of which some was read; it returns nil if one cannot follow.
func (d *dfa) plainly(to []int32, at int32, state int) []int32 {
	for b := 0; b < 256; b++ {
		after, ok := utf8Next(state, byte(b))
		if !ok {
			continue
		}
		next, last := d.stretch(at, byte(b), 255)
		if next < 0 {
			return nil
		}
		if after == boundary {
			if !slices.Contains(to, next) {
				to = append(to, next)
			}
		} else if to = d.plainly(to, next, after); to == nil {
			return nil
		}
		for b < int(last) { // those that lead there as well
			if then, ok := utf8Next(state, byte(b+1)); ok && then != after {
				break
			}
			b++
		}
	}
	return to
}
