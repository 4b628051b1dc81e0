package tokenizer

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// shortPiece is the maximum length in bytes of a piece that is merged by searching for the lowest rule each time. That
// takes quadratic time, but no memory, and is the fastest way for a word.
const shortPiece = 64

// merger merges pieces into tokens. Its arrays are reused for the next piece.
type merger struct {
	t     *Tokenizer
	ids   [shortPiece]int32
	rules [shortPiece]rule
	long  longMerger
}

// mergePiece appends the tokens of piece, which is not empty, to dst: each step merges the two neighbours with the
// lowest rule, and the leftmost ones if several pairs have it.
func (m *merger) mergePiece(dst []int32, piece string) []int32 {
	if len(piece) > shortPiece {
		return m.long.mergeLongPiece(dst, piece, m.t)
	}
	n := len(piece)
	for i := range n {
		m.ids[i] = m.t.byteID[piece[i]]
	}
	ids, rules := m.ids[:n], m.rules[:n-1] // rules[i] is that of ids[i] and ids[i+1]
	for i := range rules {
		rules[i] = m.t.rules.lookupRule(ids[i], ids[i+1])
	}
	for len(rules) > 0 {
		at, best := lowestRule(rules)
		if best == noRule {
			break
		}
		ids[at] = best.id()
		ids = append(ids[:at+1], ids[at+2:]...)
		rules = append(rules[:at], rules[at+1:]...)
		if at > 0 {
			rules[at-1] = m.t.rules.lookupRule(ids[at-1], ids[at])
		}
		if at < len(rules) {
			rules[at] = m.t.rules.lookupRule(ids[at], ids[at+1])
		}
	}
	return append(dst, ids...)
}

func lowestRule(rules []rule) (at int, best rule) {
	best = noRule
	for i, r := range rules {
		if r < best {
			at, best = i, r
		}
	}
	return at, best
}

// longMerger merges a piece of n bytes in time O(n log n): the tokens are a linked list, and the pairs to merge a heap.
type longMerger struct {
	ids        []int32
	rules      []rule  // of token i and the one after it; noRule where token i has become part of another
	prev, next []int32 // -1 at the ends
	queue      pairQueue
}

func (m *longMerger) mergeLongPiece(dst []int32, piece string, t *Tokenizer) []int32 {
	m.loadPiece(piece, t)
	for len(m.queue) > 0 {
		rank, i := m.queue.popPair()
		if m.rules[i].rank() != rank {
			continue // a neighbour has changed since
		}
		m.ids[i] = m.rules[i].id()
		gone := m.next[i]
		m.rules[gone] = noRule
		m.next[i] = m.next[gone]
		if m.next[i] >= 0 {
			m.prev[m.next[i]] = i
		}
		m.updateRule(m.prev[i], t)
		m.updateRule(i, t)
	}
	for i := int32(0); i >= 0; i = m.next[i] {
		dst = append(dst, m.ids[i])
	}
	return dst
}

func (m *longMerger) loadPiece(piece string, t *Tokenizer) {
	n := len(piece)
	m.ids, m.rules = slices.Grow(m.ids[:0], n)[:n], slices.Grow(m.rules[:0], n)[:n]
	m.prev, m.next = slices.Grow(m.prev[:0], n)[:n], slices.Grow(m.next[:0], n)[:n]
	m.queue = slices.Grow(m.queue[:0], n)
	for i := range n {
		m.ids[i] = t.byteID[piece[i]]
		m.prev[i], m.next[i] = int32(i-1), int32(i+1)
	}
	m.next[n-1] = -1
	for i := range n {
		m.rules[i] = noRule
		if i+1 < n {
			m.rules[i] = t.rules.lookupRule(m.ids[i], m.ids[i+1])
		}
		if m.rules[i] != noRule {
			m.queue = append(m.queue, newQueuedPair(m.rules[i].rank(), int32(i)))
		}
	}
	m.queue.heapify()
}

func (m *longMerger) updateRule(i int32, t *Tokenizer) {
	if i < 0 {
		return
	}
	m.rules[i] = noRule
	if m.next[i] >= 0 {
		m.rules[i] = t.rules.lookupRule(m.ids[i], m.ids[m.next[i]])
	}
	if m.rules[i] != noRule {
		m.queue.pushPair(newQueuedPair(m.rules[i].rank(), i))
	}
}

// queuedPair is a pair in the queue: its rank, then the position of its left token.
type queuedPair uint64

func newQueuedPair(rank uint32, at int32) queuedPair {
	return queuedPair(rank)<<32 | queuedPair(uint32(at))
}

// pairQueue is a heap of pairs, the lowest rank first, of equal ranks the leftmost. Each node has four children: half
// as many cache lines on the way down as with two.
type pairQueue []queuedPair

func (h *pairQueue) pushPair(q queuedPair) {
	*h = append(*h, q)
	s := *h
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 4
		if s[up] <= q {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = q
}

// popPair removes the first pair. The queue must not be empty.
func (h *pairQueue) popPair() (rank uint32, at int32) {
	s := *h
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	if len(s) > 0 {
		s.siftDown(0, last)
	}
	*h = s
	return uint32(first >> 32), int32(uint32(first))
}

func (h pairQueue) heapify() {
	for i := len(h)/4 + 1; i >= 0; i-- { // from the last node that may have a child
		if i < len(h) {
			h.siftDown(i, h[i])
		}
	}
}

func (h pairQueue) siftDown(i int, q queuedPair) {
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c] < h[least] {
				least = c
			}
		}
		if h[least] >= q {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = q
}

// rule is the result of merging two neighbouring tokens: the rank in the high half, so that the lower rule comes first,
// and the id of the merged token in the low half.
type rule uint64

// noRule is the rule of a pair that does not merge. It is above every other.
const noRule rule = math.MaxUint64

func newRule(rank int, id int32) rule { return rule(rank)<<32 | rule(uint32(id)) }

func (r rule) rank() uint32 { return uint32(r >> 32) }
func (r rule) id() int32    { return int32(uint32(r)) }

// pair is two neighbouring tokens, left in the high half.
type pair uint64

func newPair(left, right int32) pair { return pair(uint32(left))<<32 | pair(uint32(right)) }

func (p pair) left() int32  { return int32(uint32(p >> 32)) }
func (p pair) right() int32 { return int32(uint32(p)) }

// ruleTable maps pairs to rules: a hash table with open addressing and linear probing, at most two thirds full. The
// seed prevents a file from choosing pairs that collide.
type ruleTable struct {
	seed  uint64
	slots []ruleSlot
}

// ruleSlot is empty where rule is 0 (rank 0 is stored as 1).
type ruleSlot struct {
	pair pair
	rule rule
}

// oneRank is the step from a rank to the next one. A slot adds it to distinguish rank 0 from an empty slot.
const oneRank rule = 1 << 32

func (t *ruleTable) lookupRule(left, right int32) rule {
	p := newPair(left, right)
	mask := uint64(len(t.slots) - 1)
	for i := t.hashPair(p) & mask; ; i = (i + 1) & mask {
		switch s := &t.slots[i]; {
		case s.rule == 0:
			return noRule
		case s.pair == p:
			return s.rule - oneRank
		}
	}
}

// insertRule adds r for p. If p has a rule already, that one stays: it has the lower rank.
func (t *ruleTable) insertRule(p pair, r rule) {
	mask := uint64(len(t.slots) - 1)
	for i := t.hashPair(p) & mask; ; i = (i + 1) & mask {
		switch s := &t.slots[i]; {
		case s.rule == 0:
			*s = ruleSlot{p, r + oneRank}
			return
		case s.pair == p:
			return
		}
	}
}

func (t *ruleTable) hashPair(p pair) uint64 {
	hi, lo := bits.Mul64(uint64(p)^t.seed, 0x9E3779B97F4A7C15)
	return hi ^ lo
}

// newRuleTable reads merges, best first, each "left right" in the spelling of v. Tokens are looked up on all cores.
func newRuleTable(merges gguf.StringArray, v *vocabulary) (ruleTable, error) {
	if uint64(merges.Len()) >= math.MaxUint32-1 {
		return ruleTable{}, fmt.Errorf("%d merges: %w", merges.Len(), ErrVocabulary)
	}
	t := ruleTable{rand.Uint64(), make([]ruleSlot, hashTableSize(merges.Len()))}
	var batches []*mergeBatch
	for part := range merges.Chunk(mergesOfBatch) {
		b := &mergeBatch{first: len(batches) * mergesOfBatch, merges: part, done: make(chan struct{})}
		batches = append(batches, b)
		go b.lookUpTokens(v)
	}
	var err error
	for _, b := range batches {
		<-b.done
		if err == nil {
			err = b.err
		}
		for _, s := range b.rules {
			t.insertRule(s.pair, s.rule)
		}
	}
	return t, err
}

// mergesOfBatch is the number of merges that are looked up together, which takes a millisecond.
const mergesOfBatch = 1 << 13

// mergeBatch is some consecutive merges.
type mergeBatch struct {
	first  int // rank
	merges gguf.StringArray
	rules  []ruleSlot // of the merges; rules are without oneRank
	err    error
	done   chan struct{} // closed when rules and err are set
}

func (b *mergeBatch) lookUpTokens(v *vocabulary) {
	defer close(b.done)
	b.rules = make([]ruleSlot, b.merges.Len())
	var whole []byte
	var made int32 // by the merge before: most often the next merge makes the next token
	for i, merge := range b.merges.All() {
		cut := 1 + bytes.IndexByte(merge[min(1, len(merge)):], ' ')
		if cut == 0 {
			b.err = fmt.Errorf("merge %d, %s, is not two tokens: %w", b.first+i, errs.Quote(merge), ErrVocabulary)
			return
		}
		left, right := v.lookupToken(merge[:cut]), v.lookupToken(merge[cut+1:])
		whole = append(append(whole[:0], merge[:cut]...), merge[cut+1:]...)
		if made++; int(made) >= v.tokenCount() || !bytes.Equal(v.tokenSpelling(made), whole) {
			made = v.lookupToken(whole)
		}
		if left < 0 || right < 0 || made < 0 {
			b.err = fmt.Errorf("merge %d, %s, names a token that is not there: %w", b.first+i, errs.Quote(merge),
				ErrVocabulary)
			return
		}
		b.rules[i] = ruleSlot{newPair(left, right), newRule(b.first+i, made)}
	}
}

// pairsByRank returns the pairs that have a rule, the lowest rank first.
func (t *ruleTable) pairsByRank() []pair {
	const none = math.MaxUint64 // of no two tokens; in slots the lowest rank is 1
	pairs := slices.Repeat([]pair{none}, len(t.slots))
	for _, s := range t.slots {
		if s.rule != 0 {
			pairs[s.rule.rank()] = s.pair
		}
	}
	return slices.DeleteFunc(pairs, func(p pair) bool { return p == none })
}
