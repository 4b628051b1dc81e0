package netproto

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// Code is the reason of a refusal. It is an error, so that errors.Is(err, netproto.WrongTokenizer) works for refused
// connections and refused asks. It is also the error code of a connection or stream that is closed for that reason.
type Code uint8

// The codes.
const (
	NoReason       Code = iota // closed without an error
	WrongVersion               // the gateway speaks another version of the protocol
	WrongTokenizer             // the token ids of edge and cloud mean different tokens
	WrongSecret                // the access token is missing or wrong
	Malformed                  // not a valid message, or not an expected one
	TooLarge                   // a context, or a message, above the limits
	// more requests per second than the access token or the device may send; try again after RetryAfter
	TooFast
	Busy         // too many concurrent asks, connections or sessions
	TooLate      // the deadline of the ask passed before there was an answer
	Draining     // the gateway is shutting down
	Failed       // the large model gave no answer
	Cancelled    // the client cancelled the ask
	CannotVerify // the large model cannot audit each position of a context
)

// Error returns a description of the code.
func (c Code) Error() string {
	texts := [...]string{
		NoReason:       "closed",
		WrongVersion:   "the gateway speaks another version of the protocol",
		WrongTokenizer: "the tokenizers of edge and cloud differ",
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

// Lasting reports whether repeating the same request is useless.
func (c Code) Lasting() bool {
	switch c {
	case WrongVersion, WrongTokenizer, WrongSecret, Malformed, TooLarge, CannotVerify:
		return true
	}
	return false
}

// Refusal answers a Hello, an Ask or a Sync that cannot be answered otherwise. It is an error and unwraps to its code.
type Refusal struct {
	Code       Code
	RetryAfter time.Duration // in milliseconds; 0 means not stated
	Detail     string        // for people; contains no secret
}

// Error returns the code's description and the detail. It escapes a detail with characters that a terminal would obey,
// since the detail comes from the gateway.
func (r Refusal) Error() string {
	if r.Detail == "" {
		return "refused: " + r.Code.Error()
	}
	detail := r.Detail
	if !utf8.ValidString(detail) || strings.ContainsFunc(detail, func(c rune) bool { return !unicode.IsPrint(c) }) {
		detail = strconv.Quote(detail)
	}
	return "refused: " + r.Code.Error() + ": " + detail
}

// Unwrap returns the code.
func (r Refusal) Unwrap() error { return r.Code }

// Append appends the frame to b. It shortens a detail that is too long.
func (r Refusal) Append(b []byte) []byte {
	return appendFrame(b, KindRefusal, func(b []byte) []byte {
		b = append(b, byte(r.Code))
		b = appendMillis(b, r.RetryAfter)
		return appendString(b, errs.Start(r.Detail, maxString))
	})
}

// ParseRefusal takes a Refusal of n bytes from the front of b.
func ParseRefusal(b []byte) (r Refusal, n int, err error) {
	p, n := openFrame(b, KindRefusal)
	r.Code = Code(p.readUint8("code"))
	r.RetryAfter = p.readMillis("retry after")
	r.Detail = p.readString("detail")
	if err := p.closeFrame(); err != nil {
		return Refusal{}, 0, err
	}
	return r, n, nil
}
