package draft

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Origin says who chose a token.
type Origin string

// The origins.
const (
	Edge        Origin = "edge"         // the small model, and the router let it stand
	FromCloud   Origin = "cloud"        // the large model
	EdgeTimeout Origin = "edge-timeout" // the small model, since the large one did not answer in time or failed
)

// Outcome says what became of an escalation.
type Outcome string

// The outcomes.
const (
	Hit      Outcome = "hit"      // the cloud's token was on a branch of the draft tree
	Miss     Outcome = "miss"     // it was not, or nothing was drafted
	Late     Outcome = "late"     // no answer before the deadline
	Failed   Outcome = "failed"   // an error, or an answer that is no token
	Unasked  Outcome = "unasked"  // the cloud had failed just before: the local token stood at once
	Known    Outcome = "known"    // not asked: what the large model says there was known from another answer
	Dropped  Outcome = "dropped"  // a token that it rests on did not hold, or decoding ended
	Probing  Outcome = "probing"  // asked only to learn whether the cloud is back, and it is not
	Probed   Outcome = "probed"   // asked only to learn whether the cloud is back, and it is
	waiting  Outcome = ""         // not asked yet; in no event
	inFlight Outcome = "inflight" // asked and not answered; in no event
)

// Event is one entry of the stream that everything reads which prints, plots or exports. One of its pointers is set.
type Event struct {
	At         time.Duration // since the call of [Decoder.Decode]
	Token      *Token
	Escalation *Escalation
	Warming    *Warming
	Pass       *Pass
	Turn       *Turn
	Ahead      *Ahead
	Preview    *Preview
	Prompt     *Prompt   // with [Options.Trace]
	Waited     *Waited   // alike
	Rollback   *Rollback // alike
}

// Turn is a token of the small model that verification replaced before it was shown.
type Turn struct {
	terms.Finding               // what the large model prefers, and where; probability and scores as far as known
	Local         int32         // the token that stood there
	Wasted        int           // tokens evaluated in vain: it, and those behind it
	Exposed       time.Duration // lost waiting for what was behind it, and in forward calls of which nothing remained
}

// Ahead is what came of one question's tokens beyond the one that was asked for.
type Ahead struct {
	Pos    int // of the first of them
	Tokens int // that came
	Used   int // of these, those that answered a question of the text or verified a token of it
}

// Preview is text that nobody has verified yet, to be shown for the time being. Each takes the place of the one before,
// and of all shown beyond the tokens of [Event.Token].
type Preview struct {
	Pos    int     // of the first token: the one after the last that was shown for good
	Tokens []int32 // may be empty
	Turned int     // tokens of the preview before that this one, or the text shown for good since, contradicts
}

// Pass is one forward call of the small model after the prompt.
type Pass struct {
	Rows     int           // tokens evaluated
	Proposed int           // of these, guesses from the text, evaluated before it was known whether they follow
	Accepted int           // of those, the ones that did follow: tokens that needed no call of their own
	Began    time.Duration // since the call of [Decoder.Decode]
	Took     time.Duration
	Nodes    []Drafted // its rows, with [Options.Trace]
}

// Warming is settled text that was sent before a question.
type Warming struct {
	Tokens    int           // of the whole text
	New       int           // of these, those that the cloud had not been told of
	Began     time.Duration // since the call of [Decoder.Decode]
	Took      time.Duration
	BytesUp   int // 0: nothing was sent, as there was no connection
	BytesDown int
	Err       error // nothing is lost then: the next question carries the text
}

// Token is a token shown. It is never taken back.
type Token struct {
	Pos    int // in the whole text, prompt included
	ID     int32
	Origin Origin
	// of the router, that the small model's token may stand; without one, its probability before temperature
	Confidence  float32
	End         bool          // an end token: the last of the text, with nothing to print
	CommitDelay time.Duration // from when it was drafted until it was shown
	Unverified  bool          // it was to be verified, but no answer came in time
	Reason      *Reason       // only with [Options.Explain], and where there is a router
	LogProbs    *LogProbs     // only with [Options.Top]
}

// Reason is what a decision about a token was made of, for people.
type Reason struct {
	Local     int32   // the small model's token
	Margin    float64 // p₁ - p₂ of the small model's two best tokens
	Entropy   float64 // of its next token, in nats
	Threshold float64 // the cloud is asked where the confidence is below
}

// Escalation is one question to the cloud. It is told when the text has passed it or it is dropped, and its ask has
// returned; one that was not asked, when the ask that failed before has returned.
//
// Serial decoding waits Wait for it. If it is answered, Hidden of that was spent on drafting that held, and Exposed was
// lost: waiting with nothing to draft, and forward calls of which nothing remained. Exposed can be more than Wait by a
// forward call.
type Escalation struct {
	Pos     int           // of the token that was asked for
	Decided time.Duration // when it was decided, since the call of [Decoder.Decode]: it was asked Held later
	Outcome Outcome
	Why     Why // who wants to know
	// Err says why the local token stands; nil after an answer. It wraps the error of the cloud where there is one, and
	// [ErrDeadline], [ErrBreaker] or [ErrToken] where that is the reason.
	Err          error
	Local, Token int32 // the small model's token, and the one that stands
	Confidence   float32
	// from the decision until it was asked: other escalations were open, or tokens ahead were waited for; or until it
	// was known
	Held            time.Duration
	Wait            time.Duration // from then until the answer, or until it was given up
	Queue           time.Duration // of Wait: waiting in the cloud
	Cloud           time.Duration // of Wait: computing in the cloud
	Wire            time.Duration // of Wait: the rest
	Times           terms.Times   // of an answer, with [Options.Trace] and where somebody can tell
	Hidden          time.Duration // see above; 0 unless the outcome is a hit or a miss
	Exposed         time.Duration // see above; 0 for an escalation that is dropped, not asked or a probe
	BytesUp         int
	BytesDown       int
	Drafted, Wasted int // tokens evaluated below it while it was open, and tokens that its answer made worthless
	Audited         int // tokens before it that the router let stand and that its answer, as the first, compared
	AuditedFrom     int // the first of their positions, and the one after the last: the small model's own between them
	AuditedTo       int
	// those of them where the large model would have said something else: escalations that were missed
	Missed []terms.Finding
	Top    []terms.Candidate // the large model's best tokens, where [Options.K] asks for some
	// for how many tokens the one that was Audited stands, where it was drawn at random from these; 0 where all were
	AuditWeight int
	Prefilled   int  // tokens of its context that the large model had to compute for it
	ByAhead     bool // asked, but tokens ahead told what it is about before its own answer: that is not used
	Decoded     bool // an answer came, be it in vain: the large model has decoded a token for it
	Branches    int  // guesses at its answer
	// Cut says that the router asked for the token after the last one shown, and that it was dropped as decoding ended.
	Cut bool
	// Kept says that the small model's token stands because none of the answer may stand there: see [Options.Place].
	Kept bool
}

// Why says who wants to know the token of an escalation.
type Why string

// The reasons.
const (
	Routed   Why = ""      // the router
	LongAgo  Why = "every" // verification: [Options.VerifyEvery] tokens were not looked at
	EndsHere Why = "end"   // verification: the text would end with this token
)

// Needless reports whether the router wanted to know, and the large model said what the small one would have said.
func (q *Escalation) Needless() bool {
	return q.Why == Routed && !q.Kept && (q.answer() || q.Outcome == Known) && q.Token == q.Local
}

// answer reports whether the cloud's answer decided.
func (q *Escalation) answer() bool { return q.Outcome == Hit || q.Outcome == Miss }

// Summary is the sum of a stream of events.
type Summary struct {
	// Stop says why the text ended: "end" for an end token, "length" for [Options.MaxTokens], "context" for
	// [Options.Room]; "" while it runs and after an error.
	Stop   string
	Tokens int // shown, an end token included
	Cloud  int // of these, chosen by the cloud
	// of these, chosen by the small model although the cloud was to be asked: it was late, failed or not asked
	Timeouts int

	Escalations int   // questions that the text passed: the sum of the next four and of Known
	Answered    int   // hits and misses
	Late        int   // no answer before the deadline
	Failed      int   // an error, or an answer that is no token
	Unasked     int   // not asked, since the cloud had failed just before
	Hits        int   // of Answered, those whose token was drafted already
	Needless    int   // of Answered and Known, those that the router wanted and whose token is the small model's own
	Cause       error // of the first of the events with an escalation that was not answered; nil if all were

	Kept       int // of Answered and Known, those where none of the answer could stand: see [Escalation.Kept]
	Known      int // escalations that needed no question, since another answer told
	Unverified int // tokens that were to be verified and were shown without
	Turned     int // tokens of the small model that verification replaced before they were shown

	// What the large model computed for the text.
	Prefilled int // tokens of prompt and text, for questions and for what was sent before them
	Decoded   int // tokens that were asked for, and came
	Ahead     int // tokens beyond these that came with answers; see [Options.Ahead]
	AheadUsed int // of Ahead, those that answered a question or verified a token
	Warmed    int // tokens of the prompt sent before the first question; see [Summary.WarmedInVain]

	Passes   int // forward calls of the small model after the prompt; see [Pass]
	Proposed int // guesses from the text that were evaluated
	Accepted int // of these, those that held

	Asks    int // questions sent: escalations, dropped ones and probes
	Dropped int // of these, dropped
	Cut     int // of Dropped, those about the token after the last one shown: see [Escalation.Cut]
	Drafted int // tokens evaluated below open escalations
	Wasted  int // tokens evaluated in vain, besides guesses from the text that did not hold
	Audited int // tokens that the router let stand and the cloud compared
	Missed  int // of these, those where the large model would have said something else
	// the same by weight: as many tokens as those that were compared, drawn at random or all, stand for
	AuditedFor, MissedFor int
	BytesUp               int
	BytesDown             int

	Wait, Hidden time.Duration // sums over the Answered
	Exposed      time.Duration // sum over the Answered, the Known and the Turned
	TimedOut     time.Duration // sum of Wait over the Late and the Failed
	CommitDelay  time.Duration // sum over tokens
}

// WarmedInVain is how many tokens of the prompt were sent early although nothing was asked then.
func (s *Summary) WarmedInVain() int {
	if s.Asks > 0 {
		return 0
	}
	return s.Warmed
}

// Add counts an event.
func (s *Summary) Add(e Event) {
	if t := e.Token; t != nil {
		s.Tokens++
		s.CommitDelay += t.CommitDelay
		if t.Unverified {
			s.Unverified++
		}
		switch t.Origin {
		case FromCloud:
			s.Cloud++
		case EdgeTimeout:
			s.Timeouts++
		}
		return
	}
	if q := e.Escalation; q != nil {
		s.addEscalation(q)
	} else {
		s.addOther(e)
	}
}

// addOther counts an event that is about neither a token nor an escalation.
func (s *Summary) addOther(e Event) {
	switch {
	case e.Warming != nil:
		s.addWarming(e.Warming)
	case e.Pass != nil:
		s.Passes++
		s.Proposed += e.Pass.Proposed
		s.Accepted += e.Pass.Accepted
	case e.Turn != nil:
		s.Turned++
		s.Wasted += e.Turn.Wasted
		s.Exposed += e.Turn.Exposed
	case e.Ahead != nil:
		s.Ahead += e.Ahead.Tokens
		s.AheadUsed += e.Ahead.Used
	}
}

// addWarming counts text that was sent early, unless there was no connection to send it on.
func (s *Summary) addWarming(w *Warming) {
	s.BytesUp += w.BytesUp
	s.BytesDown += w.BytesDown
	if w.BytesUp == 0 {
		return
	}
	s.Prefilled += w.New
	if w.New == w.Tokens { // the cloud had been told of nothing
		s.Warmed += w.New
	}
}

// addEscalation counts an escalation.
func (s *Summary) addEscalation(q *Escalation) {
	s.Wasted += q.Wasted
	s.BytesUp += q.BytesUp
	s.BytesDown += q.BytesDown
	s.Prefilled += q.Prefilled
	if q.Decoded {
		s.Decoded++
	}
	if q.Outcome != Unasked && q.Outcome != Known {
		s.Asks++
	}
	switch q.Outcome {
	case Probing, Probed:
		return
	case Dropped:
		s.Dropped++
		if q.Cut {
			s.Cut++
		}
		return
	}
	s.Escalations++
	s.Audited += q.Audited
	s.Missed += len(q.Missed)
	s.AuditedFor += q.Audited * max(1, q.AuditWeight)
	s.MissedFor += len(q.Missed) * max(1, q.AuditWeight)
	s.Drafted += q.Drafted
	if q.Needless() {
		s.Needless++
	}
	if q.Kept {
		s.Kept++
	}
	s.addOutcome(q)
}

// addOutcome counts an escalation that the text passed by whether it was answered.
func (s *Summary) addOutcome(q *Escalation) {
	switch q.Outcome {
	case Known:
		s.Known++
		s.Exposed += q.Exposed
		return
	case Hit, Miss:
		s.Answered++
		if q.Outcome == Hit {
			s.Hits++
		}
		s.Wait += q.Wait
		s.Hidden += q.Hidden
		s.Exposed += q.Exposed
		return
	case Late:
		s.Late++
	case Failed:
		s.Failed++
	case Unasked:
		s.Unasked++
	}
	s.TimedOut += q.Wait
	if s.Cause == nil {
		s.Cause = q.Err
	}
}
