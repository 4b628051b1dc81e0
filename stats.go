package pilotfish

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Stats describes one answer.
type Stats struct {
	Text         string        // the whole text, including the rest of an incomplete character at the end
	Stop         string        // why it ended: "end", "stop", "length", "context"; "" while it runs and after an error
	Stopped      string        // with "stop": the stop string that ended it
	PromptTokens int           // tokens of the prompt
	ReusedTokens int           // of these, tokens that were known from before
	Shortened    bool          // [Settings].Complete ended a value: it may lack something, and Stop is why
	Ignored      []string      // paths of keywords of [Settings].Schema that have no effect; at most 100
	Tokens       int           // tokens generated, the end token not counted
	Thought      int           // of these, those of a thought before the answer, with its marks
	CloudTokens  int           // of these, chosen by the large model
	Timeouts     int           // of these, tokens that the small model chose as the large one did not answer in time
	Verified     bool          // the large model verified the tokens before they were shown
	Unlike       bool          // the last answers are unlike those that the router's certificate is for
	Passes       int           // forward calls of the small model after the prompt
	Proposed     int           // guesses from the text that were evaluated in them: see [Settings].Lookup
	Accepted     int           // of these, those that held: tokens without a call of their own
	RanAhead     int           // tokens that a GPU began to evaluate before they were certain to follow
	RanInVain    int           // how often such a token did not follow
	PromptTime   time.Duration // from the call until the first token was known
	DecodeTime   time.Duration // from then on
	Err          error         // the first reason why the large model did not answer, or a drafter ended; nil: none
	Receipt      Receipt       // what has left this device, once the answer is over

	// Routing has the sums of all questions to the large model, and of all that was drafted, once the answer is over.
	// It is zero without a large model and without a drafter.
	Routing
	// Spent is what the answer adds to the [Balance] of its router, once it is over; zero without a budget.
	Spent router.Answer

	AnswerAt int  // where the answer begins in Text, in bytes: after a thought and its marks
	Closed   bool // Shortened, with an end token after the value
}

// Answer returns the text without a thought before it.
func (s Stats) Answer() string { return engine.Summary(s).Answer() }

// PassesPerToken is the number of forward calls per token after the prompt's token, an end token included: 1 if every
// token has a call of its own, and 0 if none follows.
func (s Stats) PassesPerToken() float64 { return engine.Summary(s).PassesPerToken() }

// Routing is what [Stats] say of the large model and of drafts.
type Routing = draft.Summary

// Receipt says how much of a text has left this device for an answer: tokens, bytes, and the address.
type Receipt = engine.Receipt

// Values of [Stats].Stop.
const (
	StopEnd     = "end"     // an end token
	StopString  = "stop"    // one of [Settings].Stop
	StopLength  = "length"  // as many tokens as [Settings].MaxTokens
	StopContext = "context" // the context is full
)
