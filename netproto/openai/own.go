package openai

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// extension is what is told beyond OpenAI's API, of a whole answer.
type extension struct {
	Seed uint64 `json:"seed"` // of the draws, with which the same request gets the same answer
	// keywords of schemas that have no effect: where the schema stands in the request, and the path in it
	Ignored []string     `json:"ignored,omitempty"`
	Sent    *answer.Sent `json:"receipt,omitempty"` // of the whole request so far; with the end of an answer
}

func (r *request) extension() *extension {
	return &extension{Seed: r.settings.Seed, Ignored: r.ignored}
}

// ended is the extension with the end of an answer.
func (r *request) ended(sent answer.Sent) *extension {
	e := r.extension()
	e.Sent = &sent
	return e
}

// origins is what is told beyond OpenAI's API of one choice.
type origins struct {
	Tokens    []provenance `json:"tokens,omitempty"`    // where they are from, if that is wanted
	Shortened bool         `json:"shortened,omitempty"` // a value was ended by pilotfish.complete
}

// provenance says where a token is from.
type provenance struct {
	ID         int32   `json:"id"`
	Text       string  `json:"text"`
	Origin     string  `json:"origin"`
	Confidence float64 `json:"confidence"`
	Unverified bool    `json:"unverified,omitempty"`
	At         float64 `json:"ms"` // since the answer began
}

// origins returns where tokens are from, if that is wanted.
func (r *request) originsOf(tokens []answer.Token) *origins {
	if !r.origins {
		return nil
	}
	o := new(origins)
	for _, t := range tokens {
		o.Tokens = append(o.Tokens, provenance{t.ID, t.Text, t.Origin, round(t.Confidence), t.Unverified,
			float64(t.At.Microseconds()) / 1000})
	}
	return o
}

// round keeps six digits behind the point.
func round(x float64) float64 { return math.Round(x*1e6) / 1e6 }
