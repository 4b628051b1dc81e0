package grammar

import (
	"cmp"
	"slices"
)

// dfa is a regular set of texts with one way to read each: state 0 is the beginning, and of each state a text of the
// set can be reached.
type dfa struct {
	arcs [][]arc
	end  []bool
}

// trim drops the states of which no text of the set can be reached.
func (d *dfa) trim() *dfa {
	next := make([][]int32, len(d.arcs))
	for i, arcs := range d.arcs {
		for _, x := range arcs {
			next[i] = append(next[i], x.to)
		}
	}
	live := slices.Clone(d.end)
	reaching(next, live)
	if len(live) == 0 || !live[0] {
		return new(dfa)
	}
	names, trimmed := make([]int32, len(live)), new(dfa)
	for i, ok := range live {
		if ok {
			names[i] = int32(len(trimmed.end))
			trimmed.arcs, trimmed.end = append(trimmed.arcs, d.arcs[i]), append(trimmed.end, d.end[i])
		}
	}
	for i, arcs := range trimmed.arcs {
		arcs = slices.DeleteFunc(slices.Clone(arcs), func(x arc) bool { return !live[x.to] })
		for j := range arcs {
			arcs[j].to = names[arcs[j].to]
		}
		slices.SortFunc(arcs, func(x, y arc) int { return cmp.Compare(x.lo, y.lo) })
		trimmed.arcs[i] = arcs
	}
	return trimmed
}

// reaching adds to some states those from which one of them is reached.
func reaching(next [][]int32, in []bool) {
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

// empty reports whether there is no text.
func (d *dfa) empty() bool { return len(d.arcs) == 0 }

// accepts reports whether a text is of the set.
func (d *dfa) accepts(text string) bool {
	if d.empty() {
		return false
	}
	at := int32(0)
	for i := range len(text) {
		if at = d.next(at, text[i]); at < 0 {
			return false
		}
	}
	return d.end[at]
}

// next returns the state behind a byte; -1 for none.
func (d *dfa) next(at int32, b byte) int32 {
	for _, a := range d.arcs[at] {
		if a.lo <= b && b <= a.hi {
			return a.to
		}
	}
	return -1
}

// pair is a state of two sets; the second is -1 where no text of the second set can be reached.
type pair struct{ a, b int32 }

// product returns the texts of d that are of o as well, or with not those that are not.
func (d *dfa) product(e *effort, o *dfa, not bool) (*dfa, error) {
	if d.empty() || o.empty() {
		if not {
			return d, nil
		}
		return new(dfa), nil
	}
	out, known, open := new(dfa), map[pair]int32{}, []pair(nil)
	enter := func(p pair) int32 {
		id, ok := known[p]
		if !ok {
			id = int32(len(open))
			known[p], open = id, append(open, p)
			inBoth := p.b >= 0 && o.end[p.b]
			out.arcs, out.end = append(out.arcs, nil), append(out.end, d.end[p.a] && inBoth != not)
		}
		return id
	}
	enter(pair{0, 0})
	for i := 0; i < len(open); i++ {
		p := open[i]
		if len(open) > maxRegular {
			return nil, errSize
		}
		steps := 1
		for _, x := range d.arcs[p.a] {
			for lo := int(x.lo); lo <= int(x.hi); {
				to, hi := o.stretch(p.b, byte(lo), x.hi)
				if steps++; to >= 0 || not {
					out.arcs[i] = append(out.arcs[i], arc{lo: byte(lo), hi: hi, to: enter(pair{x.to, to})})
				}
				lo = int(hi) + 1
			}
		}
		if err := e.spend(steps); err != nil {
			return nil, err
		}
	}
	return out.trim(), nil
}

// stretch returns where the byte lo leads, -1 for nowhere, and the last byte up to hi that leads there as well.
func (d *dfa) stretch(at int32, lo, hi byte) (to int32, last byte) {
	if at < 0 {
		return -1, hi
	}
	for _, a := range d.arcs[at] {
		switch {
		case lo < a.lo:
			return -1, min(hi, a.lo-1)
		case lo <= a.hi:
			return a.to, min(hi, a.hi)
		}
	}
	return -1, hi
}

// include puts the texts of d into a, and returns where they begin.
func (a *nfa) include(d *dfa) int32 {
	first := int32(len(a.places))
	for i := range max(1, len(d.arcs)) {
		a.place()
		if !d.empty() {
			a.end[first+int32(i)] = d.end[i]
		}
	}
	for i, arcs := range d.arcs {
		for _, x := range arcs {
			a.arc(first+int32(i), x.lo, x.hi, first+x.to)
		}
	}
	return first
}

// setOfTexts returns the set of some texts.
func setOfTexts(texts []string) (*dfa, error) {
	d := new(dfa)
	if len(texts) == 0 {
		return d, nil
	}
	state := func() int32 {
		d.arcs, d.end = append(d.arcs, nil), append(d.end, false)
		return int32(len(d.end) - 1)
	}
	state()
	for _, text := range slices.Sorted(slices.Values(texts)) { // so that the last arc of a state is the one to share
		at := int32(0)
		for i := range len(text) {
			arcs := d.arcs[at]
			if n := len(arcs); n > 0 && arcs[n-1].lo == text[i] {
				at = arcs[n-1].to
				continue
			}
			to := state()
			d.arcs[at] = append(d.arcs[at], arc{lo: text[i], hi: text[i], to: to})
			at = to
		}
		if d.end[at] = true; len(d.end) > maxRegular {
			return nil, errSize
		}
	}
	return d, nil
}

// same reports whether the states of two sets have the same texts before them, arc by arc.
func (d *dfa) same(at int32, o *dfa, other int32) bool {
	known, open := map[pair]bool{}, []pair{{at, other}}
	for len(open) > 0 {
		p := open[len(open)-1]
		open = open[:len(open)-1]
		if known[p] {
			continue
		}
		known[p] = true
		x, y := d.arcs[p.a], o.arcs[p.b]
		if d.end[p.a] != o.end[p.b] || len(x) != len(y) {
			return false
		}
		for i := range x {
			if x[i].lo != y[i].lo || x[i].hi != y[i].hi {
				return false
			}
			open = append(open, pair{x[i].to, y[i].to})
		}
	}
	return true
}

// space makes marks spaces that may be left out, in a set of texts in which no other one begins where a mark stands.
func (d *dfa) space() {
	for i, arcs := range slices.Backward(d.arcs) { // what a mark leads to stands behind it
		if len(arcs) == 1 && arcs[0].lo == mark {
			to := arcs[0].to
			d.arcs[i] = append([]arc{{lo: ' ', hi: ' ', to: to}}, d.arcs[to]...)
		}
	}
}
