package pilotfish

import (
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Stats describes one answer.
type Stats struct {
	Text        string   // the whole text, including the rest of an incomplete character at the end
	Stop        string   // why it ended: "end", "stop", "length", "context"; "" while it runs and after an error
	Stopped     string   // with "stop": the stop string that ended it
	Shortened   bool     // [Settings].Complete ended a value: it may lack something, and Stop is why
	Closed      bool     // Shortened, with an end token after the value
	Ignored     []string // paths of keywords without effect: of [Settings].Schema, and after their names of tools
	AnswerAt    int      // where the answer begins in Text, in bytes: after a thought and its marks
	Tokens      int      // of Text: tokens generated, the end token not counted
	CloudTokens int      // of these, chosen by the large model
	Timeouts    int      // of these, tokens that the small model chose as the large one did not answer in time
	Verified    bool     // the large model verified the tokens before they were shown
	Unlike      bool     // the last answers are unlike those that the router's certificate is for
	Receipt     Receipt  // what has left this device, once the answer is over
	// Spent is what the answer adds to the [Balance] of its router, once it is over; zero without a budget.
	Spent router.Answer
	// Routing has all figures of the answer, once it is over: tokens of the prompt, times, passes, drafts, questions to
	// the large model. Before that it has those of the prompt.
	Routing
}

// Answer returns the text without a thought before it.
func (s Stats) Answer() string { return engine.Summary(s).Answer() }

// PassesPerToken is the number of forward calls per token after the prompt's token, an end token included: 1 if every
// token has a call of its own, and 0 if none follows.
func (s Stats) PassesPerToken() float64 { return engine.Summary(s).PassesPerToken() }

// Routing is the figures of an answer.
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
