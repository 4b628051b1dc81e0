package request

import (
	"math"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Own has this server's additions to the response as a whole.
type Own struct {
	Seed uint64 `json:"seed"` // of the sampling; the same request with this seed gets the same answer
	// keywords of schemas without effect: the schema's place in the request, and the path in it
	Ignored []string `json:"ignored,omitempty"`
	Sent    *Receipt `json:"receipt,omitempty"` // of the whole request so far; at the end of an answer
}

// Receipt is what left this device for a request.
type Receipt struct {
	Tokens int    `json:"tokens"` // of texts; a token counts each time it is sent
	Bytes  int    `json:"bytes"`  // of the messages, before encryption
	To     string `json:"to"`     // address of the gateway; "" if nothing was sent
}

// Own returns the additions for the beginning of an answer.
func (r *Request) Own() *Own { return &Own{Seed: r.Settings.Seed, Ignored: r.keywords} }

// Ended returns the additions for the end of an answer.
func (r *Request) Ended(sent pilotfish.Receipt) *Own {
	e := r.Own()
	e.Sent = (*Receipt)(&sent)
	return e
}

// Origins has this server's additions to one choice.
type Origins struct {
	Tokens    []provenance `json:"tokens,omitempty"`    // the origin of each token, if requested
	Shortened bool         `json:"shortened,omitempty"` // pilotfish.complete ended a value early
}

// provenance is the origin of a token.
type provenance struct {
	ID         int32   `json:"id"`
	Text       string  `json:"text"`
	Origin     string  `json:"origin"`
	Local      string  `json:"edge_text,omitempty"` // the small model's own token, if it is another one
	Asked      bool    `json:"asked,omitempty"`     // the large model was asked for it
	Confidence float64 `json:"confidence"`
	Unverified bool    `json:"unverified,omitempty"`
	At         float64 `json:"ms"` // since the answer began
}

// Origins returns the origins of tokens, if requested. text returns the text of a token.
func (r *Request) Origins(tokens []engine.Token, text func(id int32) string) *Origins {
	if !r.WantOrigins {
		return nil
	}
	o := new(Origins)
	for _, t := range tokens {
		local := ""
		if t.Local != t.ID {
			local = text(t.Local)
		}
		o.Tokens = append(o.Tokens, provenance{t.ID, t.Text, t.Origin, local, t.Asked,
			roundSixDecimals(float64(t.Confidence)), t.Unverified, float64(t.At.Microseconds()) / 1000})
	}
	return o
}

func roundSixDecimals(x float64) float64 { return math.Round(x*1e6) / 1e6 }
