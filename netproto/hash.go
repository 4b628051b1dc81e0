package netproto

// Hash identifies a path of tokens, as a base of an ask. For the tokens t₀, t₁, … it is
//
//	h₀ = RootHash,  hᵢ₊₁ = m(hᵢ + 0x9e3779b97f4a7c15 · (tᵢ + 1))  mod 2⁶⁴
//
// where m(x) is x ^= x>>30; x *= 0xbf58476d1ce4e5b9; x ^= x>>27; x *= 0x94d049bb133111eb; x ^= x>>31. Both factors are
// odd, so each step is a bijection of the state and of the token: paths that differ only in their last token never
// collide, others with a probability of 2⁻⁶⁴. The hash does not resist deliberate collisions: a client that produces
// one only confuses its own session.
type Hash uint64

// RootHash is the hash of the empty path ("pilotfsh" in ASCII).
const RootHash Hash = 0x70696c6f74667368

// Next returns the hash of the path extended by a token.
func (h Hash) Next(token int32) Hash {
	x := uint64(h) + 0x9e3779b97f4a7c15*(uint64(uint32(token))+1)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return Hash(x ^ x>>31)
}

// Over returns the hash of the path extended by several tokens.
func (h Hash) Over(tokens []int32) Hash {
	for _, t := range tokens {
		h = h.Next(t)
	}
	return h
}
