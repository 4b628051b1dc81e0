package openai

import "encoding/json"

// result is an answer as far as it has come: its texts and calls, in their order.
type result struct {
	prompt []Token // see [piece]
	parts  []part
	ending
}

// ending is how an answer ended.
type ending struct {
	finish    string // why, as clients are told
	stopped   string // the stop string that ended it; "" where none did
	shortened bool   // see [Summary.Shortened]
	stop      string // see [Summary.Stop]
	sent      Sent   // of the whole request so far
}

// part is a text, or a call of a tool.
type part struct {
	id     string // for shapes that name parts
	tool   string // the name of what is called; "" for a text
	text   []byte // or the arguments of the call
	tokens []Token
}

// take adds a piece, and reports whether a part begins with it.
func (r *result) take(p piece) (begins bool) {
	r.prompt = append(r.prompt, p.prompt...)
	last := len(r.parts) - 1
	switch {
	case p.call != nil:
		begins = p.call.name != ""
	default:
		begins = last < 0 || r.parts[last].tool != ""
	}
	if begins {
		r.parts = append(r.parts, part{})
		last++
	}
	to := &r.parts[last]
	to.text, to.tokens = append(to.text, p.text...), append(to.tokens, p.tokens...)
	if p.call != nil {
		to.tool += p.call.name
		to.text = append(to.text, p.call.arguments...)
	}
	return begins
}

// text is all that is not of calls.
func (r *result) text() (text string, tokens []Token) {
	for _, p := range r.parts {
		if p.tool == "" {
			text += string(p.text)
			tokens = append(tokens, p.tokens...)
		}
	}
	return text, tokens
}

// complete returns a whole answer with at least one part, and a name for each.
func (r result) complete(name func(prefix string) string) result {
	if len(r.parts) == 0 {
		r.take(piece{})
	}
	for i := range r.parts {
		r.parts[i].id = name("")
	}
	return r
}

// parted writes a stream of an answer part by part.
type parted interface {
	begin() []any               // before the first part
	open(i int) []any           // part i begins
	delta(i int, p piece) []any // it goes on
	close(i int) []any          // it is over
}

// tell takes a piece and returns what a stream tells of it.
func (r *result) tell(p piece, to parted) (all []any) {
	if len(r.parts) == 0 {
		all = to.begin()
	}
	begins := r.take(p)
	i := len(r.parts) - 1
	if begins && i > 0 {
		all = append(all, to.close(i-1)...)
	}
	if begins {
		all = append(all, to.open(i)...)
	}
	return append(all, to.delta(i, p)...)
}

// finishes notes how the answer ended, and returns what a stream tells of that. An answer has at least one part.
func (r *result) finishes(e ending, to parted) (all []any) {
	if len(r.parts) == 0 {
		all = r.tell(piece{}, to)
	}
	r.ending = e
	return append(all, to.close(len(r.parts)-1)...)
}

// whole reports whether a part is as the model meant it.
func (r *result) whole(i int) bool {
	return r.finish != finishLength || i < len(r.parts)-1 || r.parts[i].tool != "" && json.Valid(r.parts[i].text)
}
