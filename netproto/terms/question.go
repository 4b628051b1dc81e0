package terms

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Question asks the large model for the token after a text. It has the same form in all layers: a netproto.Ask carries
// it to a gateway, which passes it to its model as a [Job].
type Question struct {
	Context   []int32       // the whole text, including the prompt; the receiver may keep it but must not change it
	K         int           // number of most probable tokens to return with the answer; 0: none
	AuditFrom int           // first position of Context to audit; 0: no audit
	Sampling  Sampling      // how the token is chosen
	Verify    Verify        // the required kind of audit
	Ahead     int           // maximum number of tokens after the answer that the large model may decode
	Within    time.Duration // how long the answer is useful; 0: until the end of the context.Context
	Times     bool          // the answer must have [Times]
}

// Job is a question with its sender and its priority, as a model gets it. A gateway numbers clients, devices and
// sessions, so that a model sees neither secrets nor addresses.
type Job struct {
	Question
	Client   uint64 // the owner of an access token; on an open gateway an address. Work and memory are shared fairly
	Weight   uint64 // of the client in that; 0 means 1
	Device   uint64 // the share of a client is shared fairly between its devices
	Session  uint64 // contexts of a session share the KV cache of common prefixes; it belongs to one device
	Domain   uint64 // sessions of a domain share as well; 0 is common. A session that changes its domain starts anew
	Base     int    // number of tokens of Context that the session had before: a hint of what is in the KV cache
	Priority Priority
}

// Priority determines when a [Job] is computed.
type Priority uint8

// The priorities.
const (
	Foreground Priority = iota // in order
	// Ahead is for tokens after an answer. They are computed in steps without waiting foreground jobs, in slots that
	// are free or of the same session. They are dropped if there is no slot, or if foreground jobs wait for long.
	Ahead
	// Background is for prefilling only. It is like Ahead, and the next background job of the session replaces it.
	Background
)

// Reply is a model's answer to a [Question].
type Reply struct {
	Token   int32         // the token that follows
	Top     []Candidate   // the K most probable tokens, best first; fewer if the model returns fewer
	Audited int           // number of audited positions, at the end of the context
	Audit   []Finding     // the audited positions where the large model would have chosen another token, ascending
	Queue   time.Duration // from the question until computing began
	Compute time.Duration // from then until the answer
}

// Scored reports whether a finding has a score other than 0.
func (r Reply) Scored() bool {
	return slices.ContainsFunc(r.Audit, func(f Finding) bool { return f.Score != 0 || f.Stands != 0 })
}

// Check returns why a reply does not answer q: a token is not in the vocabulary, or the audit is not the requested one.
// A verification has all positions, with scores only if these are requested: a device takes a missing finding for
// agreement.
func (r Reply) Check(q Question, vocab int) error {
	outside := func(id int32) bool { return id < 0 || int(id) >= vocab }
	n, wanted, verifies := len(q.Context), 0, q.Verify != AsItComes
	if q.AuditFrom > 0 {
		wanted = max(n-q.AuditFrom, 0)
	}
	switch {
	case outside(r.Token) || slices.ContainsFunc(r.Top, func(c Candidate) bool { return outside(c.ID) }):
		return fmt.Errorf("its token %d, or a candidate, is not in the vocabulary", r.Token)
	case r.Audited < 0 || r.Audited > wanted || verifies && r.Audited != wanted:
		return fmt.Errorf("it audited %d of the %d positions in question", r.Audited, wanted)
	case len(r.Audit) > 0 && verifies && r.Scored() != q.Verify.Scored(), r.Scored() && !verifies:
		return errors.New("it has scores that were not requested, or lacks them")
	}
	last := n - r.Audited - 1
	for _, f := range r.Audit {
		switch {
		case f.Pos <= last || f.Pos >= n:
			return fmt.Errorf("its finding at position %d is outside of the audited positions or not in order", f.Pos)
		case outside(f.Token) || verifies && f.Token == q.Context[f.Pos]:
			return fmt.Errorf("its choice at position %d is the same token or not in the vocabulary", f.Pos)
		case q.Verify.Scored() && !(f.Stands <= f.Score && !math.IsInf(float64(f.Score), 0)):
			return fmt.Errorf("its choice at position %d has the score %v, the token there %v", f.Pos, f.Score,
				f.Stands)
		}
		last = f.Pos
	}
	return nil
}

// Answer is a [Reply] with its costs, as the device gets it.
type Answer struct {
	Reply
	BytesUp, BytesDown int   // payload of this question and its answer, including repetitions
	Prefilled          int   // tokens of the context that were sent: the cloud had to compute them
	Times              Times // if [Question.Times] is set; all zero if unknown
	// Ahead yields the tokens after Token, as the large model decodes on: each is its answer to a context with all
	// previous ones, at most [Question.Ahead]. If the question has [EachChoice] and its audit has findings, they follow
	// the token of the first finding instead. It is closed after the last token, when the connection ends, and soon
	// after the context of the ask is done. It need not be read. nil: there are none.
	Ahead <-chan int32
}

// Behind returns the start of decoding ahead of further questions: a text and the token after it. That is the context
// and its answer, or, if each choice is verified and there are findings, the text before the first finding and its
// token, since the text after it is discarded.
func Behind(context []int32, token int32, v Verify, audit []Finding) ([]int32, int32) {
	if v == EachChoice && len(audit) > 0 {
		return context[:audit[0].Pos], audit[0].Token
	}
	return context, token
}
