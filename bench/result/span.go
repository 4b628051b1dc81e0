package result

// Span is a part of the time of one answer, for a picture. A span with equal start and end is an event.
type Span struct {
	Start   float64 `json:"start_ms"` // since the answer began
	End     float64 `json:"end_ms"`
	Kind    string  `json:"kind"`              // one of the constants below
	Pos     int     `json:"pos,omitempty"`     // position in the text, including the prompt, of the token concerned
	Rows    int     `json:"rows,omitempty"`    // of a step: evaluated positions; of a rollback: dropped tokens
	Leaves  int     `json:"leaves,omitempty"`  // of a step: branches of the draft that it extended
	Outcome string  `json:"outcome,omitempty"` // of an ask, such as hit; of a shown token: the model that chose it
}

// The kinds of spans.
const (
	SpanPrompt   = "prompt"   // the small model reads the prompt
	SpanStep     = "step"     // one forward pass of the small model
	SpanAsk      = "ask"      // from sending a question until its answer arrived
	SpanWait     = "wait"     // nothing to do but to wait for an answer
	SpanRollback = "rollback" // when drafted tokens were dropped
	SpanTurn     = "turn"     // when verification replaced a token that was not shown yet
	SpanShown    = "shown"    // when a token was shown
)
