package result

// Span is a piece of the time of one answer, for a picture of it. One that ends when it begins is a moment.
type Span struct {
	Start   float64 `json:"start_ms"` // since the answer began
	End     float64 `json:"end_ms"`
	Kind    string  `json:"kind"`              // one of the constants below
	Pos     int     `json:"pos,omitempty"`     // in the text, prompt included, of the token that it is about
	Rows    int     `json:"rows,omitempty"`    // of a step: positions that it evaluated; of what is dropped: tokens
	Leaves  int     `json:"leaves,omitempty"`  // of a step: branches of the draft that it made longer
	Outcome string  `json:"outcome,omitempty"` // of an ask, such as hit; of a token shown: who chose it
}

// The kinds of spans.
const (
	SpanPrompt   = "prompt"   // the small model reads the prompt
	SpanStep     = "step"     // one forward call of the small model
	SpanAsk      = "ask"      // from when a question left until its answer was there
	SpanWait     = "wait"     // nothing to do but to wait for an answer
	SpanRollback = "rollback" // the moment when drafted tokens were dropped
	SpanTurn     = "turn"     // the moment when verification replaced a token that was not shown yet
	SpanShown    = "shown"    // the moment when a token was shown
)
