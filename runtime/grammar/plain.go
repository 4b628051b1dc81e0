package grammar

// States of reading UTF-8: at a character's beginning, or behind bytes after which so many follow, the next of which
// may be all or some that continue characters.
const (
	boundary = iota
	one
	two
	three
	behindE0
	behindED
	behindF0
	behindF4
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

// survey finds for each node of the tree from which states of reading all that is below can stand in a string, and how
// deep it is below.
func (v *Vocabulary) survey() {
	v.plain, v.depth = make([]uint8, len(v.bytes)), make([]int32, len(v.bytes))
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
	b := w.g.bounds[s.bounds]
	return s.text && w.v.plain[node]>>boundary&1 != 0 && (b.most == unbounded || t.n+w.v.depth[node] <= b.most)
}
