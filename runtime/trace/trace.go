// Package trace stores what two models computed along the same texts: files that a router learns from.
//
// A file begins with a line of JSON, all that determines the content ([Settings]). One record for each prompt follows,
// in order. All numbers are little-endian. With m positions and hidden states of width D, a record is:
//
//	prompt     u32[6]   tokens of the prompt; positions; flags (1: the text is cut, 2: the prompt was left out, 4: the
//	                    answer is right, 8: it is wrong; neither: unknown); tokens that the large model chose as the
//	                    text was decoded; texts continued for its labels, and their tokens
//	positions  [m]      52 bytes each, the fields of [Position]: i32[5], f32[6], and u8[8], the labels by rule
//	hidden     f16[m,D] the state of a model at the tap point
//	checksum   u32      CRC-32 (IEEE) of the line and all records up to this one, without their checksums
//
// The same settings give the same bytes. A file of a run that was stopped ends early, and perhaps within a record.
//
// The positions of a prompt are tokens of its text, ascending: all after the prompt, or those that were labelled. All
// numbers of a position come from the forward pass over the tokens before it: the input of a router when it decides
// about that token. With a tap point of the large model, margin and entropy are about that model: see
// [Settings.Tap].
package trace

import (
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// maxRules is the maximum number of label rules of a set, and maxWidth the maximum width of hidden states.
const (
	maxRules = 8
	maxWidth = 1 << 16
)

// Verdict is a label: the verdict of a rule on the small model's choice at a position.
type Verdict uint8

// The verdicts.
const (
	Unknown  Verdict = iota // the rule does not say
	Keep                    // it may stand
	Escalate                // the large model is to be asked
	Spoil                   // it may stand, and the large model's choice would make a right answer wrong
)

// Position is one token of a text after its prompt, with the outputs of the models for the tokens before it.
type Position struct {
	Prompt int32 // number of the prompt in its set
	Pos    int32 // of the token in the whole text, prompt included

	Reference, Small, Large int32 // the token that stands there; the greedy choice of each model

	Margin, Entropy float32 // of the small model: p₁ - p₂ of its two best tokens; nats

	// natural logarithms of the probability that each model gives its own choice, and the token that stands; NaN for a
	// large model behind a gateway that did not report it
	SmallLogProb, LargeLogProb     float32
	ReferenceSmall, ReferenceLarge float32

	Labels [maxRules]Verdict // by the rules of [Settings.Labels]
}

// Prompt describes one text as a whole.
type Prompt struct {
	Tokens  int  // of the prompt: the position of the first token after it
	Cut     bool // the text was longer than the models' context
	LeftOut bool // the prompt left no room for an answer: it has no positions
	Graded  bool // the answer was graded
	Right   bool // and is right

	Cloud         int // tokens of a text decoded with both models that the large one chose
	Rollouts      int // texts continued to find labels
	RolloutTokens int // tokens of these
}

// Text is a prompt with its positions, as they are written.
type Text struct {
	Prompt
	Positions []Position // ascending by Pos, from Tokens on; Prompt is that of the record
	Hidden    []uint16   // [len(Positions), width] halves, see [AppendHalves]
}

// AppendHalves appends x as IEEE 754 halves, rounded to nearest, ties to even. Values beyond ±65504 become ±65504.
// Infinities and NaN are an error.
func AppendHalves(to []uint16, x []float32) ([]uint16, error) {
	for i, v := range x {
		if v != v || math.IsInf(float64(v), 0) {
			return to, fmt.Errorf("element %d of a hidden state is %v", i, v)
		}
		to = append(to, gguf.F32ToF16(min(max(v, -65504), 65504)))
	}
	return to, nil
}

// Causes of errors about a file, for errors.Is.
var (
	ErrFormat     = errors.New("not a file of traces")
	ErrVersion    = errors.New("made by another version of the format: this one reads 2")
	ErrChecksum   = errors.New("it is damaged: remove it, and collect again")
	ErrValue      = errors.New("no such value is possible")
	ErrIncomplete = errors.New("not all traces are there: run the same command again, which goes on where it stopped")
)
