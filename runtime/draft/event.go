package draft

import (
	"cmp"
	"reflect"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Origin says who chose a token.
type Origin string

// The origins.
const (
	Edge        Origin = "edge"         // the small model: the router let it stand, or it is an accepted draft
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
	Known    Outcome = "known"    // not asked: another answer had the large model's token
	Dropped  Outcome = "dropped"  // a token that it rests on did not hold, or decoding ended
	Probing  Outcome = "probing"  // a probe that failed: the cloud is not back
	Probed   Outcome = "probed"   // a probe with an answer: the cloud is back
	Checked  Outcome = "checked"  // an early question of verification with an answer: no token waited for it
	waiting  Outcome = ""         // not asked yet; in no event
	inFlight Outcome = "inflight" // asked and not answered; in no event
)

// Event is one entry of the stream from which everything is printed, plotted and exported. One of its pointers is set.
type Event struct {
	At         time.Duration // since the call of [Decoder.Decode]
	Token      *Token
	Escalation *Escalation
	Warming    *Warming
	Pass       *Pass
	Turn       *Turn
	Ahead      *Ahead
	Preview    *Preview
	Fan        *Fan
	Prompt     *Prompt   // with [Options.Trace]
	Waited     *Waited   // with [Options.Trace]
	Rollback   *Rollback // with [Options.Trace]
}

// Turn is a token of the small model that verification replaced before it was shown.
type Turn struct {
	terms.Finding               // what the large model prefers, and where; probability and scores if known
	Local         int32         // the token that stood there
	Wasted        int           // tokens evaluated in vain: it, and those after it
	Exposed       time.Duration // lost by waiting for what followed it, and in forward calls of which nothing remained
}

// Fan is the work on alternatives: tokens that could have taken the place of unverified ones, and what follows them. It
// is emitted when the text is over.
type Fan struct {
	Taken   int           // alternatives that did take the place of a token
	Wasted  int           // tokens that were evaluated in vain
	Exposed time.Duration // lost in forward calls of which nothing remained
}

// Ahead is the tokens of one question beyond the one that was asked for.
type Ahead struct {
	Pos    int // of the first of them
	Tokens int // that came
	Used   int // of these, those that answered a question of the text or verified a token of it
}

// Preview is text that is not verified yet. Each takes the place of the one before, and follows the tokens of
// [Event.Token].
type Preview struct {
	Pos    int     // of the first token: the one after the last that was shown for good
	Tokens []int32 // may be empty
	Turned int     // tokens of the preview before that this one, or the text shown for good since, contradicts
}

// Pass is one forward call of the small model after the prompt.
type Pass struct {
	Rows     int // tokens evaluated
	Proposed int // of these, guesses from the text
	Accepted int // of those, the ones that held: tokens without a call of their own
	Drafts   int // of Rows, drafts of [Options.Drafter]
	// of those, the ones that were accepted: tokens without a call of their own
	DraftsAccepted int
	Began          time.Duration // since the call of [Decoder.Decode]
	Took           time.Duration
	Nodes          []Drafted // its rows, with [Options.Trace]
}

// Warming is settled text that was sent before a question.
type Warming struct {
	Tokens    int           // of the whole text
	New       int           // of these, those that had not been sent before
	Began     time.Duration // since the call of [Decoder.Decode]
	Took      time.Duration
	BytesUp   int // 0: nothing was sent, as there was no connection
	BytesDown int
	Err       error // the next question then carries the text
}

// Token is a token shown. It is never taken back.
type Token struct {
	Pos    int // in the whole text, prompt included
	ID     int32
	Origin Origin
	Local  int32 // the small model's token for the place: ID, unless the large model chose another one
	Asked  bool  // the large model was asked for the token, with or without an answer
	// that the small model's token may stand: of the router, or else its probability before temperature
	Confidence  float32
	End         bool          // an end token: the last of the text, with nothing to print
	CommitDelay time.Duration // from when it was drafted until it was shown
	Unverified  bool          // it was to be verified, but no answer came in time
	Reason      *Reason       // only with [Options.Explain] and a router
	LogProbs    *LogProbs     // only with [Options.Top]
}

// Reason is the values of a decision about a token.
type Reason struct {
	Local     int32   // the small model's token
	Margin    float64 // p₁ - p₂ of the small model's two best tokens
	Entropy   float64 // of its next token, in nats
	Threshold float64 // the cloud is asked where the confidence is below; 0 with [Options.Dial], if the cloud verifies
}

// Escalation is one question to the cloud. It is emitted when the text has passed it or it is dropped, and its ask has
// returned; one that was not asked, when the ask that failed before has returned.
//
// Serial decoding waits Wait for it. If it is answered, Hidden of that was spent on drafting that held, and Exposed was
// lost: waiting without drafting, and forward calls of which nothing remained. Exposed can exceed Wait by a forward
// call. Of a check, Hidden is the part of Wait in which there was drafting.
type Escalation struct {
	Pos     int           // of the token that was asked for
	Decided time.Duration // when it was decided, since the call of [Decoder.Decode]: it was asked Held later
	Outcome Outcome
	Why     Why // why it is asked
	// Err says why the local token stands; nil after an answer. It wraps the error of the cloud where there is one, and
	// [ErrDeadline], [ErrBreaker] or [ErrToken] where that is the reason.
	Err          error
	Local, Token int32 // the small model's token, and the one that stands
	Confidence   float32
	// from the decision until it was asked, as other escalations were open or tokens ahead were expected; or until the
	// answer was known
	Held            time.Duration
	Wait            time.Duration // from then until the answer, or until it was given up
	Queue           time.Duration // of Wait: waiting in the cloud
	Cloud           time.Duration // of Wait: computing in the cloud
	Wire            time.Duration // of Wait: the rest
	Times           terms.Times   // of an answer, with [Options.Trace] and if known
	Hidden          time.Duration // see above; 0 unless the outcome is a hit, a miss or checked
	Exposed         time.Duration // see above; 0 for an escalation that is dropped, not asked or a probe
	BytesUp         int
	BytesDown       int
	Drafted, Wasted int // tokens evaluated below it while it was open, and tokens that its answer made worthless
	Audited         int // tokens before it that the router let stand and that its answer was the first to compare
	AuditedFrom     int // the first of their positions
	AuditedTo       int // the position after the last; only tokens of the small model between them count
	// of these, those where the large model chooses another token: missed escalations
	Missed    []terms.Finding
	Top       []terms.Candidate // the large model's best tokens, where [Options.K] asks for some
	Prefilled int               // tokens of its context that the large model computed for it
	ByAhead   bool              // asked, but tokens ahead had the answer first: its own is not used
	Decoded   bool              // an answer came, used or not: the large model has decoded a token for it
	Branches  int               // guesses at its answer
	// Kept says that the small model's token stands because no token of the answer may: see [Options.Place].
	Kept bool
}

// Why says why an escalation is asked.
type Why string

// The reasons.
const (
	Routed   Why = ""      // by the router
	LongAgo  Why = "every" // verification: [Options.VerifyEvery] tokens are unverified
	EndsHere Why = "end"   // verification: the text would end with this token
	Early    Why = "early" // verification: an answer is likely to come sooner than tokens ahead
)

// Needless reports whether the router asked, and the large model's token is the small one's.
func (q *Escalation) Needless() bool {
	return q.Why == Routed && !q.Kept && (q.isAnswered() || q.Outcome == Known) && q.Token == q.Local
}

func (q *Escalation) isAnswered() bool { return q.Outcome == Hit || q.Outcome == Miss }

// Summary is the figures of an answer: the sum of the stream of its events, and what the engine knows of it. This is
// their only declaration: records, reports, comparisons and their schema take names, units and explanations from here.
// Every integer can be summed over answers. Comparisons test those with the tag test, from which others follow.
type Summary struct {
	// Stop says why the text ended: "end" for an end token, "length" for [Options.MaxTokens], "context" for
	// [Options.Room]; "" while it runs and after an error.
	Stop string `json:"-"`
	Err  error  `json:"-"` // the first reason why the large model did not answer, or a drafter ended; nil: none

	// Set by the engine.
	PromptTokens int           `json:"prompt_tokens"`                     // tokens of the prompt
	ReusedTokens int           `json:"reused_tokens,omitempty"`           // of these, known from before
	Thought      int           `json:"thought_tokens,omitempty" test:"y"` // tokens of a thought, marks included
	RanAhead     int           `json:"ran_ahead,omitempty" test:"y"`      // tokens that a GPU began uncertain
	RanInVain    int           `json:"ran_in_vain,omitempty" test:"y"`    // how often such a token did not follow
	PromptTime   time.Duration `json:"prompt_ms,omitempty"`               // from the call until the first token
	DecodeTime   time.Duration `json:"decode_ms,omitempty"`               // from then on

	Tokens   int `json:"tokens" test:"y"`       // shown, an end token included
	Cloud    int `json:"cloud_tokens" test:"y"` // of these, chosen by the large model
	Timeouts int `json:"timeouts"`              // of tokens, the small model's as the large one did not answer

	Escalations int `json:"escalations"` // questions that the text passed: answered, late, failed, unasked and known
	Answered    int `json:"answered"`    // hits and misses
	Late        int `json:"late"`        // without an answer before the deadline
	Failed      int `json:"failed"`      // with an error, or an answer that is no token
	Unasked     int `json:"unasked"`     // not asked, since the large model had failed just before
	Hits        int `json:"hits"`        // of answered, those with a token that was drafted already
	Needless    int `json:"needless"`    // of answered and known, those by the router with the small model's own token
	// of answered and known, those where no token of the answer could stand, as with a schema
	Kept       int `json:"kept"`
	Known      int `json:"known"`               // escalations without a question, as another answer had the token
	Unverified int `json:"unverified" test:"y"` // tokens shown without the verification that they need
	Turned     int `json:"turned" test:"y"`     // tokens of the small model replaced by verification, unshown

	Prefilled int `json:"prefilled"`  // tokens of prompt and text that the large model read
	Decoded   int `json:"decoded"`    // tokens of the large model that were asked for, and came
	Ahead     int `json:"ahead"`      // tokens beyond these that came with answers
	AheadUsed int `json:"ahead_used"` // of these, used for an answer or a verification
	Warmed    int `json:"warmed"`     // tokens of the prompt sent before the first question

	Passes         int `json:"passes"`          // forward calls of the small model after the prompt
	Proposed       int `json:"proposed"`        // guesses from the text that were evaluated
	Accepted       int `json:"accepted"`        // of these, those that held: tokens without a call of their own
	Drafts         int `json:"drafts"`          // tokens of a drafter that were evaluated
	DraftsAccepted int `json:"drafts_accepted"` // of these, accepted
	DraftPasses    int `json:"draft_passes"`    // forward calls with some

	Asks      int `json:"asks" test:"y"`       // questions sent: escalations, dropped ones, checks and probes
	Dropped   int `json:"dropped"`             // of these, dropped
	Drafted   int `json:"drafted"`             // tokens evaluated below open escalations
	Wasted    int `json:"wasted" test:"y"`     // tokens evaluated in vain, without guesses from the text
	Audited   int `json:"audited"`             // tokens that the router let stand and the large model compared
	Missed    int `json:"missed"`              // of these, those where it chooses another token
	BytesUp   int `json:"bytes_up" test:"y"`   // payload of all questions and of text sent early
	BytesDown int `json:"bytes_down" test:"y"` // payload of all that came back

	Wait        time.Duration `json:"wait_ms"`                  // from asks to answers, sum of answered ones and checks
	Hidden      time.Duration `json:"hidden_ms"`                // of this, spent on drafting that was kept
	Exposed     time.Duration `json:"exposed_ms" test:"y"`      // lost by waiting, and in calls without a kept token
	Lost        time.Duration `json:"lost_ms"`                  // of this, for escalations without an answer
	CommitDelay time.Duration `json:"commit_delay_ms" test:"y"` // from drafting until shown, sum of all tokens
}

// Plus adds the figures of another answer, or those that were counted elsewhere. Of the causes the first remains.
func (s *Summary) Plus(o Summary) {
	s.Err = cmp.Or(s.Err, o.Err)
	sum, more := reflect.ValueOf(s).Elem(), reflect.ValueOf(o)
	for i := range sum.NumField() {
		if f := sum.Field(i); f.CanInt() {
			f.SetInt(f.Int() + more.Field(i).Int())
		}
	}
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

func (s *Summary) addOther(e Event) {
	switch {
	case e.Warming != nil:
		s.addWarming(e.Warming)
	case e.Pass != nil:
		s.Passes++
		s.Proposed += e.Pass.Proposed
		s.Accepted += e.Pass.Accepted
		s.Drafts += e.Pass.Drafts
		s.DraftsAccepted += e.Pass.DraftsAccepted
		s.DraftPasses += min(1, e.Pass.Drafts)
	case e.Turn != nil:
		s.Turned++
		s.Wasted += e.Turn.Wasted
		s.Exposed += e.Turn.Exposed
	case e.Fan != nil:
		s.Wasted += e.Fan.Wasted
		s.Exposed += e.Fan.Exposed
	case e.Ahead != nil:
		s.Ahead += e.Ahead.Tokens
		s.AheadUsed += e.Ahead.Used
	}
}

func (s *Summary) addWarming(w *Warming) {
	s.BytesUp += w.BytesUp
	s.BytesDown += w.BytesDown
	if w.BytesUp == 0 {
		return
	}
	s.Prefilled += w.New
	if w.New == w.Tokens { // it is the prompt
		s.Warmed += w.New
	}
}

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
	case Checked:
		s.Wait += q.Wait
		s.Hidden += q.Hidden
		return
	case Probing, Probed:
		return
	case Dropped:
		s.Dropped++
		return
	}
	s.Escalations++
	s.Audited += q.Audited
	s.Missed += len(q.Missed)
	s.Drafted += q.Drafted
	if q.Needless() {
		s.Needless++
	}
	if q.Kept {
		s.Kept++
	}
	s.addOutcome(q)
}

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
	s.Exposed += q.Exposed
	s.Lost += q.Exposed
	if s.Err == nil {
		s.Err = q.Err
	}
}
