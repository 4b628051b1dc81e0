package regular

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

// graph is a nondeterministic automaton: states with arcs, and jumps, which consume nothing. Texts begin at state 0.
type graph[A any] struct{ states []nfaState[A] }

type nfaState[A any] struct {
	arcs  []A
	jumps []int32
	end   bool // a text may end here
}

func newGraph[A any]() graph[A] { return graph[A]{make([]nfaState[A], 1)} }

func (g *graph[A]) addState() int32 {
	g.states = append(g.states, nfaState[A]{})
	return int32(len(g.states) - 1)
}

func (g *graph[A]) addJump(from, to int32) { g.states[from].jumps = append(g.states[from].jumps, to) }

func (g *graph[A]) markAccepting(at ...int32) {
	for _, p := range at {
		g.states[p].end = true
	}
}

// nfa is a graph over bytes.
type nfa struct {
	graph[Arc]

	round int32   // of epsilonClosure
	seen  []int32 // by state: the last round of epsilonClosure that visited it
}

func newNFA() *nfa { return &nfa{graph: newGraph[Arc]()} }

func (a *nfa) addArc(from int32, lo, hi byte, to int32) {
	a.states[from].arcs = append(a.states[from].arcs, Arc{lo, hi, to})
}

func (a *nfa) addText(from int32, text string) int32 {
	for i := range len(text) {
		to := a.addState()
		a.addArc(from, text[i], text[i], to)
		from = to
	}
	return from
}

// addRuneRanges adds paths for the characters of ranges of runes, pairs of first and last, in JSON's spelling within a
// string.
func (a *nfa) addRuneRanges(from int32, ranges []rune, to int32) {
	for i := 0; i+1 < len(ranges); i += 2 {
		a.addRuneRange(from, ranges[i], ranges[i+1], to)
	}
}

func (a *nfa) addRuneRange(from int32, lo, hi rune, to int32) {
	for r := lo; r <= hi && r < utf8.RuneSelf; r++ {
		if escaped := escapeRune(r); escaped != "" {
			last := len(escaped) - 1
			a.addArc(a.addText(from, escaped[:last]), escaped[last], escaped[last], to)
		}
	}
	for _, part := range [][2]rune{{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff},
		{0xe000, 0xffff}, {0x10000, utf8.MaxRune}} {
		if l, h := max(lo, part[0]), min(hi, part[1]); l <= h {
			text := string(l)
			least, most := strings.Repeat("\x80", len(text)), strings.Repeat("\xbf", len(text))
			a.addTextRange(from, text, string(h), least, most, to)
		}
	}
}

// addTextRange adds paths for the texts from lo to hi, with bytes after the first one from those of least to those of
// most. All four texts have the same length.
func (a *nfa) addTextRange(from int32, lo, hi, least, most string, to int32) {
	if len(lo) == 1 {
		a.addArc(from, lo[0], hi[0], to)
		return
	}
	low, high := least[1:], most[1:]
	part := func(l, h byte, lo, hi string) {
		next := a.addState()
		a.addArc(from, l, h, next)
		a.addTextRange(next, lo, hi, low, high, to)
	}
	l, h := lo[0], hi[0]
	if l == h {
		part(l, l, lo[1:], hi[1:])
		return
	}
	if lo[1:] != low {
		part(l, l, lo[1:], high)
		l++
	}
	if hi[1:] != high {
		part(h, h, low, hi[1:])
		h--
	}
	if l <= h {
		part(l, h, low, high)
	}
}

func (a *nfa) determinize(m *Maker) (*Set, error) {
	d, known, size := new(Set), map[string]int32{}, 0
	var sets [][]int32
	enter := func(set []int32) int32 {
		b, _ := binary.Append(nil, binary.LittleEndian, set) // never fails with numbers
		key := string(b)
		id, ok := known[key]
		if !ok {
			id = d.addState(slices.ContainsFunc(set, func(p int32) bool { return a.states[p].end }))
			known[key], sets = id, append(sets, set)
			size += 2*len(key) + 64
		}
		return id
	}
	enter(a.epsilonClosure([]int32{0}))
	for i := 0; i < len(sets); i++ {
		if len(sets) > maxStates || size > maxKeys {
			return nil, ErrSize
		}
		arcs, work := a.outgoingArcs(sets[i], enter)
		d.Arcs[i] = arcs
		if err := m.Spend(work); err != nil {
			return nil, err
		}
	}
	return d.trimDeadStates(), nil
}

// outgoingArcs returns the arcs of a set of states, sorted and disjoint.
func (a *nfa) outgoingArcs(set []int32, enter func([]int32) int32) (arcs []Arc, work int) {
	var out []Arc
	cuts := []int{}
	for _, p := range set {
		for _, x := range a.states[p].arcs {
			out = append(out, x)
			cuts = append(cuts, int(x.Lo), int(x.Hi)+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	work = len(set) + len(out)*len(cuts)
	for i := 0; i+1 < len(cuts); i++ {
		lo, hi := byte(cuts[i]), byte(cuts[i+1]-1)
		var to []int32
		for _, x := range out {
			if x.Lo <= lo && hi <= x.Hi {
				to = append(to, x.To)
			}
		}
		if len(to) == 0 {
			continue
		}
		all := a.epsilonClosure(to)
		work += 2 * len(all)
		id := enter(all)
		if n := len(arcs); n > 0 && arcs[n-1].To == id && arcs[n-1].Hi+1 == lo {
			arcs[n-1].Hi = hi
		} else {
			arcs = append(arcs, Arc{lo, hi, id})
		}
	}
	return arcs, work
}

func (a *nfa) epsilonClosure(from []int32) []int32 {
	if a.round++; len(a.seen) < len(a.states) {
		a.seen = slices.Concat(a.seen, make([]int32, len(a.states)-len(a.seen)))
	}
	all := []int32{}
	for len(from) > 0 {
		p := from[len(from)-1]
		from = from[:len(from)-1]
		if a.seen[p] != a.round {
			a.seen[p] = a.round
			all = append(all, p)
			from = append(from, a.states[p].jumps...)
		}
	}
	slices.Sort(all)
	return all
}
