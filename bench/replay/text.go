package replay

import "github.com/pilotfish-ai/pilotfish/runtime/router"

// Texts are identified by a 64-bit hash of their tokens, computed token by token.

// empty is the hash of no tokens.
const empty uint64 = 0x70696c6f74666973

// then returns the hash of a text extended by a token.
func then(text uint64, token int32) uint64 { return router.Draw(text, uint64(uint32(token))) }

// hashOf returns the hash of a text.
func hashOf(ids []int32) uint64 {
	h := empty
	for _, id := range ids {
		h = then(h, id)
	}
	return h
}

// pick chooses one of n items, the same for the same hash and purpose.
func pick(text, purpose uint64, n int) int { return int(router.Draw(text, purpose) % uint64(n)) }

// callKey identifies a forward pass by the texts that it evaluates.
func callKey(rows int, text func(row int) uint64) uint64 {
	h := empty
	for i := range rows {
		h = router.Draw(h, text(i))
	}
	return h
}
