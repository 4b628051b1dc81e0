package answer

import (
	"context"
	"errors"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// thoughtEnd is the mark after a thought.
const thoughtEnd = "</think>"

// thinking is the state of the thought with which an answer may begin.
type thinking struct {
	open  bool   // the last token belongs to a thought that has no end yet
	marks string // the text of the marks so far
	held  string // blanks at the end of the thought so far: the last ones are left out
	shown bool   // something of the thought was emitted
}

func (a *Answer) consumeThought(t engine.Token) (is bool, err error) {
	if t.Kind == "" {
		a.open = false
		return false, nil
	}
	a.Total.Thought++
	if err := a.show(t); err != nil {
		return true, err
	}
	if t.Kind == string(tokenizer.Mark) {
		a.marks += t.Text
	}
	a.open = !strings.Contains(a.marks, thoughtEnd)
	if t.Kind == string(tokenizer.Thought) {
		err = a.emitThought(t.Text)
	}
	return true, err
}

func (a *Answer) emitThought(text string) error {
	if text = a.held + text; !a.shown {
		text = strings.TrimLeft(text, blanks)
	}
	kept := strings.TrimRight(text, blanks)
	if a.held = text[len(kept):]; kept == "" || a.Hidden {
		return nil
	}
	a.shown = true
	return a.Emit(Piece{Text: kept, Thought: true})
}

// mustThinkFirst reports whether the thought must be generated on its own: what follows it has a format that it has
// not, or it is limited.
func (a *Answer) mustThinkFirst() bool {
	return a.Thinks && !a.None && (a.Budget > 0 || a.Settings.Structured() || a.Forced)
}

// generateThought generates the thought, if the model thinks, up to the beginning of the answer. It returns why the
// answer ends with it, also with an error, or "" if the answer follows.
func (a *Answer) generateThought(ctx context.Context) (finish string, err error) {
	var out error
	sum, err := a.generateStretch(ctx, a.unformattedSettings(), func(t engine.Token) bool {
		var is bool
		if is, out = a.consumeThought(t); !is {
			a.IDs = a.IDs[:len(a.IDs)-1] // of the answer, which has its own settings
		}
		return is && out == nil && !(a.open && a.Budget > 0 && a.Total.Thought >= a.Budget)
	})
	if err = errors.Join(err, out); err != nil || finishReason(sum) == FinishLength {
		return FinishLength, err
	}
	if !a.open {
		return "", nil
	}
	end, err := a.Model.Tokenize("\n"+thoughtEnd+"\n\n", false)
	if err != nil || !a.appendTokens(end) {
		return FinishLength, err
	}
	a.Total.Thought += len(end)
	a.open = false
	return "", nil
}
