package regular

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Arc is a transition to a state with any byte of Lo to Hi.
type Arc struct {
	Lo, Hi byte
	To     int32
}

// Set is a regular set of texts as a deterministic automaton: texts begin at state 0, and every state leads to an end.
// The zero value is the empty set.
type Set struct {
	Arcs [][]Arc // by state, sorted
	End  []bool  // by state: a text may end there
}

func (d *Set) addState(end bool) int32 {
	d.Arcs, d.End = append(d.Arcs, nil), append(d.End, end)
	return int32(len(d.End) - 1)
}

func (d *Set) trimDeadStates() *Set {
	next := make([][]int32, len(d.Arcs))
	for i, arcs := range d.Arcs {
		for _, x := range arcs {
			next[i] = append(next[i], x.To)
		}
	}
	live := slices.Clone(d.End)
	markReachingStates(next, live)
	if len(live) == 0 || !live[0] {
		return new(Set)
	}
	names, trimmed := make([]int32, len(live)), new(Set)
	for i, ok := range live {
		if ok {
			names[i] = trimmed.addState(d.End[i])
			trimmed.Arcs[names[i]] = d.Arcs[i]
		}
	}
	for i, arcs := range trimmed.Arcs {
		arcs = slices.DeleteFunc(slices.Clone(arcs), func(x Arc) bool { return !live[x.To] })
		for j := range arcs {
			arcs[j].To = names[arcs[j].To]
		}
		slices.SortFunc(arcs, func(x, y Arc) int { return cmp.Compare(x.Lo, y.Lo) })
		trimmed.Arcs[i] = arcs
	}
	return trimmed
}

// markReachingStates adds to in the states from which a state of in is reachable. next lists the successors of each
// state.
func markReachingStates(next [][]int32, in []bool) {
	before := make([][]int32, len(next))
	var open []int32
	for i, all := range next {
		for _, to := range all {
			before[to] = append(before[to], int32(i))
		}
		if in[i] {
			open = append(open, int32(i))
		}
	}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		for _, i := range before[at] {
			if !in[i] {
				in[i] = true
				open = append(open, i)
			}
		}
	}
}

// Empty reports whether the set has no text.
func (d *Set) Empty() bool { return len(d.Arcs) == 0 }

// Has reports whether a text is in the set.
func (d *Set) Has(text string) bool {
	if d.Empty() {
		return false
	}
	at := d.follow(0, text)
	return at >= 0 && d.End[at]
}

// follow returns the state after a text; -1 for none.
func (d *Set) follow(at int32, text string) int32 {
	for i := range len(text) {
		at, _ = d.nextState(at, text[i], text[i])
	}
	return at
}

// nextState returns the state after byte lo, -1 for none, and the last byte up to hi that leads to the same state.
func (d *Set) nextState(at int32, lo, hi byte) (to int32, last byte) {
	if at < 0 {
		return -1, hi
	}
	for _, a := range d.Arcs[at] {
		switch {
		case lo < a.Lo:
			return -1, min(hi, a.Lo-1)
		case lo <= a.Hi:
			return a.To, min(hi, a.Hi)
		}
	}
	return -1, hi
}

// pair is a state of each of two sets; the second is -1 if no text of the second set is reachable.
type pair struct{ a, b int32 }

// And returns the texts that are in both sets.
func (m *Maker) And(a, b *Set) (*Set, error) { return m.buildProduct(a, b, false) }

// Without returns the texts of a that are not in b.
func (m *Maker) Without(a, b *Set) (*Set, error) { return m.buildProduct(a, b, true) }

func (m *Maker) buildProduct(d, o *Set, not bool) (*Set, error) {
	if d.Empty() || o.Empty() {
		if not {
			return d, nil
		}
		return new(Set), nil
	}
	out, known, open := new(Set), map[pair]int32{}, []pair(nil)
	enter := func(p pair) int32 {
		id, ok := known[p]
		if !ok {
			inBoth := p.b >= 0 && o.End[p.b]
			id = out.addState(d.End[p.a] && inBoth != not)
			known[p], open = id, append(open, p)
		}
		return id
	}
	enter(pair{0, 0})
	for i := 0; i < len(open); i++ {
		p := open[i]
		if len(open) > maxStates {
			return nil, ErrSize
		}
		steps := 1
		for _, x := range d.Arcs[p.a] {
			for lo := int(x.Lo); lo <= int(x.Hi); {
				to, hi := o.nextState(p.b, byte(lo), x.Hi)
				if steps++; to >= 0 || not {
					out.Arcs[i] = append(out.Arcs[i], Arc{byte(lo), hi, enter(pair{x.To, to})})
				}
				lo = int(hi) + 1
			}
		}
		if err := m.Spend(steps); err != nil {
			return nil, err
		}
	}
	return out.trimDeadStates(), nil
}

// Or returns the texts that are in at least one of the sets.
func (m *Maker) Or(sets ...*Set) (*Set, error) {
	a := newNFA()
	for _, d := range sets {
		first := int32(len(a.states))
		for range d.Arcs {
			a.addState()
		}
		for i, arcs := range d.Arcs {
			a.states[first+int32(i)].end = d.End[i]
			for _, x := range arcs {
				a.addArc(first+int32(i), x.Lo, x.Hi, first+x.To)
			}
		}
		if !d.Empty() {
			a.addJump(0, first)
		}
	}
	return a.determinize(m)
}

// Sorts divides a set into n sets, by all bytes of a text: most texts that differ in a few bytes are in two of them.
func (m *Maker) Sorts(d *Set, n int) (parts []*Set, err error) {
	whole := Set{Arcs: make([][]Arc, n*len(d.Arcs)), End: make([]bool, n*len(d.Arcs))} // states, times the sorts
	for i := range whole.Arcs {
		for _, x := range d.Arcs[i/n] {
			for lo := int(x.Lo); lo <= int(x.Hi); {
				hi := lo
				if lo >= utf8.RuneSelf { // fewer arcs for characters that have several bytes
					hi = min(lo|3, int(x.Hi))
				}
				to := x.To*int32(n) + int32((3*(i%n)+hi)%n)
				whole.Arcs[i] = append(whole.Arcs[i], Arc{byte(lo), byte(hi), to})
				lo = hi + 1
			}
		}
	}
	for sort := range n {
		for i := range whole.End {
			whole.End[i] = d.End[i/n] && i%n == sort
		}
		if err := m.Spend(10 * len(whole.Arcs)); err != nil {
			return nil, err
		}
		parts = append(parts, whole.trimDeadStates())
	}
	return parts, nil
}

// Of returns the set of some texts.
func Of(texts []string) (*Set, error) {
	d := new(Set)
	if len(texts) == 0 {
		return d, nil
	}
	d.addState(false)
	for _, text := range slices.Sorted(slices.Values(texts)) { // so that only the last arc of a state can be shared
		at := int32(0)
		for i := range len(text) {
			arcs := d.Arcs[at]
			if n := len(arcs); n > 0 && arcs[n-1].Lo == text[i] {
				at = arcs[n-1].To
				continue
			}
			to := d.addState(false)
			d.Arcs[at] = append(d.Arcs[at], Arc{text[i], text[i], to})
			at = to
		}
		if d.End[at] = true; len(d.End) > maxStates {
			return nil, ErrSize
		}
	}
	return d, nil
}

// equalFrom reports whether a state of d and a state of o have the same texts, arc by arc.
func (d *Set) equalFrom(at int32, o *Set, other int32) bool {
	known, open := map[pair]bool{}, []pair{{at, other}}
	for len(open) > 0 {
		p := open[len(open)-1]
		open = open[:len(open)-1]
		if known[p] {
			continue
		}
		known[p] = true
		x, y := d.Arcs[p.a], o.Arcs[p.b]
		if d.End[p.a] != o.End[p.b] || len(x) != len(y) {
			return false
		}
		for i := range x {
			if x[i].Lo != y[i].Lo || x[i].Hi != y[i].Hi {
				return false
			}
			open = append(open, pair{x[i].To, y[i].To})
		}
	}
	return true
}
