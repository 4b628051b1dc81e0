package grammar

import (
	"bytes"
	"fmt"
	"slices"
)

// Vocabulary is what the tokens of a model stand for, as a tree of their bytes. It never changes.
type Vocabulary struct {
	size    int
	tokens  [][]byte // by id; empty: never a part of a value
	ends    []int32
	longest int32

	// The nodes of the tree in the order of a walk, each behind its parent: the byte that leads to it, the end of the
	// nodes below it, and its tokens, which are ids[first[i]:first[i+1]].
	bytes []byte
	below []int32
	first []int32
	ids   []int32
	plain []uint8 // from which states of reading all that is below a node can stand in a string
	depth []int32 // bytes below
}

// NewVocabulary makes the tree of size tokens. bytes says what a token stands for, end which tokens end a text. There
// have to be some of these, and a token for each byte that a text can have, so that any value can be written.
func NewVocabulary(size int, bytes func(id int32) []byte, end func(id int32) bool) (*Vocabulary, error) {
	v := &Vocabulary{size: size, tokens: make([][]byte, size)}
	single := [256]bool{}
	for id := range int32(size) {
		if end(id) {
			v.ends = append(v.ends, id)
			continue
		}
		t := bytes(id)
		if v.tokens[id] = t; len(t) == 1 {
			single[t[0]] = true
		}
		v.longest = max(v.longest, int32(len(t)))
	}
	if len(v.ends) == 0 {
		return nil, fmt.Errorf("no token of the vocabulary ends a text")
	}
	for b, ok := range single {
		if !ok && b >= 0x20 && b != 0x7f && b < 0xf5 && b != 0xc0 && b != 0xc1 {
			return nil, fmt.Errorf("no token of the vocabulary is the byte %#02x alone", b)
		}
	}
	v.plant()
	v.survey()
	return v, nil
}

// plant makes the tree.
func (v *Vocabulary) plant() {
	order := make([]int32, 0, v.size)
	for id, t := range v.tokens {
		if len(t) > 0 {
			order = append(order, int32(id))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return bytes.Compare(v.tokens[a], v.tokens[b]) })
	v.bytes, v.below, v.first = []byte{0}, []int32{0}, []int32{0} // the root
	open, last := []int32{0}, []byte(nil)                         // nodes of the token before, from the root on
	for _, id := range order {
		t, same := v.tokens[id], 0
		for same < min(len(t), len(last)) && t[same] == last[same] {
			same++
		}
		for len(open) > same+1 {
			v.below[open[len(open)-1]] = int32(len(v.bytes))
			open = open[:len(open)-1]
		}
		for _, b := range t[same:] {
			open = append(open, int32(len(v.bytes)))
			v.bytes, v.below, v.first = append(v.bytes, b), append(v.below, 0), append(v.first, int32(len(v.ids)))
		}
		v.ids = append(v.ids, id)
		last = t
	}
	for _, n := range open {
		v.below[n] = int32(len(v.bytes))
	}
	v.first = append(v.first, int32(len(v.ids)))
}

// Size is the number of tokens.
func (v *Vocabulary) Size() int { return v.size }

// cut returns a text as tokens, each the longest that fits.
func (v *Vocabulary) cut(text []byte) (ids []int32) {
	for len(text) > 0 {
		id, length := int32(-1), 0
		for i, node := 0, int32(0); i < len(text); i++ {
			if node = v.child(node, text[i]); node == 0 {
				break
			}
			if v.first[node] < v.first[node+1] {
				id, length = v.ids[v.first[node]], i+1
			}
		}
		if length == 0 {
			return nil // each byte of a value has a token: NewVocabulary has seen to that
		}
		ids, text = append(ids, id), text[length:]
	}
	return ids
}

// child returns the node behind a byte; 0 if there is none.
func (v *Vocabulary) child(node int32, b byte) int32 {
	for c := node + 1; c < v.below[node]; c = v.below[c] {
		if v.bytes[c] == b {
			return c
		}
	}
	return 0
}
