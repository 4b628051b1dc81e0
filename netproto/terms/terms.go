// Package terms has the settings of an answer, which all layers use, and the types that edge and cloud exchange:
// questions and answers, sampling, probabilities, findings of an audit, times. The wire format (netproto), decoding
// (runtime/draft) and the large model as a service (runtime/batch) share these types, so that no conversions are
// needed. The package imports none of the three.
package terms

import (
	"fmt"
	"math"
	"time"
)

// Sampling determines how the small and the large model choose a token. The zero value is greedy.
type Sampling struct {
	Temperature float64 // logits are divided by it; 0 means greedy, and the other options then have no effect
	TopK        int     // only the k most probable tokens can be chosen; 0 means all
	TopP        float64 // only the most probable tokens with this total probability, in (0, 1]; 0 means all
	Seed        uint64  // of the noise, which is a function of seed, position and token
}

// Validate returns an error for a value that is out of range.
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

// Greedy reports whether the most probable token is always chosen, so that no logits are needed.
func (s Sampling) Greedy() bool { return s.Temperature == 0 || s.TopK == 1 }

// Possible reports whether a model that returns only its choices most probable tokens can choose a token in this way;
// 0: all.
func (s Sampling) Possible(choices int) bool {
	return choices == 0 || s.Greedy() || s.TopK >= 1 && s.TopK <= choices
}

// Candidate is a token with its probability.
type Candidate struct {
	ID      int32
	LogProb float32 // natural logarithm of its probability, before temperature
}

// Finding is a position of a text at which the large model would have chosen another token.
type Finding struct {
	Pos     int     // from the beginning of the text
	Token   int32   // the large model's choice
	LogProb float32 // of that choice, natural logarithm; before temperature
	// The values that decided the choice, for Token and for the token in the text; only if [Verify.Scored]. Greedy:
	// log-probabilities. Otherwise log-probabilities divided by the temperature plus the noise of the position, and
	// -Inf for a token that cannot be chosen. Neither is NaN; Score is finite and not less than Stands.
	Score, Stands float32
}

// Verify is a kind of audit: how the tokens of a context, from a position on, are compared with the choices of the
// large model.
type Verify uint8

// The kinds. Their numbers are used on the wire and in recordings.
const (
	AsItComes  Verify = iota // with the most probable tokens, for as many positions as cost nothing extra
	EachChoice               // each token, with the one that [Sampling] chooses there
	EachScore                // the same, with the scores of both tokens in findings
	// EachJudged is EachScore by a judge beside the large model, which says with what probability the token in the text
	// may stand: Stands is below Score by the negative logarithm of that.
	EachJudged
)

// Scored reports whether findings have scores.
func (v Verify) Scored() bool { return v == EachScore || v == EachJudged }

// Times has the times of a question and its answer, on the clock of this machine.
type Times struct {
	Left, Arrived  time.Time     // the question was sent, and its answer arrived
	Received, Sent time.Time     // the cloud received the question, and sent its answer
	Within         time.Duration // maximum error of Received and Sent, in either direction
}
