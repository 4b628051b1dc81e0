package terms

import "time"

// Question is one escalation as a device sees it: which token follows this context? Decoding asks it, and a connection
// to a gateway or a large model of the same process answers it. A netproto.Ask is what travels: it names the context by
// what the gateway has of it.
type Question struct {
	Context   []int32       // the whole text so far, prompt included; the receiver may keep it but not change it
	K         int           // how many best tokens are wanted with the answer; 0: none
	AuditFrom int           // position of Context from which on its tokens are to be audited; 0: none are
	Sampling  Sampling      // how the token is chosen
	Verify    Verify        // what the audit has to be
	Ahead     int           // most tokens beyond the one asked for that the large model may decode on by itself
	Within    time.Duration // how long the answer is of use, where that is not until the end of ctx; 0: until then
	Times     bool          // the answer is to say when it was where
}

// Answer is what the large model says to a [Question], and what it cost the device. A netproto.Answer is what travels
// of it: what only the device can know, such as bytes and its own clock, is not in there.
type Answer struct {
	Token              int32
	Top                []Candidate   // the best tokens, best first, where they were asked for
	Audited            int           // positions at the end of the context that the audit is about
	Sampled            int           // the only one of them that was looked at, drawn at random; 0: all were
	Audit              []Finding     // those of them where the large model would have chosen another token
	Queue, Cloud       time.Duration // waiting in the cloud, and computing there; 0 if unknown
	BytesUp, BytesDown int           // payload of this question and its answer, with all repetitions
	Prefilled          int           // tokens of the context that the cloud did not have: it computes them
	Times              Times         // where [Question.Times] asks for them; all zero where they are unknown
	// Ahead are the tokens after Token, as the large model decodes on: each what it would answer if it was asked after
	// all of the previous ones, at most [Question.Ahead]. To a question with [EachChoice] whose audit has findings,
	// they are those after the token of the first: what follows there is of no use any more. It is closed where there
	// are no more, also where the connection breaks off, and soon after the context of the ask is done. Whoever does
	// not read it holds nobody up. nil: there are none.
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
