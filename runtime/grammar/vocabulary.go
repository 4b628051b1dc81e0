package grammar

import (
	"bytes"
	"fmt"
	"slices"
)

// Vocabulary holds the tokens of a model as a tree of their bytes. It is immutable except for the kept masks, which all
// grammars share.
type Vocabulary struct {
	size    int
	tokens  [][]byte // by id; empty: never a part of a value
	ends    []int32
	longest int32

	all   *tokenTree
	rest  *tokenTree // of the tokens that are not plain
	plain []Mask     // by n: the plain tokens of at most n characters

	cache *maskCache
}

// tokenTree is some tokens by their bytes: the nodes in the order of a walk, each after its parent.
type tokenTree struct {
	bytes []byte  // that leads to the node
	below []int32 // the end of the nodes below it
	first []int32 // its tokens are ids[first[i]:first[i+1]]
	ids   []int32
	plain []uint16 // the states in which all texts below it can be part of a string
	depth []int32  // bytes below
}

// NewVocabulary makes the tree of size tokens. bytes returns the bytes of a token, and end reports whether a token ends
// a text. There must be at least one such token, and a token for each byte that a text can contain, so that any value
// can be written.
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
	v.buildTrees()
	v.cache = newMaskCache()
	return v, nil
}

func (v *Vocabulary) buildTrees() {
	var all, rest []tokenEntry
	chars := make([]int, v.size) // of plain tokens
	for id, t := range v.tokens {
		if len(t) == 0 {
			continue
		}
		all = append(all, tokenEntry{t, int32(id)})
		if chars[id] = countPlainChars(t); chars[id] == 0 {
			rest = append(rest, tokenEntry{t, int32(id)})
		}
	}
	v.all, v.rest = newTokenTree(all), newTokenTree(rest)
	v.plain = make([]Mask, slices.Max(append(chars, 0))+1)
	for n := range v.plain {
		v.plain[n] = make(Mask, (v.size+63)/64)
		if n > 0 {
			copy(v.plain[n], v.plain[n-1])
		}
		for id, c := range chars {
			if c == n && n > 0 {
				v.plain[n].addToken(int32(id))
			}
		}
	}
}

// tokenEntry is a text that leads to a token.
type tokenEntry struct {
	text []byte
	id   int32
}

func newTokenTree(entries []tokenEntry) *tokenTree {
	slices.SortStableFunc(entries, func(a, b tokenEntry) int { return bytes.Compare(a.text, b.text) })
	v := &tokenTree{bytes: []byte{0}, below: []int32{0}, first: []int32{0}} // the root
	// nodes of the text before, from the root on
	open, last := []int32{0}, []byte(nil)
	for _, e := range entries {
		t, same := e.text, 0
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
		v.ids = append(v.ids, e.id)
		last = t
	}
	for _, n := range open {
		v.below[n] = int32(len(v.bytes))
	}
	v.first = append(v.first, int32(len(v.ids)))
	v.annotateSubtrees()
	return v
}

// tokenizeGreedily splits a text into tokens, each the longest that fits.
func (v *Vocabulary) tokenizeGreedily(text []byte) (ids []int32) {
	for len(text) > 0 {
		id, length := int32(-1), 0
		for i, node := 0, int32(0); i < len(text); i++ {
			if node = v.all.childNode(node, text[i]); node == 0 {
				break
			}
			if own := v.all.nodeTokens(node); len(own) > 0 {
				id, length = own[0], i+1
			}
		}
		if length == 0 {
			return nil // NewVocabulary has checked that each byte of a value has a token
		}
		ids, text = append(ids, id), text[length:]
	}
	return ids
}

// childNode returns the node after a byte; 0 if there is none.
func (v *tokenTree) childNode(node int32, b byte) int32 {
	for c := node + 1; c < v.below[node]; c = v.below[c] {
		if v.bytes[c] == b {
			return c
		}
	}
	return 0
}

func (v *tokenTree) nodeTokens(node int32) []int32 { return v.ids[v.first[node]:v.first[node+1]] }

func (v *tokenTree) subtreeTokens(node int32) []int32 {
	return v.ids[v.first[node]:v.first[v.below[node]]]
}
