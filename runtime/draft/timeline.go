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

func (r *decodeRun) traceRows(rows []*node, leaves int) []Drafted {
	if !r.Trace {
		return nil
	}
	if len(rows) > cap(r.traced)-len(r.traced) {
		r.traced = make([]Drafted, 0, max(64, len(rows)))
	}
	begin := len(r.traced)
	for i, n := range rows {
		r.traced = append(r.traced, Drafted{
			ID: n.id, Parent: n.parent.id, Pos: n.pos, Token: n.token, Guess: i >= leaves,
		})
	}
	return r.traced[begin:len(r.traced):len(r.traced)]
}
