package serve

import "github.com/pilotfish-ai/pilotfish/runtime/answer"

// partedResult is an answer that is streamed part by part.
type partedResult struct{ answer.Result }

// partWriter writes a stream of an answer part by part.
type partWriter interface {
	openPart(i int) []any                   // part i begins
	writePiece(i int, p answer.Piece) []any // the next piece of part i
	closePart(i int) []any                  // part i ends
}

// completeParts makes a finished answer the result, with at least one part, and a name for each.
func (r *partedResult) completeParts(all answer.Result, newID func(prefix string) string) {
	if r.Result = all; len(r.Parts) == 0 {
		r.Take(answer.Piece{})
	}
	for i := range r.Parts {
		r.Parts[i].ID = newID("")
	}
}

// takeEvents takes a piece and returns the events to stream for it.
func (r *partedResult) takeEvents(p answer.Piece, to partWriter) (all []any) {
	begins := r.Take(p)
	i := len(r.Parts) - 1
	if begins && i > 0 {
		all = append(all, to.closePart(i-1)...)
	}
	if begins {
		all = append(all, to.openPart(i)...)
	}
	return append(all, to.writePiece(i, p)...)
}

// endEvents records how the answer ended, and returns the events to stream for that. An answer has at least one part.
func (r *partedResult) endEvents(e answer.Ending, to partWriter) (all []any) {
	if len(r.Parts) == 0 {
		all = r.takeEvents(answer.Piece{}, to)
	}
	r.Ending = e
	return append(all, to.closePart(len(r.Parts)-1)...)
}
