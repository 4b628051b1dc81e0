// Package terms has the values in which edge and cloud speak of tokens. The wire (netproto), decoding (runtime/draft) and
// the large model as a service (runtime/batch) mean the same by them, so they share the types, and nobody converts. The
// package knows none of the three.
package terms

// Candidate is a token that could follow, and how probable it is.
type Candidate struct {
	ID      int32
	LogProb float32 // natural logarithm of its probability, before temperature
}
