package netproto

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// Welcome is a gateway's answer to a Hello that it accepts.
type Welcome struct {
	Model      string // name of the large model
	Context    int    // maximum number of tokens of a context
	Dictionary uint32 // id of the trained dictionary in use; 0 means none
	Audit      Audit  // the kind of audit of earlier tokens in answers
	// Choices is the number of most probable tokens that the large model can draw from: an ask that is not greedy must
	// have a top-k of at most that; 0 means no limit.
	Choices       int
	Ahead         int    // maximum number of tokens ahead of an ask; 0: none. At most MaxAhead
	Judge         string // that verifies as [terms.EachJudged]: its fingerprint; "" for none
	OtherTemplate bool   // the chat templates of edge and cloud differ, see [Identity.Compare]
}

// Audit is the kind of audit that a large model supports.
type Audit uint8

// The kinds.
const (
	NoAudit    Audit = iota
	ExactAudit       // each position is audited
	audits
)

// String returns the name of a kind.
func (a Audit) String() string {
	names := [...]string{"none", "exact"}
	if a < audits {
		return names[a]
	}
	return fmt.Sprintf("audit %d", uint8(a))
}

// CannotVerify returns why a large model with this kind of audit cannot verify; nil if it can.
func (a Audit) CannotVerify() error {
	if a == ExactAudit {
		return nil
	}
	return Refusal{Code: CannotVerify,
		Detail: "the gateway's engine looks at no tokens of a question; verification needs all: " +
			"it takes the built-in model, sglang, or vllm with --enable-scale-out"}
}

// CannotJudge returns why a gateway with one judge cannot use the one that is wanted; nil if it can.
func CannotJudge(has, wanted string) error {
	switch {
	case has == wanted || wanted == "":
		return nil
	case has == "":
		return Refusal{Code: CannotVerify, Detail: "the gateway has no judge: start it with --router and the same file"}
	}
	return Refusal{Code: CannotVerify, Detail: fmt.Sprintf("the gateway has the judge %.12s, this router was made "+
		"with %.12s: give both the same --router", has, wanted)}
}

// Append appends the frame to b. It shortens a name that is too long.
func (w Welcome) Append(b []byte) []byte {
	return appendFrame(b, KindWelcome, func(b []byte) []byte {
		b = appendString(appendUvarint(b, Version), errs.Start(w.Model, maxString))
		b = binary.LittleEndian.AppendUint32(appendUvarint(b, w.Context), w.Dictionary)
		b = appendUvarint(appendUvarint(append(b, byte(w.Audit)), w.Choices), w.Ahead)
		return append(appendString(b, w.Judge), flagBit(w.OtherTemplate, 1))
	})
}

// ParseWelcome takes a Welcome of n bytes from the front of b.
func ParseWelcome(b []byte) (w Welcome, n int, err error) {
	p, n := openFrame(b, KindWelcome)
	if p.readUvarint("version", 1<<16) != Version {
		p.failField("version", WrongVersion)
	}
	w.Model = p.readString("model")
	w.Context = int(p.readUvarint("context", math.MaxInt32))
	w.Dictionary = p.readUint32("dictionary")
	if w.Audit = Audit(p.readUint8("audit")); w.Audit >= audits {
		p.failField("audit", ErrValue)
	}
	w.Choices = int(p.readUvarint("choices", MaxVocab))
	w.Ahead = int(p.readUvarint("ahead", MaxAhead))
	w.Judge = p.readString("judge")
	other := p.readUint8("other template")
	if w.OtherTemplate = other == 1; other > 1 {
		p.failField("other template", ErrValue)
	}
	if err := p.closeFrame(); err != nil {
		return Welcome{}, 0, err
	}
	return w, n, nil
}
