package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// manifestName is the file with the settings of a set.
const manifestName = "manifest.json"

// maxManifest is the maximum size of a manifest in bytes.
const maxManifest = 1 << 20

// format and version identify the manifest's format.
const format, version = "pilotfish-trace", 1

// Model identifies a model.
type Model struct {
	Fingerprint string `json:"fingerprint,omitempty"` // see [gguf.File.Fingerprint]; "" for a model behind a gateway
	Name        string `json:"name,omitempty"`        // for people: general.name, or what the gateway says
	Context     int    `json:"context,omitempty"`     // longest text in tokens; 0: unknown
	Compute     string `json:"compute,omitempty"`     // how it was run, if not by default: "kv f32"
}

// Sampling says how an answer was drawn, in the form of the manifest: the two settings in which sampled traces differ.
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
	Tap   string `json:"tap"`   // where hidden states are taken
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

	Labels   []string `json:"labels"`              // names of the rules
	Sentence int      `json:"sentence,omitempty"`  // maximum tokens of a sentence that a rule has continued
	Collapse bool     `json:"collapses,omitempty"` // rules that may differ agree here: see docs/traces.md

	ShardPrompts int `json:"shard_prompts"` // prompts of a shard
}

// manifest is the file.
type manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Settings
}

// Shards returns the number of shards of the set.
func (s *Settings) Shards() int { return (s.Prompts + s.ShardPrompts - 1) / s.ShardPrompts }

// ShardRange returns the prompts of a shard: from first up to, not including, end.
func (s *Settings) ShardRange(shard int) (first, end int) {
	first = shard * s.ShardPrompts
	return first, min(first+s.ShardPrompts, s.Prompts)
}

// Rule returns the index of a label rule in [Position.Labels], -1 if the set does not have it.
func (s *Settings) Rule(name string) int {
	for i, l := range s.Labels {
		if l == name {
			return i
		}
	}
	return -1
}

// validate refuses settings that no set can have.
func (s *Settings) validate() error {
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"width", s.Width, maxWidth}, {"prompts", s.Prompts, math.MaxInt32},
		{"shard_prompts", s.ShardPrompts, maxPrompts}, {"max_tokens", s.MaxTokens, math.MaxInt32},
	} {
		if f.value < 1 || f.value > f.most {
			return &FormatError{
				manifestName, f.name, fmt.Errorf("%d, not within 1 to %d: %w", f.value, f.most, ErrValue),
			}
		}
	}
	if n := len(s.Labels); n > maxRules {
		return &FormatError{manifestName, "labels", fmt.Errorf("%d rules, at most %d: %w", n, maxRules, ErrValue)}
	}
	return nil
}

// encode returns the bytes of the manifest.
func (s *Settings) encode() ([]byte, error) {
	b, err := json.MarshalIndent(manifest{format, version, *s}, "", "  ")
	return append(b, '\n'), err
}

// parseManifest reads the bytes of a manifest.
func parseManifest(b []byte) (*Settings, error) {
	var m manifest
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&m); err != nil {
		return nil, &FormatError{manifestName, "JSON", err}
	}
	switch {
	case m.Format != format:
		return nil, &FormatError{manifestName, "format", ErrMagic}
	case m.Version != version:
		return nil, &FormatError{manifestName, "version", fmt.Errorf("%d: %w", m.Version, ErrVersion)}
	}
	return &m.Settings, m.validate()
}

// readManifest returns the settings of a folder and the SHA-256 of the file.
func readManifest(dir string) (*Settings, [32]byte, error) {
	f, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, [32]byte{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(b) > maxManifest {
		err = fmt.Errorf("longer than 1 MB: %w", ErrMagic)
	}
	var s *Settings
	if err == nil {
		s, err = parseManifest(b)
	}
	if e, ok := errors.AsType[*FormatError](err); ok {
		e.Path = f.Name()
	} else if err != nil {
		err = fmt.Errorf("%s: %w", f.Name(), err)
	}
	return s, sha256.Sum256(b), err
}

// differs returns the name in the manifest of the first setting in which two sets differ, with both values; "" if none.
func differs(there, here any, prefix string) string {
	a, b := reflect.ValueOf(there), reflect.ValueOf(here)
	for i := range a.NumField() {
		name := prefix + tagName(a.Type().Field(i))
		x, y := a.Field(i), b.Field(i)
		if x.Kind() == reflect.Pointer && !x.IsNil() && !y.IsNil() {
			x, y = x.Elem(), y.Elem()
		}
		if x.Kind() == reflect.Struct {
			if d := differs(x.Interface(), y.Interface(), name+"."); d != "" {
				return d
			}
		} else if !reflect.DeepEqual(x.Interface(), y.Interface()) {
			return fmt.Sprintf("%s was %s and is now %s", name, shown(x), shown(y))
		}
	}
	return ""
}

// tagName returns the name of a field in the manifest.
func tagName(f reflect.StructField) string {
	name := f.Tag.Get("json")
	for i, c := range name {
		if c == ',' {
			return name[:i]
		}
	}
	return name
}

// shown returns the form of a setting in an error.
func shown(v reflect.Value) string {
	b, err := json.Marshal(v.Interface())
	if err != nil { // a setting that is no JSON would not have been written
		return err.Error()
	}
	if len(b) > errs.Most {
		return errs.Quote(b)
	}
	return string(b)
}

// hexOf returns a sum in hexadecimal digits.
func hexOf(sum [32]byte) string { return hex.EncodeToString(sum[:]) }
