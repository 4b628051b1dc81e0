package request

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// Own is what this server says of a whole answer beyond OpenAI's API.
type Own struct {
	Seed uint64 `json:"seed"` // of the draws, with which the same request gets the same answer
	// keywords of schemas that have no effect: where the schema stands in the request, and the path in it
	Ignored []string     `json:"ignored,omitempty"`
	Sent    *answer.Sent `json:"receipt,omitempty"` // of the whole request so far; with the end of an answer
}

// Own returns it at the beginning of an answer.
func (r *Request) Own() *Own { return &Own{Seed: r.Settings.Seed, Ignored: r.ignored} }

// Ended returns it with the end of an answer.
func (r *Request) Ended(sent answer.Sent) *Own {
	e := r.Own()
	e.Sent = &sent
	return e
}

// Origins is what this server says of one choice beyond OpenAI's API.
type Origins struct {
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

// Origins returns where tokens are from, if that is wanted.
func (r *Request) Origins(tokens []answer.Token) *Origins {
	if !r.WantOrigins {
		return nil
	}
	o := new(Origins)
	for _, t := range tokens {
		o.Tokens = append(o.Tokens, provenance{t.ID, t.Text, t.Origin, round(t.Confidence), t.Unverified,
			float64(t.At.Microseconds()) / 1000})
	}
	return o
}

// round keeps six digits after the point.
func round(x float64) float64 { return math.Round(x*1e6) / 1e6 }
