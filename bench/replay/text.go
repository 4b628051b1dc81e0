package replay

import "github.com/pilotfish-ai/pilotfish/runtime/router"

// Texts are identified by a 64-bit hash of their tokens, computed token by token.

// emptyHash is the hash of no tokens.
const emptyHash uint64 = 0x70696c6f74666973

func extendHash(text uint64, token int32) uint64 { return router.Draw(text, uint64(uint32(token))) }

func hashTokens(ids []int32) uint64 {
	h := emptyHash
	for _, id := range ids {
		h = extendHash(h, id)
	}
	return h
}
