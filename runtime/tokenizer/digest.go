package tokenizer

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// digest computes [Tokenizer.Hash]. Each list is preceded by its length, so that no two vocabularies are written alike.
func (t *Tokenizer) digest() (sum [32]byte) {
	h := sha256.New()
	w := digestWriter{bufio.NewWriter(h)}
	w.text("pilotfish tokenizer 1 qwen2")
	n := t.Used()
	w.number(n)
	for id := range int32(n) {
		w.number(int(t.vocab.kinds[id]))
		w.text(string(t.vocab.spelling(id)))
	}
	rules := t.rules.inOrder()
	w.number(len(rules))
	for _, p := range rules {
		w.number(int(p.left()))
		w.number(int(p.right()))
	}
	w.number(-1)
	if t.addBOS {
		w.number(int(t.bos))
	}
	w.b.Flush()
	h.Sum(sum[:0])
	return sum
}

// Used returns the number of tokens without the unused ones at the end, which only pad the embedding. Models of one family
// agree in it where their sizes differ.
func (t *Tokenizer) Used() int {
	n := t.vocab.size()
	for n > 0 && t.vocab.kinds[n-1] == unused {
		n--
	}
	return n
}

// inOrder returns the pairs that merge, the lowest rank first.
func (t *ruleTable) inOrder() []pair {
	var rules []ruleSlot
	for _, s := range t.slots {
		if s.rule != 0 {
			rules = append(rules, s)
		}
	}
	slices.SortFunc(rules, func(a, b ruleSlot) int { return cmp.Compare(a.rule, b.rule) })
	pairs := make([]pair, len(rules))
	for i, s := range rules {
		pairs[i] = s.pair
	}
	return pairs
}

// digestWriter writes to a hash, which never fails.
type digestWriter struct{ b *bufio.Writer }

func (w digestWriter) number(n int) {
	w.b.Write(binary.AppendVarint(w.b.AvailableBuffer(), int64(n)))
}

func (w digestWriter) text(s string) {
	w.number(len(s))
	w.b.WriteString(s)
}
