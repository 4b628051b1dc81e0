package tokenizer

import (
	"bytes"
	"slices"
)

// Kind is what a token of an answer belongs to.
type Kind string

// The kinds.
const (
	Answer  Kind = ""        // the answer itself
	Thought Kind = "thought" // what the model thinks before it answers
	Mark    Kind = "mark"    // <think> and </think>, and the blank tokens after each
)

// Thoughts tells the tokens of a thought from those of the answer after it. A thought begins with the token <think>, in
// the prompt or as the first token of the answer, and ends with </think>.
type Thoughts struct {
	t           *Tokenizer
	open, close int32
	state       thoughtState
}

// thoughtState is where in an answer the next token is.
type thoughtState int

const (
	settled thoughtState = iota // in the answer: nothing is a thought any more
	atStart                     // at the beginning, where <think> may follow
	opened                      // after <think>, or blanks after it
	inside
	closed // after </think>
)

// Thoughts returns the state after a prompt. Only the text after its last control token counts: that of the template,
// with which the answer begins.
func (t *Tokenizer) Thoughts(prompt []int32) *Thoughts {
	th := &Thoughts{t: t, open: t.vocab.lookupToken([]byte("<think>")), close: t.vocab.lookupToken([]byte("</think>"))}
	if !t.Thinks() {
		return th
	}
	last := len(prompt) - 1
	for last >= 0 && !t.IsControl(prompt[last]) {
		last--
	}
	th.state = atStart
	begun := prompt[last+1:]
	at := slices.IndexFunc(begun, func(id int32) bool { return id == th.open || id == th.close })
	if at < 0 {
		return th
	}
	for _, id := range begun[at:] {
		th.advanceState(id)
	}
	if th.state == closed {
		th.state = settled
	}
	return th
}

// Thinks reports whether the vocabulary has tokens that mark thoughts.
func (t *Tokenizer) Thinks() bool {
	for _, mark := range []string{"<think>", "</think>"} {
		if !t.vocab.hasKind(t.vocab.lookupToken([]byte(mark)), userDefined|control) {
			return false
		}
	}
	return true
}

// May reports whether the next token can belong to a thought.
func (th *Thoughts) May() bool { return th.state != settled }

// Next returns the kind of the next token.
func (th *Thoughts) Next(id int32) Kind {
	if th.state == settled {
		return Answer
	}
	return th.advanceState(id)
}

func (th *Thoughts) advanceState(id int32) Kind {
	blank := len(bytes.TrimSpace(th.t.Bytes(id))) == 0
	switch {
	case id == th.close && (th.state == opened || th.state == inside):
		th.state = closed
	case id == th.open && th.state == atStart:
		th.state = opened
	case blank && (th.state == opened || th.state == closed):
	case th.state == opened || th.state == inside:
		th.state = inside
		return Thought
	default:
		th.state = settled
		return Answer
	}
	return Mark
}
