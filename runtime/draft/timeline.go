package draft

import "time"

// Prompt describes the forward calls of the prompt.
type Prompt struct {
	Tokens      int
	Began, Took time.Duration // Began: since the call of [Decoder.Decode]
}

// Drafted is a row of a [Pass]: a token, and the node of the draft tree that it is.
type Drafted struct {
	ID, Parent ID // Parent is 0 for the first node after the prompt
	Pos        int
	Token      int32
	Guess      bool // from the text
}

// Waited is a time in which the decoder had nothing to draft.
type Waited struct {
	Pos         int // of the oldest open escalation
	Began, Took time.Duration
}

// Rollback describes nodes of the draft tree that were dropped: a branch that an answer contradicts, or the rest at the
// end of the text.
type Rollback struct {
	Pos   int  // of the first of them
	Of    int  // position of the escalation with that answer; 0: none
	Nodes []ID // that were evaluated; there may be none
}
