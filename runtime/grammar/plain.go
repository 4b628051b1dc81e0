package grammar

import "github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"

// countPlainChars returns the number of characters of a token if all may be part of any JSON string; 0 if it has
// others, or ends within a character.
func countPlainChars(token []byte) (n int) {
	state := int32(0)
	for _, b := range token {
		if state = regular.PlainNext(state, b); state < 0 {
			return 0
		}
		if state == 0 {
			n++
		}
	}
	if state != 0 {
		return 0
	}
	return n
}

// annotateSubtrees computes for each node in which states all texts below it can be part of a string, and the depth
// below it.
func (v *tokenTree) annotateSubtrees() {
	v.plain, v.depth = make([]uint16, len(v.bytes)), make([]int32, len(v.bytes))
	for node := int32(len(v.bytes)) - 1; node >= 0; node-- {
		v.plain[node] = 1<<regular.PlainStates - 1
		for c, end := node+1, v.below[node]; c < end; c = v.below[c] {
			v.depth[node] = max(v.depth[node], v.depth[c]+1)
			for state := range int32(regular.PlainStates) {
				if next := regular.PlainNext(state, v.bytes[c]); next < 0 || v.plain[c]>>next&1 == 0 {
					v.plain[node] &^= 1 << state
				}
			}
		}
	}
}

// acceptsSubtree reports whether a thread at a node can follow all texts below it, as plain text of its string.
func (w *walker) acceptsSubtree(t thread, node int32) bool {
	s := &w.g.states[t.at]
	if s.free == regular.Bound || w.tree.plain[node]&1 == 0 {
		return false
	}
	b := w.g.bounds[s.bounds]
	return !b.Bounded() || t.n+w.tree.depth[node] <= b.Max
}

// oneAcceptsSubtree reports whether one of some threads does.
func (w *walker) oneAcceptsSubtree(threads []thread, node int32) bool {
	for _, t := range threads {
		if w.acceptsSubtree(t, node) {
			return true
		}
	}
	return false
}
