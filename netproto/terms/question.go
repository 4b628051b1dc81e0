package terms

import (
	"slices"
	"time"
)

// Question asks the large model which token follows a text. It is one value from decoding to the model: a netproto.Ask
// carries it to a gateway, which passes it on to its model as a [Job].
type Question struct {
	Context   []int32       // the whole text so far, prompt included; the receiver may keep it but must not change it
	K         int           // number of most probable tokens wanted with the answer; 0: none
	AuditFrom int           // position from which on the tokens of Context are audited; 0: none are
	Sampling  Sampling      // how the token is chosen
	Verify    Verify        // what the audit must be
	Ahead     int           // maximum number of tokens after the answer that the large model may decode
	Within    time.Duration // how long the answer is of use; 0: until the end of the context.Context
	Times     bool          // the answer carries [Times]
}

// Job is a question as a model gets it: with who asks and how urgent it is. A gateway numbers clients, devices and
// sessions, so that a model sees no secret and no address.
type Job struct {
	Question
	Client   uint64 // the owner of an access token; on an open gateway an address
	Device   uint64 // work and memory are shared fairly between devices
	Session  uint64 // contexts of a session share what they have in common; it belongs to one device
	Domain   uint64 // sessions of a domain share as well; 0 is common. A session that changes its domain begins anew
	Base     int    // number of tokens of Context that the session had before: a hint of what is in the KV cache
	Priority Priority
}

// Priority says when a [Job] is computed.
type Priority uint8

// The priorities.
const (
	Foreground Priority = iota // in turn
	// Ahead is for tokens after an answer: computed in steps in which no foreground job waits, in slots that are free
	// or of the same session, and dropped where there is no room or others are busy for long.
	Ahead
	// Background is for keys and values alone: as Ahead, and replaced by the next background job of its session.
	Background
)

// Reply is what a model says to a [Question].
type Reply struct {
	Token   int32         // the token that follows
	Top     []Candidate   // the K most probable tokens, best first; fewer where the model gives fewer
	Audited int           // number of positions at the end of the context that the audit covers
	Sampled int           // the only position of them that was looked at, drawn at random; 0: all were
	Audit   []Finding     // those of them where the large model would have chosen another token, ascending
	Queue   time.Duration // from the question until computing began
	Compute time.Duration // from then until the answer
}

// Scored reports whether a finding has a score other than 0.
func (r Reply) Scored() bool {
	return slices.ContainsFunc(r.Audit, func(f Finding) bool { return f.Score != 0 || f.Stands != 0 })
}

// Answer is a [Reply] as the device gets it, with what it cost.
type Answer struct {
	Reply
	BytesUp, BytesDown int   // payload of this question and its answer, with all repetitions
	Prefilled          int   // tokens of the context that the cloud did not have: it computes them
	Times              Times // where [Question.Times] asks for them; all zero where they are unknown
	// Ahead are the tokens after Token, as the large model decodes on: each what it would answer if it was asked after
	// all of the previous ones, at most [Question.Ahead]. To a question with [EachChoice] whose audit has findings,
	// they are those after the token of the first finding. It is closed after the last one, when the connection ends,
	// and soon after the context of the ask is done. It need not be read. nil: there are none.
	Ahead <-chan int32
}

// Behind returns what decoding ahead of further questions starts from: a text and the token after it. That is the
// context and the token that answers it, or, where each choice is verified, the text before the first finding and its
// token: what follows there is of no use any more.
func Behind(context []int32, token int32, v Verify, audit []Finding) ([]int32, int32) {
	if v == EachChoice && len(audit) > 0 {
		return context[:audit[0].Pos], audit[0].Token
	}
	return context, token
}
