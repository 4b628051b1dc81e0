package grammar

import (
	"math/bits"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/regular"
)

// Mask is a set of tokens, one bit each.
type Mask []uint64

// Has reports whether a token is in the set.
func (m Mask) Has(id int32) bool { return id >= 0 && int(id)>>6 < len(m) && m[id>>6]>>(id&63)&1 != 0 }

// Remove removes a token from the set.
func (m Mask) Remove(id int32) { m[id>>6] &^= 1 << (id & 63) }

func (m Mask) add(id int32) { m[id>>6] |= 1 << (id & 63) }

// Matcher computes which tokens of a vocabulary may follow a text. It is safe for concurrent use.
//
// A mask is the union of the tokens that each place of the text allows by itself, which are kept: most tokens stay
// within one rule, such as a string, and do not depend on the rules that wait for it. Only the tokens that continue
// after the end of the rule are matched each time.
type Matcher struct {
	g *Grammar
	v *Vocabulary

	id uint64 // of g, in the masks that v keeps
}

// local is a place within a rule, as far as it matters for tokens: counts that are further from their bounds than the
// length of any token are equal.
type local struct {
	grammar         uint64 // 0: any grammar, in a string
	at, least, most int32
}

// reach is the set of tokens that a place allows by itself.
type reach struct {
	base  Mask    // tokens shared by many places; must not be changed
	few   []int32 // further tokens, if they are few
	all   Mask    // otherwise
	after *tree   // the rests of further tokens after the end of the rule; nil: none
}

// NewMatcher returns a matcher for a grammar and a vocabulary.
func NewMatcher(g *Grammar, v *Vocabulary) *Matcher {
	return &Matcher{g: g, v: v, id: v.kept.grammars.Add(1)}
}

// Ignored is [Grammar.Ignored].
func (m *Matcher) Ignored() []string { return m.g.ignored }

// Start returns the state at the beginning of a text.
func (m *Matcher) Start() *State { return m.g.Start() }

// Allows reports whether a token may follow. A token that ends the text may follow a whole value.
func (m *Matcher) Allows(s *State, id int32) bool {
	if m.Ends(id) {
		return s.done
	}
	return m.Next(s, id) != nil
}

// Next returns the state after one more token; nil if the token cannot follow. A token that ends the text does not
// change the state.
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

// Fits reports whether the text can be completed to a whole value with a number of tokens.
func (m *Matcher) Fits(s *State, tokens int) bool {
	return m.g.Least(s) <= tokens || m.g.Least(s)/int(max(1, m.v.longest)) <= tokens && len(m.Shortest(s)) <= tokens
}

// Shortest returns tokens that complete a text to a whole value in the fewest bytes, each token as long as possible;
// none if the text is a whole value. There may be a completion with fewer tokens and more bytes.
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
		dst.unite(r.base)
		dst.unite(r.all)
		for _, id := range r.few {
			dst.add(id)
		}
		if t.up == nil || r.after == nil {
			continue
		}
		after, _ := m.g.arrive(nil, t.up.back, t.up.n, t.up.up)
		w := walker{g: m.g, tree: r.after, mask: dst}
		w.below(0, after, 0)
	}
	return dst
}

// unite adds the tokens of another set; nil is the empty one.
func (m Mask) unite(o Mask) {
	for i, word := range o {
		m[i] |= word
	}
}

// reach returns the tokens that the place of a thread allows by itself.
func (m *Matcher) reach(t thread) *reach {
	key := m.local(t)
	r := m.v.kept.get(key)
	if r == nil {
		r = m.explore(t, key)
		m.v.kept.put(key, r)
	}
	return r
}

func (m *Matcher) local(t thread) local {
	s := &m.g.states[t.at]
	b := m.g.bounds[s.bounds]
	far := m.v.longest + 1
	key := local{grammar: m.id, at: t.at, least: min(max(b.Min-t.n, 0), far), most: -1}
	if b.Bounded() {
		key.most = min(b.Max-t.n, far)
	}
	if s.free == regular.InString {
		key.grammar, key.at = 0, 0
	}
	return key
}

// bytes returns about how much memory it uses.
func (r *reach) bytes() int {
	n := 256 + 8*len(r.all) + 4*len(r.few)
	if r.after != nil {
		n += 16*len(r.after.bytes) + 4*len(r.after.ids)
	}
	return n
}

// explore computes the tokens that the place of a thread allows by itself.
func (m *Matcher) explore(t thread, key local) *reach {
	r := new(reach)
	w := walker{g: m.g, tree: m.v.all, mask: make(Mask, (m.v.size+63)/64)}
	if m.g.states[t.at].free != regular.Bound {
		most := len(m.v.plain) - 1
		if key.most >= 0 {
			most = min(most, int(key.most))
		}
		r.base, w.tree = m.v.plain[most], m.v.rest
	}
	w.exits = &exits{}
	w.below(0, []thread{{t.at, t.n, nil}}, 0)
	r.after = w.exits.tree()
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

// exits are the rests of tokens after a place at which the outermost rule may end.
type exits struct{ rests []entry }

// tree returns the tree of the rests; nil if there are none.
func (e *exits) tree() *tree {
	if len(e.rests) == 0 {
		return nil
	}
	return plant(e.rests)
}

func (e *exits) add(v *tree, node int32, text []byte) {
	for c, end := node+1, v.below[node]; c < end; c = v.below[c] {
		rest := append(text[:len(text):len(text)], v.bytes[c])
		for _, id := range v.own(c) {
			e.rests = append(e.rests, entry{rest, id})
		}
		e.add(v, c, rest)
	}
}

// walker follows the tokens of a tree.
type walker struct {
	g     *Grammar
	tree  *tree
	mask  Mask
	count int        // tokens
	exits *exits     // nil if the text after the outermost rule is not needed
	spare [][]thread // by depth
}

// below adds the tokens below a node of the tree that threads can follow.
func (w *walker) below(node int32, threads []thread, depth int) {
	if len(threads) == 1 && w.g.states[threads[0].at].regular {
		w.along(node, threads[0])
		return
	}
	if depth == len(w.spare) {
		w.spare = append(w.spare, nil)
	}
	for c, end := node+1, w.tree.below[node]; c < end; c = w.tree.below[c] {
		next, done := w.g.step(w.spare[depth][:0], threads, w.tree.bytes[c])
		w.spare[depth] = next
		if len(next) == 0 && !done {
			continue
		}
		if !done && len(next) == 1 && w.whole(next[0], c) {
			w.add(w.tree.under(c))
			continue
		}
		w.add(w.tree.own(c))
		if w.tree.below[c] == c+1 {
			continue
		}
		if done && w.exits != nil {
			w.exits.add(w.tree, c, nil)
		}
		if len(next) > 0 {
			w.below(c, next, depth+1)
		}
	}
}

// along is below for one thread of a regular part, as long as it stays in it.
func (w *walker) along(node int32, t thread) {
	arcs := w.g.states[t.at].arcs
	for c, end := node+1, w.tree.below[node]; c < end; c = w.tree.below[c] {
		b := w.tree.bytes[c]
		if b > arcs[len(arcs)-1].hi {
			return // nodes are sorted, as arcs are
		}
		for _, a := range arcs {
			if b < a.lo {
				break
			}
			if b <= a.hi {
				w.enter(c, thread{a.to, t.n, t.up})
				break
			}
		}
	}
}

// enter adds the tokens of a node and of those below it that a thread of a regular part can follow after it.
func (w *walker) enter(node int32, t thread) {
	if w.whole(t, node) {
		w.add(w.tree.under(node))
		return
	}
	w.add(w.tree.own(node))
	s := &w.g.states[t.at]
	if w.tree.below[node] == node+1 {
		return
	}
	if !s.accept {
		w.along(node, t)
		return
	}
	if t.up == nil {
		if w.exits != nil {
			w.exits.add(w.tree, node, nil)
		}
		if len(s.arcs) > 0 {
			w.along(node, t)
		}
		return
	}
	threads, _ := w.g.arrive(nil, t.at, t.n, t.up)
	other := walker{g: w.g, tree: w.tree, mask: w.mask}
	other.below(node, threads, 0)
	w.count += other.count
}

func (w *walker) add(ids []int32) {
	for _, id := range ids {
		w.mask.add(id)
	}
	w.count += len(ids)
}
