package outcome

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Answer is the result of one question.
type Answer struct {
	IDs      []int32
	Origins  []string
	Known    bool // whether there is a right answer
	Correct  bool
	Pictured bool // keep spans
	Took     time.Duration
	Begin    time.Time
	Shown    []time.Duration // since begin, of each token
	CPU      time.Duration   // of this process; 0 if unknown
	Figures  draft.Summary

	Question, Repetition int
	spans                waterfall
}

// Show records that a token is shown now.
func (a *Answer) Show() { a.Shown = append(a.Shown, time.Since(a.Begin)) }

// Observe handles an event of an answer whose spans are kept.
func (a *Answer) Observe(e draft.Event) {
	if a.Pictured {
		a.spans.addEvent(e)
	}
}

// CloudFigures returns the figures of a text of the large model alone. ended says that an end token follows the tokens.
func CloudFigures(prompt, tokens int, ended bool) draft.Summary {
	if ended {
		tokens++
	}
	return draft.Summary{PromptTokens: prompt, Prefilled: prompt, Tokens: tokens, Cloud: tokens, Decoded: tokens}
}
