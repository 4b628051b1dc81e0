package replay

import "github.com/pilotfish-ai/pilotfish/runtime/router"

// Texts are identified by a 64-bit hash of their tokens, computed token by token.

// empty is the hash of no tokens.
const empty uint64 = 0x70696c6f74666973

// then returns the hash of a text extended by a token.
func then(text uint64, token int32) uint64 { return router.Draw(text, uint64(uint32(token))) }

func hashOf(ids []int32) uint64 {
	h := empty
	for _, id := range ids {
		h = then(h, id)
	}
	return h
}
