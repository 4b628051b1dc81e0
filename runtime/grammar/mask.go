package grammar

import (
	"math/bits"
	"slices"
	"sync"
)

// Mask is a set of tokens, one bit each.
type Mask []uint64

// Has reports whether a token is in the set.
func (m Mask) Has(id int32) bool { return id >= 0 && int(id)>>6 < len(m) && m[id>>6]>>(id&63)&1 != 0 }

// Remove takes a token out of the set.
func (m Mask) Remove(id int32) { m[id>>6] &^= 1 << (id & 63) }

func (m Mask) add(id int32) { m[id>>6] |= 1 << (id & 63) }

// Matcher says which tokens of a vocabulary may follow a text. Any number of goroutines may use it at once.
//
// A mask is put together of what each place of the text allows by itself, which is kept: most tokens stay within one
// rule, such as a string, and do not depend on the rules that wait for it. Only the tokens that go on behind the end of
// the rule are followed anew.
type Matcher struct {
	g *Grammar
	v *Vocabulary

	mu   sync.Mutex
	kept map[local]*reach
	size int // words of the masks that are kept
}

// local is a place within a rule, as far as tokens can tell: a count that is further from its bounds than any token is
// long counts as one.
type local struct{ at, least, most int32 }

// reach is what a place allows by itself.
type reach struct {
	few   []int32 // tokens, if they are few
	all   Mask    // else
	exits []int32 // nodes of the vocabulary's tree at which the rule may be over, with more below
}

// mostKept is how many words of masks are kept: 32 MiB.
const mostKept = 1 << 22

// NewMatcher puts a grammar and a vocabulary together.
func NewMatcher(g *Grammar, v *Vocabulary) *Matcher {
	return &Matcher{g: g, v: v, kept: map[local]*reach{}}
}

// Start is the beginning of a text.
func (m *Matcher) Start() *State { return m.g.Start() }

// Allows reports whether a token may follow. One that ends the text may where it is a whole value.
func (m *Matcher) Allows(s *State, id int32) bool {
	if m.Ends(id) {
		return s.done
	}
	return m.Next(s, id) != nil
}

// Next returns where the text stands behind one more token; nil if that cannot follow. A token that ends the text
// leaves it where it stands.
func (m *Matcher) Next(s *State, id int32) *State {
	if m.Ends(id) {
		return s
	}
	if id < 0 || int(id) >= m.v.size || len(m.v.tokens[id]) == 0 {
		return nil
	}
	return m.g.Next(s, m.v.tokens[id]...)
}

// Ends reports whether a token ends the text.
func (m *Matcher) Ends(id int32) bool { return slices.Contains(m.v.ends, id) }

// Fits reports whether so many tokens are enough to make a text a whole value.
func (m *Matcher) Fits(s *State, tokens int) bool {
	return m.g.Least(s) <= tokens || m.g.Least(s)/int(max(1, m.v.longest)) <= tokens && len(m.Shortest(s)) <= tokens
}

// Shortest returns tokens that make a text a whole value in the fewest bytes, each of them as long as it can be; none
// where it is one. There may be fewer tokens that need more bytes.
func (m *Matcher) Shortest(s *State) []int32 { return m.v.cut(m.g.Shortest(s)) }

// Mask returns the tokens that may follow, in the memory of dst if it is large enough.
func (m *Matcher) Mask(dst Mask, s *State) Mask {
	words := (m.v.size + 63) / 64
	dst = slices.Grow(dst[:0], words)[:words]
	clear(dst)
	if s.done {
		for _, id := range m.v.ends {
			dst.add(id)
		}
	}
	for _, t := range s.threads {
		r := m.reach(t)
		for _, id := range r.few {
			dst.add(id)
		}
		for i, word := range r.all {
			dst[i] |= word
		}
		if t.up == nil || len(r.exits) == 0 {
			continue
		}
		behind, _ := m.g.arrive(nil, t.up.back, t.up.n, t.up.up)
		w := walker{g: m.g, v: m.v, mask: dst}
		for _, node := range r.exits {
			w.below(node, behind, 0)
		}
	}
	return dst
}

// reach returns what the place of a thread allows by itself.
func (m *Matcher) reach(t thread) *reach {
	b := m.g.bounds[m.g.states[t.at].bounds]
	far := m.v.longest + 1
	key := local{at: t.at, least: min(max(b.least-t.n, 0), far), most: -1}
	if b.most != unbounded {
		key.most = min(b.most-t.n, far)
	}
	m.mu.Lock()
	r := m.kept[key]
	m.mu.Unlock()
	if r != nil {
		return r
	}
	r = m.explore(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size += len(r.all) + len(r.few)/2 + len(r.exits)/2; m.size > mostKept {
		clear(m.kept)
		m.size = 0
	}
	m.kept[key] = r
	return r
}

// explore finds what the place of a thread allows by itself.
func (m *Matcher) explore(t thread) *reach {
	r := new(reach)
	w := walker{g: m.g, v: m.v, mask: make(Mask, (m.v.size+63)/64), exits: &r.exits}
	w.below(0, []thread{{t.at, t.n, nil}}, 0)
	if w.count*2 >= len(w.mask) {
		r.all = w.mask
		return r
	}
	for i, word := range w.mask {
		for ; word != 0; word &= word - 1 {
			r.few = append(r.few, int32(i<<6|bits.TrailingZeros64(word)))
		}
	}
	return r
}

// walker follows the tokens of a vocabulary.
type walker struct {
	g     *Grammar
	v     *Vocabulary
	mask  Mask
	count int        // tokens
	exits *[]int32   // nodes at which the outermost rule may be over
	spare [][]thread // by depth
}

// below adds the tokens below a node of the tree that threads can follow.
func (w *walker) below(node int32, threads []thread, depth int) {
	if depth == len(w.spare) {
		w.spare = append(w.spare, nil)
	}
	for c, end := node+1, w.v.below[node]; c < end; c = w.v.below[c] {
		next, done := w.g.step(w.spare[depth][:0], threads, w.v.bytes[c])
		w.spare[depth] = next
		if len(next) == 0 && !done {
			continue
		}
		if !done && len(next) == 1 && w.whole(next[0], c) {
			w.add(w.v.ids[w.v.first[c]:w.v.first[w.v.below[c]]])
			continue
		}
		w.add(w.v.ids[w.v.first[c]:w.v.first[c+1]])
		if w.v.below[c] == c+1 {
			continue
		}
		if done && w.exits != nil {
			*w.exits = append(*w.exits, c)
		}
		if len(next) > 0 {
			w.below(c, next, depth+1)
		}
	}
}

func (w *walker) add(ids []int32) {
	for _, id := range ids {
		w.mask.add(id)
	}
	w.count += len(ids)
}
