package bench

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// answer is what became of one question.
type answer struct {
	ids      []int32
	origins  []string
	prompt   int  // its tokens
	known    bool // whether there is a right answer
	correct  bool
	pictured bool // spans are kept
	took     time.Duration
	begin    time.Time
	shown    []time.Duration // since begin, of each token
	used     usage
	tally    Tally
	waits    []time.Duration // of answered questions, exposed

	question, repetition int
	sent, received       int // payload of all questions, answered or not, and of text sent early
	spans                waterfall
	// the cloud was asked for the last token, and no other answer told it
	lastAsked bool
	askedFor  int // position that the cloud was asked for last
}

// show notes that a token is shown now.
func (a *answer) show() { a.shown = append(a.shown, time.Since(a.begin)) }

// observe counts an event.
func (a *answer) observe(e draft.Event) {
	var one draft.Summary
	one.Add(e)
	a.sent, a.received = a.sent+one.BytesUp, a.received+one.BytesDown
	a.tally.Add(e)
	if a.pictured {
		a.spans.observe(e)
	}
	if q := e.Escalation; q != nil && (q.Outcome == draft.Hit || q.Outcome == draft.Miss) {
		a.askedFor = q.Pos
		a.waits = append(a.waits, q.Exposed)
	}
	if t := e.Token; t != nil {
		a.lastAsked = a.askedFor == t.Pos
	}
}
