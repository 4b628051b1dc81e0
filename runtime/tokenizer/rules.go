package tokenizer

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/pilotfish-ai/pilotfish/internal/quote"
)

// rule is what two neighbouring tokens merge into: the rank in the high half, so that the lower rule goes first, and
// the id of the token they make in the low half.
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

// ruleTable is the rules by pair: a hash table with open addressing and linear probing, at most two thirds full. The
// seed keeps a file from choosing pairs that collide.
type ruleTable struct {
	seed  uint64
	slots []ruleSlot
}

// ruleSlot is empty where rule is 0 (rank 0 is stored as 1).
type ruleSlot struct {
	pair pair
	rule rule
}

// oneRank is the step from a rank to the next, which a slot adds to tell rank 0 from an empty slot.
const oneRank rule = 1 << 32

func newRuleTable(n int) ruleTable {
	return ruleTable{rand.Uint64(), make([]ruleSlot, tableSize(n))}
}

// find returns the rule of (left, right), or noRule.
func (t *ruleTable) find(left, right int32) rule {
	p := newPair(left, right)
	mask := uint64(len(t.slots) - 1)
	for i := t.hash(p) & mask; ; i = (i + 1) & mask {
		switch s := &t.slots[i]; {
		case s.rule == 0:
			return noRule
		case s.pair == p:
			return s.rule - oneRank
		}
	}
}

// insert enters r for p. If p has a rule already, that one stays: it has the lower rank.
func (t *ruleTable) insert(p pair, r rule) {
	mask := uint64(len(t.slots) - 1)
	for i := t.hash(p) & mask; ; i = (i + 1) & mask {
		switch s := &t.slots[i]; {
		case s.rule == 0:
			*s = ruleSlot{p, r + oneRank}
			return
		case s.pair == p:
			return
		}
	}
}

func (t *ruleTable) hash(p pair) uint64 {
	hi, lo := bits.Mul64(uint64(p)^t.seed, 0x9E3779B97F4A7C15)
	return hi ^ lo
}

// newRules reads merges, best first, each "left right" in the spelling of v.
func newRules(merges stringList, v *vocabulary) (ruleTable, error) {
	if uint64(merges.Len()) >= math.MaxUint32-1 {
		return ruleTable{}, fmt.Errorf("%d merges: %w", merges.Len(), ErrVocabulary)
	}
	t := newRuleTable(merges.Len())
	var whole []byte
	var made int32 // by the merge before: most often the next merge makes the next token
	for rank, merge := range merges.All() {
		cut := 1 + bytes.IndexByte(merge[min(1, len(merge)):], ' ')
		if cut == 0 {
			return t, fmt.Errorf("merge %d, %s, is not two tokens: %w", rank, quote.Text(merge), ErrVocabulary)
		}
		left, right := v.find(merge[:cut]), v.find(merge[cut+1:])
		whole = append(append(whole[:0], merge[:cut]...), merge[cut+1:]...)
		if made++; int(made) >= v.size() || !bytes.Equal(v.spelling(made), whole) {
			made = v.find(whole)
		}
		if left < 0 || right < 0 || made < 0 {
			return t, fmt.Errorf("merge %d, %s, names a token that is not there: %w", rank, quote.Text(merge), ErrVocabulary)
		}
		t.insert(newPair(left, right), newRule(rank, made))
	}
	return t, nil
}
