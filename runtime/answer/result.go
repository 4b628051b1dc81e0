package answer

import (
	"encoding/json"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Result is an answer so far: its texts and calls, in order.
type Result struct {
	Prompt []engine.Token // see [piece]
	Parts  []Part
	Ending
}

// Ending is how an answer ended.
type Ending struct {
	Finish    string         // the reason, as clients see it
	Stopped   string         // the stop string that ended it; "" if none did
	Shortened bool           // see [Summary.Shortened]
	Stop      string         // see [Summary.Stop]
	Sent      engine.Receipt // of the whole request so far
}

// Part is a text, or a call of a tool.
type Part struct {
	ID   string // for an API that names parts
	Tool string // name of the called tool; "" for a text
	// Thought says that the text is what the model thought before it answered.
	Thought bool
	Text    []byte // or the arguments of the call
	Tokens  []engine.Token
}

// Take adds a piece, and reports whether it begins a new part.
func (r *Result) Take(p Piece) (begins bool) {
	r.Prompt = append(r.Prompt, p.Prompt...)
	last := len(r.Parts) - 1
	switch {
	case p.Call != nil:
		begins = p.Call.Name != ""
	default:
		begins = last < 0 || r.Parts[last].Tool != "" || r.Parts[last].Thought != p.Thought
	}
	if begins {
		r.Parts = append(r.Parts, Part{Thought: p.Thought})
		last++
	}
	to := &r.Parts[last]
	to.Text, to.Tokens = append(to.Text, p.Text...), append(to.Tokens, p.Tokens...)
	if p.Call != nil {
		to.Tool += p.Call.Name
		to.Text = append(to.Text, p.Call.Arguments...)
	}
	return begins
}

// Thought returns what the model thought before it answered.
func (r *Result) Thought() (text string) {
	for _, p := range r.Parts {
		if p.Thought {
			text += string(p.Text)
		}
	}
	return text
}

// Text returns the texts of the answer, without thoughts and calls.
func (r *Result) Text() (text string, tokens []engine.Token) {
	for _, p := range r.Parts {
		if p.Tool == "" && !p.Thought {
			text += string(p.Text)
			tokens = append(tokens, p.Tokens...)
		}
	}
	return text, tokens
}

// Whole reports whether a part ended as the model intended.
func (r *Result) Whole(i int) bool {
	return r.Finish != FinishLength || i < len(r.Parts)-1 || r.Parts[i].Tool != "" && json.Valid(r.Parts[i].Text)
}
