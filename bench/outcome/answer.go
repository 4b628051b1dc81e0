package outcome

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Answer is the result of one question.
type Answer struct {
	IDs      []int32
	Origins  []string
	Prompt   int  // in tokens
	Known    bool // whether there is a right answer
	Correct  bool
	Pictured bool // keep spans
	Took     time.Duration
	Begin    time.Time
	Shown    []time.Duration // since begin, of each token
	CPU      time.Duration   // of this process; 0 if unknown
	Tally    Tally

	Question, Repetition int
	spans                waterfall
}

// Show records that a token is shown now.
func (a *Answer) Show() { a.Shown = append(a.Shown, time.Since(a.Begin)) }

// Observe handles an event.
func (a *Answer) Observe(e draft.Event) {
	a.Tally.Add(e)
	if a.Pictured {
		a.spans.addEvent(e)
	}
}
