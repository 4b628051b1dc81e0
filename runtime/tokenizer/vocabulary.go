package tokenizer

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// vocabulary holds the tokens by id, in the file's spelling, and the map from a spelling to its id. The spellings are
// in one slice: 150,000 tokens need a handful of allocations.
type vocabulary struct {
	text  []byte
	ends  []uint32 // of the spelling of each token, in text
	kinds []tokenKind
	seed  maphash.Seed
	slots []slot // open addressing, linear probing; a power of two, at most two thirds full
}

// slot is a hash and an id, plus one: zero is an empty slot.
type slot struct{ hash, id uint32 }

func newVocabulary(tokens gguf.StringArray) (vocabulary, error) {
	n := tokens.Len()
	v := vocabulary{seed: maphash.MakeSeed()}
	if n == 0 {
		return v, fmt.Errorf("no token: %w", ErrVocabulary)
	}
	if n > math.MaxInt32 {
		return v, fmt.Errorf("%d tokens: %w", n, ErrVocabulary)
	}
	v.ends = make([]uint32, 0, n)
	v.text = make([]byte, 0, 8*n)
	v.slots = make([]slot, hashTableSize(n))
	for id, text := range tokens.All() {
		if len(text) == 0 {
			text = fmt.Appendf(nil, "[EMPTY_%d]", id) // as llama.cpp calls it
		}
		if uint64(len(v.text))+uint64(len(text)) > math.MaxUint32 {
			return v, fmt.Errorf("more than 4 GiB of text: %w", ErrVocabulary)
		}
		v.text = append(v.text, text...)
		v.ends = append(v.ends, uint32(len(v.text)))
		if twin := v.insertToken(text, uint32(id)); twin >= 0 {
			return v, fmt.Errorf("%s has the ids %d and %d: %w", errs.Quote(text), twin, id, ErrVocabulary)
		}
	}
	return v, nil
}

func hashTableSize(n int) int { return 1 << bits.Len(uint(n+n/2)) }

func (v *vocabulary) tokenCount() int { return len(v.ends) }

// hasKind reports whether token id is of one of the kinds; it is false for ids outside the vocabulary.
func (v *vocabulary) hasKind(id int32, of tokenKind) bool {
	return id >= 0 && int(id) < len(v.kinds) && v.kinds[id]&of != 0
}

// tokenSpelling returns the spelling of token id, which must exist. It aliases v.
func (v *vocabulary) tokenSpelling(id int32) []byte {
	var start uint32
	if id > 0 {
		start = v.ends[id-1]
	}
	return v.text[start:v.ends[id]:v.ends[id]]
}

func (v *vocabulary) lookupToken(text []byte) int32 {
	h := maphash.Bytes(v.seed, text)
	for i := int(h) & (len(v.slots) - 1); ; i = (i + 1) & (len(v.slots) - 1) {
		s := v.slots[i]
		if s.id == 0 {
			return -1
		}
		if s.hash == uint32(h>>32) && bytes.Equal(v.tokenSpelling(int32(s.id-1)), text) {
			return int32(s.id - 1)
		}
	}
}

// insertToken adds the token id, spelled text, and returns -1. If another id has this spelling already, it returns that
// id.
func (v *vocabulary) insertToken(text []byte, id uint32) (twin int32) {
	h := maphash.Bytes(v.seed, text)
	for i := int(h) & (len(v.slots) - 1); ; i = (i + 1) & (len(v.slots) - 1) {
		s := v.slots[i]
		if s.id == 0 {
			v.slots[i] = slot{uint32(h >> 32), id + 1}
			return -1
		}
		if s.hash == uint32(h>>32) && bytes.Equal(v.tokenSpelling(int32(s.id-1)), text) {
			return int32(s.id - 1)
		}
	}
}

// tokenKind is a set of kinds of a token: llama.cpp treats some ordinary tokens as control tokens as well.
type tokenKind uint8

const (
	normal      tokenKind = 1 << iota // bytes in the alphabet of the file
	unknown                           // for text outside the vocabulary; treated as control
	control                           // no text
	userDefined                       // plain text, recognised as a whole in any text
	unused                            // padding
	rawByte                           // spelled <0xNN>
	end                               // a generation ends here
)

// kindOf maps the numbers of tokenizer.ggml.token_type. A token of undefined type is in the vocabulary and has no kind.
var kindOf = [...]tokenKind{0: 0, 1: normal, 2: unknown, 3: control, 4: userDefined, 5: unused, 6: rawByte}

// newTokenKinds reads the types of n tokens. Without types every token is normal.
func newTokenKinds(types []int64, n int) ([]tokenKind, error) {
	kinds := make([]tokenKind, n)
	if types == nil {
		for i := range kinds {
			kinds[i] = normal
		}
		return kinds, nil
	}
	if len(types) != n {
		return nil, fmt.Errorf("%d types for %d tokens: %w", len(types), n, ErrVocabulary)
	}
	for i, v := range types {
		if v < 0 || v >= int64(len(kindOf)) {
			return nil, fmt.Errorf("type %d of token %d: %w", v, i, ErrVocabulary)
		}
		kinds[i] = kindOf[v]
	}
	return kinds, nil
}
