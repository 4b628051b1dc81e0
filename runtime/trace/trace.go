// Package trace stores what two models computed along the same texts: files that a router learns from.
//
// A folder holds manifest.json, with all that determines the content ([Settings]), and shards: shard-00000.trace,
// shard-00001.trace and so on. Each shard has the same number of prompts, except the last. The same settings give the
// same bytes.
//
// All numbers of a shard are little-endian. Each section begins at a multiple of 64 bytes; the bytes between are zero.
// With n prompts, m positions, R label rules and hidden states of width D the sections are, in this order:
//
//	header           64 bytes  see below
//	manifest         u8[32]    SHA-256 of manifest.json
//	prompt           u32[n,8]  tokens of the prompt; positions; flags (1: the text was cut, 2: the prompt was left
//	                           out, 4: the answer is right, 8: it is wrong; neither: unknown); tokens that the
//	                           large model chose as the text was decoded; texts continued for its labels, and
//	                           their tokens; 0; 0
//	reference        i32[m]    the token that stands in the text
//	small            i32[m]    the small model's greedy choice
//	large            i32[m]    the large model's
//	margin           f32[m]    p₁ - p₂ of the small model's two best tokens
//	entropy          f32[m]    of the small model's next token, in nats
//	small_logprob    f32[m]    natural logarithm of the small model's probability of its choice
//	large_logprob    f32[m]    the large model's of its own; NaN if a gateway did not report it
//	reference_small  f32[m]    the small model's of the token that stands
//	reference_large  f32[m]    the large model's of it; NaN if a gateway did not report it
//	label            u8[m]     one section for each rule: 0 unknown, 1 keep, 2 escalate, 3 spoil
//	hidden           f16[m,D]  the small model's state at the tap point
//	checksum         u8[32]    SHA-256 of all bytes before
//
// The header is the magic "PFTRACE" and a zero byte; then as u32 the version, 1; number of the shard; number of its
// first prompt; n; m; D; R; type of hidden, 1 for IEEE 754 halves; and 24 bytes of zeros.
//
// Position j of a prompt with t tokens is the token t+j of its text. All numbers of that position come from the forward
// pass over the tokens before it: the input of a router when it decides about that token.
package trace

import (
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// maxRules is the maximum number of label rules of a set.
const maxRules = 8

// maxWidth is the maximum width of hidden states, and maxPositions the maximum number of positions in a shard.
const (
	maxWidth     = 1 << 16
	maxPositions = math.MaxInt32
	maxPrompts   = 1 << 20
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
	Positions []Position // Prompt and Pos of each follow from its index
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

// Causes of a [FormatError], for errors.Is. A file that ends too early has the cause io.ErrUnexpectedEOF.
var (
	ErrMagic      = errors.New("not a file of traces")
	ErrVersion    = errors.New("made by another version of the format: this one reads 1")
	ErrChecksum   = errors.New("it is damaged: remove it, and collect again into the same folder, which makes it anew")
	ErrManifest   = errors.New("made with other settings than manifest.json says: remove it, and collect again")
	ErrValue      = errors.New("no such value is possible")
	ErrIncomplete = errors.New("not all traces are there: run the same command again, which goes on where it stopped")
)

// FormatError is the error of a file that cannot be read, or that does not belong to its set.
type FormatError struct {
	Path  string
	Field string // a name of the package's layout
	Err   error
}

// Error implements error.
func (e *FormatError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Path, e.Field, e.Err) }

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }
