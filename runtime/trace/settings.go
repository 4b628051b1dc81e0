package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// maxLine is the maximum size of the line of settings in bytes.
const maxLine = 1 << 20

// format and version identify the format.
const format, version = "pilotfish-trace", 2

// Model identifies a model.
type Model struct {
	Fingerprint string `json:"fingerprint,omitempty"` // see [gguf.File.Fingerprint]; "" for a model behind a gateway
	Name        string `json:"name,omitempty"`        // for people: general.name, or what the gateway says
	Context     int    `json:"context,omitempty"`     // longest text in tokens; 0: unknown
	Compute     string `json:"compute,omitempty"`     // how it was run, if not by default: "kv f32"
}

// Sampling says how an answer was drawn, in the form of the file: the two settings in which sampled traces differ.
// It is part of the format, and not terms.Sampling, which may get more fields.
type Sampling struct {
	Temperature float64 `json:"temperature"`
	Seed        uint64  `json:"seed"` // of the noise, mixed with the number of each prompt
}

// Routing identifies the router with which a text was decoded.
type Routing struct {
	Router    string  `json:"router"`    // SHA-256 of its file, in hexadecimal digits
	Threshold float64 `json:"threshold"` // of confidence
}

// Settings determine the content of a set of traces. Two sets with the same settings are the same to the last byte on
// the same machine.
type Settings struct {
	// where hidden states are taken; with router.TapMismatch, the margin of a position is p(Small) / p(Large) under the
	// large model, and the entropy is that of the large model
	Tap   string `json:"tap"`
	Width int    `json:"width"` // of the hidden states
	Small Model  `json:"small"`
	Large Model  `json:"large"`

	Data    string `json:"data"`            // SHA-256 of the file with the prompts, in hexadecimal digits
	Task    string `json:"task,omitempty"`  // name and version of the task that formats them
	Shots   int    `json:"shots,omitempty"` // worked examples before each
	Prompts int    `json:"prompts"`         // in the set
	Raw     bool   `json:"raw,omitempty"`   // prompts stand without the chat template

	Reference string    `json:"reference"` // source of the answers: given, large, sampled or routed
	MaxTokens int       `json:"max_tokens"`
	Sampling  *Sampling `json:"sampling,omitempty"` // of sampled answers
	Routing   *Routing  `json:"routing,omitempty"`  // of routed ones

	Labels []string `json:"labels"` // names of the rules
}

// header is the line.
type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Settings
}

// Rule returns the index of a label rule in [Position.Labels], -1 if the set does not have it.
func (s *Settings) Rule(name string) int { return slices.Index(s.Labels, name) }

func (s *Settings) validateLimits() error {
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"width", s.Width, 1, maxWidth}, {"prompts", s.Prompts, 1, math.MaxInt32},
		{"max_tokens", s.MaxTokens, 1, math.MaxInt32}, {"number of labels", len(s.Labels), 0, maxRules},
	} {
		if f.value < f.low || f.value > f.high {
			return fmt.Errorf("%s: %d, not within %d to %d: %w", f.name, f.value, f.low, f.high, ErrValue)
		}
	}
	return nil
}

func (s *Settings) encodeHeader() ([]byte, error) {
	b, err := json.Marshal(header{format, version, *s})
	if err == nil && len(b) >= maxLine {
		err = fmt.Errorf("the settings take %d bytes: %w", len(b), ErrValue)
	}
	return append(b, '\n'), err
}

func parseSettings(line []byte) (*Settings, error) {
	var h header
	switch err := json.Unmarshal(line, &h); {
	case err != nil || h.Format != format:
		return nil, ErrFormat
	case h.Version != version:
		return nil, fmt.Errorf("version %d: %w", h.Version, ErrVersion)
	}
	return &h.Settings, h.validateLimits()
}
