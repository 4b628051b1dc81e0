package netproto

import (
	"fmt"
	"math/bits"
)

// idBits returns the number of bits of an id of a vocabulary: ⌈log₂ vocab⌉, at least 1.
func idBits(vocab int) int { return max(bits.Len(uint(vocab-1)), 1) }

// packedSize returns the number of bytes of n ids of w bits.
func packedSize(n, w int) int { return (n*w + 7) / 8 }

// packIDs appends ids of w bits each, the first in the lowest bits of the first byte.
func packIDs(b []byte, ids []int32, w int) []byte {
	acc, have := uint64(0), 0
	for _, id := range ids {
		acc |= uint64(id) << have
		for have += w; have >= 8; have -= 8 {
			b = append(b, byte(acc))
			acc >>= 8
		}
	}
	if have > 0 {
		b = append(b, byte(acc))
	}
	return b
}

func unpackIDs(b []byte, n, w, vocab int) ([]int32, error) {
	if len(b) != packedSize(n, w) {
		return nil, fmt.Errorf("%d bytes for %d ids of %d bits: %w", len(b), n, w, ErrValue)
	}
	ids := make([]int32, n)
	acc, have := uint64(0), 0
	for i := range ids {
		for ; have < w; have += 8 {
			acc |= uint64(b[0]) << have
			b = b[1:]
		}
		id := acc & (1<<w - 1)
		if id >= uint64(vocab) {
			return nil, fmt.Errorf("id %d in a vocabulary of %d: %w", id, vocab, ErrValue)
		}
		ids[i] = int32(id)
		acc, have = acc>>w, have-w
	}
	if acc != 0 {
		return nil, fmt.Errorf("bits after the last id: %w", ErrValue)
	}
	return ids, nil
}

// idBytes returns the number of bytes of an id in formats where ids do not share bytes, as for zstd.
func idBytes(vocab int) int { return (idBits(vocab) + 7) / 8 }

// appendFixedIDs appends ids of size bytes each, little endian.
func appendFixedIDs(b []byte, ids []int32, size int) []byte {
	for _, id := range ids {
		for s := range size {
			b = append(b, byte(id>>(8*s)))
		}
	}
	return b
}

// parseFixedIDs is the inverse of appendFixedIDs for n ids of at most 3 bytes: see [MaxVocab].
func parseFixedIDs(b []byte, n, size, vocab int) ([]int32, error) {
	if len(b) != n*size {
		return nil, fmt.Errorf("%d bytes for %d ids of %d bytes: %w", len(b), n, size, ErrValue)
	}
	ids := make([]int32, n)
	for i := range ids {
		for s := range size {
			ids[i] |= int32(b[i*size+s]) << (8 * s)
		}
		if int(ids[i]) >= vocab {
			return nil, fmt.Errorf("id %d in a vocabulary of %d: %w", ids[i], vocab, ErrValue)
		}
	}
	return ids, nil
}
