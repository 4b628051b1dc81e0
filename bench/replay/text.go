package replay

import "github.com/pilotfish-ai/pilotfish/runtime/router"

// Texts are known by a hash of their tokens, of 64 bits, that grows token by token.

// empty is the hash of no tokens.
const empty uint64 = 0x70696c6f74666973

// then is the hash of a text with one token more.
func then(text uint64, token int32) uint64 { return router.Draw(text, uint64(uint32(token))) }

// hashOf is the hash of a text.
func hashOf(ids []int32) uint64 {
	h := empty
	for _, id := range ids {
		h = then(h, id)
	}
	return h
}

// pick is one of n things, the same for the same hash and purpose.
func pick(text, purpose uint64, n int) int { return int(router.Draw(text, purpose) % uint64(n)) }

// callKey names a forward call by the texts that it evaluates.
func callKey(rows int, text func(row int) uint64) uint64 {
	h := empty
	for i := range rows {
		h = router.Draw(h, text(i))
	}
	return h
}
