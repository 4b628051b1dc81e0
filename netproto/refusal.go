package netproto

import (
	"fmt"
	"time"
)

// Code says why a gateway refuses. It is an error, so that errors.Is(err, netproto.WrongTokenizer) asks for it, whether
// the refusal came for a connection or for one ask. It is also the code of a connection or stream that is closed for
// that reason.
type Code uint8

// The codes.
const (
	NoReason       Code = iota // closed without a fault
	WrongVersion               // the gateway speaks another version of the protocol
	WrongTokenizer             // edge and cloud number tokens differently
	WrongTemplate              // edge and cloud write a chat differently; from gateways before TemplateVersion
	WrongSecret                // the access token is missing or wrong
	Malformed                  // bytes that are no message, or not the one that is due here
	TooLarge                   // a context, or a message, above the limits
	// more requests per second than the access token or the device is allowed; try after RetryAfter
	TooFast
	Busy      // too many asks, connections or sessions at a time
	TooLate   // the deadline of the ask went by before there was an answer
	Draining  // the gateway is about to go away
	Failed    // the large model gave no answer
	Cancelled // the asker is not interested any more
	// the large model cannot look at each position of a context. Only asks that a version before VerifyVersion does not
	// have get it
	CannotVerify
)

// Error says the code in words.
func (c Code) Error() string {
	texts := [...]string{
		NoReason:       "closed",
		WrongVersion:   "the gateway speaks another version of the protocol",
		WrongTokenizer: "the tokenizers of edge and cloud differ",
		WrongTemplate:  "the chat templates of edge and cloud differ",
		WrongSecret:    "the access token is missing or wrong",
		Malformed:      "malformed message",
		TooLarge:       "above the limits of the gateway",
		TooFast:        "too many requests per second",
		Busy:           "the gateway is busy",
		TooLate:        "the deadline of the ask has passed",
		Draining:       "the gateway is shutting down",
		Failed:         "the large model failed",
		Cancelled:      "cancelled",
		CannotVerify:   "the large model cannot verify",
	}
	if int(c) < len(texts) {
		return texts[c]
	}
	return fmt.Sprintf("code %d", uint8(c))
}

// Lasting reports whether the same request will be refused again however often it is repeated.
func (c Code) Lasting() bool {
	switch c {
	case WrongVersion, WrongTokenizer, WrongTemplate, WrongSecret, Malformed, TooLarge, CannotVerify:
		return true
	}
	return false
}

// Refusal answers a Hello, an Ask or a Sync that gets nothing else. It is an error and unwraps to its code.
type Refusal struct {
	Code       Code
	RetryAfter time.Duration // in milliseconds; 0 means not stated
	Detail     string        // for people; holds no secret
}

// Error says what was refused and why.
func (r Refusal) Error() string {
	if r.Detail == "" {
		return "refused: " + r.Code.Error()
	}
	return "refused: " + r.Code.Error() + ": " + r.Detail
}

// Unwrap returns the code.
func (r Refusal) Unwrap() error { return r.Code }

// Append appends the frame to b. A detail that is too long is cut.
func (r Refusal) Append(b []byte) []byte {
	return appendFrame(b, KindRefusal, func(b []byte) []byte {
		b = append(b, byte(r.Code))
		b = appendMillis(b, r.RetryAfter)
		return appendString(b, r.Detail[:min(len(r.Detail), maxString)])
	})
}

// ParseRefusal takes a Refusal of n bytes from the front of b.
func ParseRefusal(b []byte) (r Refusal, n int, err error) {
	p, n := openFrame(b, KindRefusal)
	r.Code = Code(p.u8("code"))
	r.RetryAfter = p.millis("retry after")
	r.Detail = p.string("detail")
	if err := p.close(); err != nil {
		return Refusal{}, 0, err
	}
	return r, n, nil
}
