// Package terms has the settings of an answer, which all layers use, and the values in which edge and cloud speak: what
// a device asks and is answered, how a token is chosen, how probable it is, where the large model would have chosen
// another, when an answer was where. The wire (netproto), decoding (runtime/draft) and the large model as a service
// (runtime/batch) mean the same by them, so they share the types, without conversions. The package knows none of the
// three.
package terms

import (
	"fmt"
	"math"
	"time"
)

// Sampling says how a token is chosen, by the small model and by the large one. The zero value is greedy.
type Sampling struct {
	Temperature float64 // logits are divided by it; 0 means greedy, and the other options then have no effect
	TopK        int     // only the k most probable tokens can be drawn; 0 means all
	TopP        float64 // only the fewest most probable tokens that together reach this share, in (0, 1]; 0 means all
	Seed        uint64  // of the noise, which is a function of seed, position and token
}

// Validate reports a value that is out of range.
func (s Sampling) Validate() error {
	switch {
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 1):
		return fmt.Errorf("temperature: %v is not a number of at least 0", s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("top-k: %d is negative", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("top-p: %v is not within 0 to 1", s.TopP)
	}
	return nil
}

// Greedy reports whether the best token is always taken, so that no logits are needed.
func (s Sampling) Greedy() bool { return s.Temperature == 0 || s.TopK == 1 }

// Possible reports whether a token can be chosen in this way by a model that gives only its choices most probable
// tokens; 0: all.
func (s Sampling) Possible(choices int) bool {
	return choices == 0 || s.Greedy() || s.TopK >= 1 && s.TopK <= choices
}

// Candidate is a token that could follow, and how probable it is.
type Candidate struct {
	ID      int32
	LogProb float32 // natural logarithm of its probability, before temperature
}

// Finding is a position of a text at which the large model would have chosen another token than stands there.
type Finding struct {
	Pos     int     // from the beginning of the text
	Token   int32   // the large model's choice
	LogProb float32 // of that choice, natural logarithm; before temperature
	// What the choice was made by, of Token and of the token that stands there; with [EachScore] alone. Greedy:
	// log-probabilities. Else those divided by the temperature plus the noise of the position, and -Inf for a token
	// that cannot be drawn. Neither is NaN, Score is finite and not less than Stands.
	Score, Stands float32
}

// Verify says what an audit has to be: how the tokens of a context, from a position on, are compared with what the
// large model would have chosen.
type Verify uint8

// The kinds. They are numbers on the wire and in recordings.
const (
	AsItComes  Verify = iota // with the most probable tokens, as far back as costs nothing
	EachChoice               // each token, with the one that [Sampling] chooses there
	EachScore                // the same, and findings say by how much the choice is the better one
)

// Times say when a question and its answer were where, on the clock of this machine.
type Times struct {
	Left, Arrived  time.Time     // the question left, and its answer came
	Received, Sent time.Time     // the cloud had the question, and its answer left
	Within         time.Duration // Received and Sent are true within this, in either direction
}
