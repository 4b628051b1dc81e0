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

func (m Mask) addToken(id int32) { m[id>>6] |= 1 << (id & 63) }

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

// reachKey is a place within a rule, as far as it matters for tokens: counts that are further from their bounds than
// the length of any token are equal.
type reachKey struct {
	grammar         uint64 // 0: any grammar, in a string
	at, least, most int32
}

// reach is the set of tokens that a place allows by itself.
type reach struct {
	base  Mask       // tokens shared by many places; must not be changed
	few   []int32    // further tokens, if they are few
	all   Mask       // otherwise
	after *tokenTree // the rests of further tokens after the end of the rule; nil: none
}

// NewMatcher returns a matcher for a grammar and a vocabulary.
func NewMatcher(g *Grammar, v *Vocabulary) *Matcher {
	return &Matcher{g: g, v: v, id: v.cache.grammars.Add(1)}
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
func (m *Matcher) Shortest(s *State) []int32 { return m.v.tokenizeGreedily(m.g.Shortest(s)) }

// Mask returns the tokens that may follow, in the memory of dst if it is large enough.
func (m *Matcher) Mask(dst Mask, s *State) Mask {
	words := (m.v.size + 63) / 64
	dst = slices.Grow(dst[:0], words)[:words]
	clear(dst)
	if s.done {
		for _, id := range m.v.ends {
			dst.addToken(id)
		}
	}
	for _, t := range s.threads {
		r := m.threadReach(t)
		dst.unionWith(r.base)
		dst.unionWith(r.all)
		for _, id := range r.few {
			dst.addToken(id)
		}
		if t.up == nil || r.after == nil {
			continue
		}
		after, _ := m.g.appendClosure(nil, t.up.back, t.up.n, t.up.up)
		w := walker{g: m.g, tree: r.after, mask: dst}
		w.walkBelow(0, after, 0)
	}
	return dst
}

// unionWith adds the tokens of another set; nil is the empty one.
func (m Mask) unionWith(o Mask) {
	for i, word := range o {
		m[i] |= word
	}
}

func (m *Matcher) threadReach(t thread) *reach {
	key := m.reachKeyOf(t)
	r := m.v.cache.loadReach(key)
	if r == nil {
		r = m.computeReach(t, key)
		m.v.cache.storeReach(key, r)
	}
	return r
}

func (m *Matcher) reachKeyOf(t thread) reachKey {
	s := &m.g.states[t.at]
	b := m.g.bounds[s.bounds]
	far := m.v.longest + 1
	key := reachKey{grammar: m.id, at: t.at, least: min(max(b.Min-t.n, 0), far), most: -1}
	if b.Bounded() {
		key.most = min(b.Max-t.n, far)
	}
	if s.free == regular.InString {
		key.grammar, key.at = 0, 0
	}
	return key
}

func (r *reach) memoryBytes() int {
	n := 256 + 8*len(r.all) + 4*len(r.few)
	if r.after != nil {
		n += 16*len(r.after.bytes) + 4*len(r.after.ids)
	}
	return n
}

func (m *Matcher) computeReach(t thread, key reachKey) *reach {
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
	w.walkBelow(0, []thread{{t.at, t.n, nil}}, 0)
	r.after = w.exits.buildTree()
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
type exits struct{ rests []tokenEntry }

// buildTree returns the tree of the rests; nil if there are none.
func (e *exits) buildTree() *tokenTree {
	if len(e.rests) == 0 {
		return nil
	}
	return newTokenTree(e.rests)
}

func (e *exits) addRests(v *tokenTree, node int32, text []byte) {
	for c, end := node+1, v.below[node]; c < end; c = v.below[c] {
		rest := append(text[:len(text):len(text)], v.bytes[c])
		for _, id := range v.nodeTokens(c) {
			e.rests = append(e.rests, tokenEntry{rest, id})
		}
		e.addRests(v, c, rest)
	}
}

// walker follows the tokens of a tree.
type walker struct {
	g     *Grammar
	tree  *tokenTree
	mask  Mask
	count int        // tokens
	exits *exits     // nil if the text after the outermost rule is not needed
	spare [][]thread // by depth
}

// walkBelow adds the tokens below a node of the tree that threads can follow.
func (w *walker) walkBelow(node int32, threads []thread, depth int) {
	if len(threads) == 1 && w.g.states[threads[0].at].regular {
		w.walkRegular(node, threads[0])
		return
	}
	if depth == len(w.spare) {
		w.spare = append(w.spare, nil)
	}
	for c, end := node+1, w.tree.below[node]; c < end; c = w.tree.below[c] {
		next, done := w.g.stepByte(w.spare[depth][:0], threads, w.tree.bytes[c])
		w.spare[depth] = next
		if len(next) == 0 && !done {
			continue
		}
		if w.oneAcceptsSubtree(next, c) {
			w.allowTokens(w.tree.subtreeTokens(c))
			continue
		}
		w.allowTokens(w.tree.nodeTokens(c))
		if w.tree.below[c] == c+1 {
			continue
		}
		if done && w.exits != nil {
			w.exits.addRests(w.tree, c, nil)
		}
		if len(next) > 0 {
			w.walkBelow(c, next, depth+1)
		}
	}
}

// walkRegular is walkBelow for one thread of a regular part, as long as it stays in it.
func (w *walker) walkRegular(node int32, t thread) {
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
				w.enterRegular(c, thread{a.to, t.n, t.up})
				break
			}
		}
	}
}

// enterRegular adds the tokens of a node and of those below it that a thread of a regular part can follow after it.
func (w *walker) enterRegular(node int32, t thread) {
	if w.acceptsSubtree(t, node) {
		w.allowTokens(w.tree.subtreeTokens(node))
		return
	}
	w.allowTokens(w.tree.nodeTokens(node))
	s := &w.g.states[t.at]
	if w.tree.below[node] == node+1 {
		return
	}
	if !s.accept {
		w.walkRegular(node, t)
		return
	}
	if t.up == nil {
		if w.exits != nil {
			w.exits.addRests(w.tree, node, nil)
		}
		if len(s.arcs) > 0 {
			w.walkRegular(node, t)
		}
		return
	}
	threads, _ := w.g.appendClosure(nil, t.at, t.n, t.up)
	other := walker{g: w.g, tree: w.tree, mask: w.mask}
	other.walkBelow(node, threads, 0)
	w.count += other.count
}

func (w *walker) allowTokens(ids []int32) {
	for _, id := range ids {
		w.mask.addToken(id)
	}
	w.count += len(ids)
}
