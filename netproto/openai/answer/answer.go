package answer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Piece is the next piece of an answer.
type Piece struct {
	Text   string
	Tokens []Token // of the text
	Prompt []Token // with their log-probabilities, in the first piece, if requested
	// Thought says that the text is a part of what the model thinks before it answers. It has no tokens.
	Thought bool
	Call    *callPiece
}

// callPiece is the next piece of a call.
type callPiece struct {
	Index     int
	Name      string // in the first piece
	Arguments string
}

// Answer generates one answer of a chat or completion, in one or more stretches: where the model begins to call a tool,
// a new stretch uses the grammar of calls, and another one continues without it.
type Answer struct {
	Model    Model
	Session  Session
	Prompt   []int32
	Settings Settings
	Calls    Calls
	Forced   bool    // the answer must be a call
	Single   bool    // at most one call
	Score    bool    // return the log-probabilities of the prompt first
	None     bool    // generate nothing
	Ends     []int32 // tokens that end the answer, in addition to the model's own
	Lines    *Lines  // nil: no limit
	Thinks   bool    // the model may think before it answers
	Budget   int     // maximum number of tokens of a thought; 0: no limit
	Hidden   bool    // do not emit thoughts
	Emit     func(Piece) error

	IDs   []int32 // of the answer so far
	made  int     // calls
	Total Summary // of all stretches
	first bool    // the first stretch has ended: Total.Reused is set

	thinking
}

// Calls are the JSON schemas of tool calls.
type Calls struct {
	One  []byte            // of any call; nil: no tools
	Each map[string][]byte // by name of the tool
}

// maxCalls limits the calls of an answer.
const maxCalls = 128

// Values of finish_reason.
const (
	finishStop   = "stop"
	FinishLength = "length"
	FinishCalls  = "tool_calls"
)

// Run generates the answer and returns why it ended.
func (a *Answer) Run(ctx context.Context) (finish string, err error) {
	if a.Score {
		if err := a.scored(ctx); err != nil {
			return "", err
		}
	}
	if a.thinksFirst() {
		if finish, err := a.thoughts(ctx); finish != "" {
			return finish, err
		}
	}
	switch {
	case a.None:
		return FinishLength, nil
	case a.Calls.One == nil:
		return a.plain(ctx)
	case a.Forced:
		return a.call(ctx, a.Calls.One)
	case a.Settings.Structured():
		return a.either(ctx)
	}
	return a.text(ctx)
}

// scored emits the log-probabilities of the prompt, which it computes anew for that.
func (a *Answer) scored(ctx context.Context) error {
	a.first = true
	var all []Token
	for t, err := range a.Session.Score(ctx, a.Prompt, a.Settings.Top) {
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	return a.Emit(Piece{Prompt: all})
}

// stretch generates from the end of the answer, until visit returns false.
func (a *Answer) stretch(ctx context.Context, s Settings, visit func(Token) bool) (Summary, error) {
	if s.MaxTokens > 0 {
		if s.MaxTokens -= len(a.IDs); s.MaxTokens <= 0 {
			return Summary{Stop: StopLength}, nil
		}
	}
	prompt := append(append([]int32{}, a.Prompt...), a.IDs...)
	if len(prompt) >= a.Model.Context() {
		return Summary{Stop: StopContext}, nil
	}
	var err error
	for t, wrong := range a.Session.Generate(ctx, prompt, s) {
		if err = wrong; err != nil {
			break
		}
		a.IDs = append(a.IDs, t.ID)
		if !visit(t) {
			break
		}
	}
	sum := a.Session.Summary()
	if !a.first {
		a.first, a.Total.Reused = true, min(sum.Reused, len(a.Prompt)) // written tokens are no prompt
	}
	a.Total.Stop, a.Total.Stopped, a.Total.Shortened = sum.Stop, sum.Stopped, sum.Shortened
	a.Total.Cloud += sum.Cloud
	a.Total.Asks += sum.Asks
	a.Total.Sent.Add(sum.Sent)
	return sum, err
}

// write appends tokens that the model did not choose. It returns false if they do not fit with one more token.
func (a *Answer) write(ids []int32) bool {
	if a.Settings.MaxTokens > 0 && len(a.IDs)+len(ids) >= a.Settings.MaxTokens {
		return false
	}
	a.IDs = append(a.IDs, ids...)
	return true
}

// bare returns the settings without those that only apply to texts.
func (a *Answer) bare() Settings {
	s := a.Settings
	s.Schema, s.JSON, s.Closed, s.Stop, s.LogProbs, s.Top = nil, false, false, nil, false, 0
	return s
}

// plain generates a text without calls.
func (a *Answer) plain(ctx context.Context) (string, error) {
	var sent int
	var out error
	cut := "" // why the text ends before the model ends it
	sum, err := a.stretch(ctx, a.Settings, func(t Token) bool {
		if slices.Contains(a.Ends, t.ID) {
			cut = StopEnd
			return false
		}
		sent += len(t.Text)
		var is bool
		if is, out = a.isThought(t); is {
			return out == nil
		}
		if a.Lines != nil {
			var over bool
			if t.Text, over = a.Lines.Take(t.Text); over {
				cut = StopLength
			}
		}
		out = a.Emit(Piece{Text: t.Text, Tokens: []Token{t}})
		return out == nil && cut == ""
	})
	if err = errors.Join(err, out); err != nil {
		return "", err
	}
	if a.Score && sum.End != nil { // clients that score the prompt drop the last token
		err = a.Emit(Piece{Tokens: []Token{*sum.End}})
	}
	if cut != "" {
		sum.Stop, a.Total.Stop = cut, cut
	} else if sent < len(sum.Text) && a.open {
		err = a.think(sum.Text[sent:])
	} else if sent < len(sum.Text) { // the text that was held back
		err = a.Emit(Piece{Text: sum.Text[sent:]})
	}
	return a.finished(sum), err
}

// finished is finishOf for the end of the answer: after a call it tells clients to answer that.
func (a *Answer) finished(s Summary) string {
	if finish := finishOf(s); finish == FinishLength || a.made == 0 {
		return finish
	}
	return FinishCalls
}

// finishOf returns why a text ended, as a finish_reason.
func finishOf(s Summary) string {
	if s.Stop == StopLength || s.Stop == StopContext {
		return FinishLength
	}
	return finishStop
}

// text generates a text up to the first tool call, and then the call.
func (a *Answer) text(ctx context.Context) (string, error) {
	scan := &callFinder{names: a.names()}
	var tokens []Token // with text that is held back
	var out error
	begin, sent, found := len(a.IDs), 0, false
	sum, err := a.stretch(ctx, a.Settings, func(t Token) bool {
		sent += len(t.Text)
		var is bool
		if is, out = a.isThought(t); is {
			return out == nil
		}
		var text string
		text, found = scan.push(t.Text)
		tokens = append(tokens, t)
		if text != "" {
			out = a.Emit(Piece{Text: text, Tokens: tokens})
			tokens = nil
		}
		return out == nil && !found
	})
	if err = errors.Join(err, out); err != nil {
		return "", err
	}
	if found {
		return a.called(ctx, begin, scan)
	}
	rest := scan.flush()
	if sent < len(sum.Text) {
		rest += sum.Text[sent:]
	}
	if a.made > 0 && !scan.begun() && strings.TrimLeft(rest, blanks) == "" {
		rest, tokens = "", nil // blanks between calls are not part of the text
	}
	if a.open {
		return finishOf(sum), a.think(rest)
	}
	if rest != "" || len(tokens) > 0 {
		if err := a.Emit(Piece{Text: rest, Tokens: tokens}); err != nil {
			return "", err
		}
	}
	return a.finished(sum), nil
}

func (a *Answer) names() []string { return slices.Sorted(maps.Keys(a.Calls.Each)) }

// called generates a call after its beginning was found in the text; begin is where the stretch began. The call is
// restarted with its mark, so that its tokens are those that the model was trained on; the name of the tool is kept if
// the model has written it.
func (a *Answer) called(ctx context.Context, begin int, found *callFinder) (string, error) {
	var text []byte
	var starts []int
	for _, id := range a.IDs[begin:] {
		starts = append(starts, len(text))
		text = append(text, a.Model.Bytes(id)...)
	}
	mark := bytes.LastIndex(text, []byte(found.mark))
	if mark < 0 {
		return "", fmt.Errorf("%d tokens detokenize to another text than before", len(a.IDs)-begin)
	}
	at := len(starts) - 1
	for starts[at] > mark {
		at--
	}
	before, err := a.Model.Tokenize(string(text[starts[at]:mark]), false)
	if err != nil {
		return "", err
	}
	a.IDs = append(a.IDs[:begin+at], before...)
	if found.name != "" {
		return a.call(ctx, a.Calls.Each[found.name])
	}
	return a.call(ctx, a.Calls.One)
}

// call generates a tool call by a schema, and what follows it.
func (a *Answer) call(ctx context.Context, schema []byte) (string, error) {
	mark, err := a.Model.Tokenize(callBegin+"\n", false)
	if err != nil {
		return "", err
	}
	if !a.write(mark) {
		return FinishLength, nil
	}
	s := a.bare()
	s.Schema, s.Closed = schema, true
	scan := new(callScanner)
	index, sent := a.made, 0
	var out error
	tell := func(text string) {
		named, arguments, err := scan.push(text)
		switch {
		case err != nil:
			out = err
		case named:
			a.made++
			out = a.Emit(Piece{Call: &callPiece{index, scan.name, arguments}})
		case arguments != "":
			out = a.Emit(Piece{Call: &callPiece{Index: index, Arguments: arguments}})
		}
	}
	sum, err := a.stretch(ctx, s, func(t Token) bool {
		sent += len(t.Text)
		tell(t.Text)
		return out == nil
	})
	if err == nil && out == nil && sent < len(sum.Text) {
		tell(sum.Text[sent:])
	}
	if err = errors.Join(err, out); err != nil {
		return "", err
	}
	if finishOf(sum) == FinishLength {
		return FinishLength, nil
	}
	if err := scan.complete(); err != nil {
		return "", fmt.Errorf("parse the model's tool call: %w", err)
	}
	return a.after(ctx)
}

// after continues after a call, if more may follow.
func (a *Answer) after(ctx context.Context) (string, error) {
	if a.Single || a.Forced {
		return FinishCalls, nil
	}
	if a.made >= maxCalls {
		return FinishCalls, nil
	}
	end, err := a.Model.Tokenize("\n"+callEnd, false)
	if err != nil {
		return "", err
	}
	if !a.write(end) {
		return FinishLength, nil
	}
	if a.Settings.Structured() {
		return a.either(ctx)
	}
	return a.text(ctx)
}

// either generates a call, or a text in the format: the first tokens of the model decide which.
func (a *Answer) either(ctx context.Context) (string, error) {
	begin, found := len(a.IDs), false
	scan := &callFinder{names: a.names()}
	sum, err := a.stretch(ctx, a.bare(), func(t Token) bool { // in the format it could not call a tool
		_, found = scan.push(t.Text)
		return !found && !scan.begun()
	})
	if err != nil {
		return "", err
	}
	switch {
	case found:
		return a.called(ctx, begin, scan)
	case a.made > 0 && sum.Stop == StopEnd:
		return FinishCalls, nil
	}
	a.IDs = a.IDs[:begin]
	return a.plain(ctx)
}
