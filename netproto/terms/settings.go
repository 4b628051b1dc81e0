package terms

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxTemperature is a temperature at which all tokens are about equally probable.
const MaxTemperature = 100

// MaxTop is the largest [Settings].Top.
const MaxTop = 20

// Settings determine how an answer is generated. Flags, requests and the sampler use this type; pilotfish.Settings has
// the same fields, and describes them. The zero value is greedy decoding up to an end token.
type Settings struct {
	MaxTokens int // maximum number of tokens to generate; 0: as many as fit into the context

	// The numbers of [Settings.Numbers], which has their ranges and units.
	Temperature, TopP, MinP                          float64
	TopK                                             int
	RepeatPenalty, PresencePenalty, FrequencyPenalty float64

	Seed      uint64            // of the random numbers: the same seed gives the same text
	LogitBias map[int32]float32 // added to the logits of tokens, -100 to 100

	Stop      []string // texts that end the answer where they occur
	IgnoreEnd bool     // continue after an end token

	LogProbs bool // report the log-probability of each token
	Top      int  // the same, and this many of the most probable tokens, 0 to [MaxTop]

	Schema   []byte // JSON schema that the answer follows
	JSON     bool   // the answer is any JSON object
	Complete bool   // complete the value in time, in the shortest way
	Closed   bool   // objects have only the properties of the schema
	Call     bool   // the value is a call of a tool, written as the model's chat template writes calls

	Lookup int  // maximum number of tokens in a forward pass, with guesses, 2 to 8; 0 means 8, negative 1
	Local  bool // nothing is sent to a cloud
}

// Number describes a number of [Settings]. Flags, fields of requests, their checks and the tables of the documentation
// are generated from it.
type Number struct {
	Name      string // in requests
	Flag      string // of the command line
	To        any    // *float64 or *int
	Low, High float64
	Off       float64 // a value without effect
	Drawn     bool    // it has an effect only with a temperature above 0
	Help      string
}

// Numbers returns the numbers of s.
func (s *Settings) Numbers() []Number {
	return []Number{
		{"temperature", "temp", &s.Temperature, 0, MaxTemperature, 0, false,
			"temperature; 0 always picks the most probable token"},
		{"top_k", "top-k", &s.TopK, 0, math.MaxInt32, 0, true,
			"sample only from the k most probable tokens; 0 means all"},
		{"top_p", "top-p", &s.TopP, 0, 1, 1, true,
			"sample only from the most probable tokens that together reach this probability"},
		{"min_p", "min-p", &s.MinP, 0, 1, 0, true,
			"sample only from tokens with at least this share of the most probable one's probability"},
		{"repeat_penalty", "repeat-penalty", &s.RepeatPenalty, 0, 10, 1, false,
			"divide the logits of the last 64 tokens by this, or multiply them if they are negative; 1: no penalty"},
		{"presence_penalty", "presence-penalty", &s.PresencePenalty, -2, 2, 0, false,
			"subtract this from the logits of tokens in the answer"},
		{"frequency_penalty", "frequency-penalty", &s.FrequencyPenalty, -2, 2, 0, false,
			"subtract this from the logits of tokens for each time they are in the answer"},
	}
}

// Range describes the valid values.
func (n Number) Range() string {
	if n.High == math.MaxInt32 {
		return fmt.Sprintf("%v or more", n.Low)
	}
	return fmt.Sprintf("%v to %v", n.Low, n.High)
}

// Value returns the current value.
func (n Number) Value() float64 {
	if to, ok := n.To.(*int); ok {
		return float64(*to)
	}
	return *n.To.(*float64)
}

// Validate returns an error for settings that are out of range, contradict each other or have no effect.
func (s Settings) Validate() error {
	for _, n := range s.Numbers() {
		if v := n.Value(); !(v >= n.Low && v <= n.High) {
			return fmt.Errorf("%s: %v is not possible: %s is", n.Name, v, n.Range())
		}
	}
	for id, b := range s.LogitBias {
		if !(b >= -100 && b <= 100) {
			return fmt.Errorf("logit bias: %v of token %d is not within -100 to 100", b, id)
		}
	}
	switch {
	case s.MaxTokens < 0:
		return fmt.Errorf("the maximum number of tokens must not be negative, but is %d", s.MaxTokens)
	case s.Top < 0 || s.Top > MaxTop:
		return fmt.Errorf("%d best tokens with each token are not possible: 0 to %d are", s.Top, MaxTop)
	case slices.Contains(s.Stop, ""):
		return errors.New("an empty stop string would stop before the first token: leave it out")
	case s.JSON && s.Schema != nil:
		return errors.New("JSON asks for any object, and a schema is given: choose one of them")
	case s.Call && s.Schema == nil:
		return errors.New("a call has a schema, and none is given: give that of its name and arguments")
	case s.Structured() && s.IgnoreEnd:
		return errors.New("a JSON value ends: the end token cannot be ignored with one")
	}
	return nil
}

// Sampling returns the part of the settings that a large model supports too.
func (s Settings) Sampling() Sampling { return Sampling{s.Temperature, s.TopK, s.TopP, s.Seed} }

// With returns the settings with another sampling.
func (s Settings) With(o Sampling) Settings {
	s.Temperature, s.TopK, s.TopP, s.Seed = o.Temperature, o.TopK, o.TopP, o.Seed
	return s
}

// Structured reports whether the answer is a JSON value.
func (s Settings) Structured() bool { return s.JSON || s.Schema != nil }

// Rules reports whether choices depend on more than the sampling: on MinP, penalties or bias.
func (s Settings) Rules() bool { return s.MinP > 0 && !s.Sampling().Greedy() || s.Adjusts() }

// Adjusts reports whether penalties or bias change logits.
func (s Settings) Adjusts() bool {
	return s.Repeats() || s.PresencePenalty != 0 || s.FrequencyPenalty != 0 || len(s.LogitBias) > 0
}

// Repeats reports whether RepeatPenalty has an effect.
func (s Settings) Repeats() bool { return s.RepeatPenalty != 0 && s.RepeatPenalty != 1 }
