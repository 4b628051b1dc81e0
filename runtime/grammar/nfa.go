package grammar

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// nfa is a regular set of texts, as a graph of places. Place 0 is where texts begin.
type nfa struct {
	places []place
	end    []bool // of places: a text may end there

	round int32   // of closure
	seen  []int32 // by place: the last round of closure that came there
}

type place struct {
	arcs  []arc
	jumps []int32
}

func newNFA() *nfa { return &nfa{places: make([]place, 1), end: make([]bool, 1)} }

// place makes a place.
func (a *nfa) place() int32 {
	a.places, a.end = append(a.places, place{}), append(a.end, false)
	return int32(len(a.places) - 1)
}

// arc leads from one place to another with any byte of a range.
func (a *nfa) arc(from int32, lo, hi byte, to int32) {
	a.places[from].arcs = append(a.places[from].arcs, arc{lo: lo, hi: hi, to: to})
}

func (a *nfa) jump(from, to int32) { a.places[from].jumps = append(a.places[from].jumps, to) }

// text leads along a text to a new place.
func (a *nfa) text(from int32, text string) int32 {
	for i := range len(text) {
		to := a.place()
		a.arc(from, text[i], text[i], to)
		from = to
	}
	return from
}

// digits leads along 1 to most digits to a new place, of which least have to be there.
func (a *nfa) digits(from int32, least, most int) int32 {
	end := a.place()
	for i := range most {
		if i >= least {
			a.jump(from, end)
		}
		to := a.place()
		a.arc(from, '0', '9', to)
		from = to
	}
	a.jump(from, end)
	return end
}

// chars leads with any character of ranges of runes, pairs of first and last, as JSON spells it within a string.
func (a *nfa) chars(from int32, ranges []rune, to int32) {
	for i := 0; i+1 < len(ranges); i += 2 {
		a.between(from, ranges[i], ranges[i+1], to)
	}
}

// between leads with any character of lo to hi: as it is, or escaped where it must be.
func (a *nfa) between(from int32, lo, hi rune, to int32) {
	for r := lo; r <= hi && r < utf8.RuneSelf; r++ {
		if escaped := escape(r); escaped != "" {
			a.arcsTo(from, escaped, to)
		}
	}
	for _, part := range [][2]rune{{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7f}} {
		if l, h := max(lo, part[0]), min(hi, part[1]); l <= h {
			a.arc(from, byte(l), byte(h), to)
		}
	}
	for _, part := range [][2]rune{{0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, utf8.MaxRune}} {
		if l, h := max(lo, part[0]), min(hi, part[1]); l <= h {
			a.encoded(from, utf8.AppendRune(nil, l), utf8.AppendRune(nil, h), to)
		}
	}
}

// escape returns how JSON spells a character that cannot stand for itself; "" for others.
func escape(r rune) string {
	switch {
	case r == '"' || r == '\\':
		return `\` + string(r)
	case r >= 0x20:
		return ""
	case r == '\b':
		return `\b`
	case r == '\f':
		return `\f`
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	}
	return `\u00` + strconv.FormatInt(int64(r)>>4, 16) + strconv.FormatInt(int64(r)&15, 16)
}

// arcsTo leads along a text, which is not empty, to a place.
func (a *nfa) arcsTo(from int32, text string, to int32) {
	last := len(text) - 1
	from = a.text(from, text[:last])
	a.arc(from, text[last], text[last], to)
}

// encoded leads with the characters between two of as many bytes.
func (a *nfa) encoded(from int32, lo, hi []byte, to int32) {
	if len(lo) == 1 {
		a.arc(from, lo[0], hi[0], to)
		return
	}
	first, last := lo[0], hi[0]
	low, high := make([]byte, len(lo)-1), make([]byte, len(lo)-1)
	for i := range low {
		low[i], high[i] = 0x80, 0xbf
	}
	if first == last {
		next := a.place()
		a.arc(from, first, first, next)
		a.encoded(next, lo[1:], hi[1:], to)
		return
	}
	if !slices.Equal(lo[1:], low) {
		next := a.place()
		a.arc(from, first, first, next)
		a.encoded(next, lo[1:], high, to)
		first++
	}
	if !slices.Equal(hi[1:], high) {
		next := a.place()
		a.arc(from, last, last, next)
		a.encoded(next, low, hi[1:], to)
		last--
	}
	if first <= last {
		next := a.place()
		a.arc(from, first, last, next)
		a.encoded(next, low, high, to)
	}
}

// determine returns the same texts as a dfa; it is empty if there are none.
func (a *nfa) determine(e *effort) (*dfa, error) {
	d, known, size := new(dfa), map[string]int32{}, 0
	var sets [][]int32
	enter := func(set []int32) int32 {
		key := keyOf(set)
		id, ok := known[key]
		if !ok {
			id = int32(len(sets))
			known[key] = id
			size += 2*len(key) + 64
			sets, d.arcs, d.end = append(sets, set), append(d.arcs, nil), append(d.end, a.ends(set))
		}
		return id
	}
	enter(a.closure([]int32{0}))
	for i := 0; i < len(sets); i++ {
		if len(sets) > maxRegular || size > maxSets {
			return nil, errSize
		}
		arcs, work := a.leave(sets[i], enter)
		d.arcs[i] = arcs
		if err := e.spend(work); err != nil {
			return nil, err
		}
	}
	return d.trim(), nil
}

// keyOf names a sorted set.
func keyOf(set []int32) string {
	b := make([]byte, 0, 4*len(set))
	for _, p := range set {
		b = append(b, byte(p), byte(p>>8), byte(p>>16), byte(p>>24))
	}
	return string(b)
}

func (a *nfa) ends(set []int32) bool {
	return slices.ContainsFunc(set, func(p int32) bool { return a.end[p] })
}

// leave returns the arcs of a set of places, sorted and disjoint.
func (a *nfa) leave(set []int32, enter func([]int32) int32) (arcs []arc, work int) {
	var out []arc
	cuts := []int{}
	for _, p := range set {
		for _, x := range a.places[p].arcs {
			out = append(out, x)
			cuts = append(cuts, int(x.lo), int(x.hi)+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	work = len(set) + len(out)*len(cuts)
	for i := 0; i+1 < len(cuts); i++ {
		lo, hi := byte(cuts[i]), byte(cuts[i+1]-1)
		var to []int32
		for _, x := range out {
			if x.lo <= lo && hi <= x.hi {
				to = append(to, x.to)
			}
		}
		if len(to) == 0 {
			continue
		}
		all := a.closure(to)
		work += 2 * len(all)
		id := enter(all)
		if n := len(arcs); n > 0 && arcs[n-1].to == id && arcs[n-1].hi+1 == lo {
			arcs[n-1].hi = hi
		} else {
			arcs = append(arcs, arc{lo: lo, hi: hi, to: id})
		}
	}
	return arcs, work
}

// closure returns the places that can be reached from some without a byte, sorted.
func (a *nfa) closure(from []int32) []int32 {
	if a.round++; len(a.seen) < len(a.places) {
		a.seen = slices.Concat(a.seen, make([]int32, len(a.places)-len(a.seen)))
	}
	all := []int32{}
	for len(from) > 0 {
		p := from[len(from)-1]
		from = from[:len(from)-1]
		if a.seen[p] != a.round {
			a.seen[p] = a.round
			all = append(all, p)
			from = append(from, a.places[p].jumps...)
		}
	}
	slices.Sort(all)
	return all
}
