package answer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Piece is the next piece of an answer.
type Piece struct {
	Text   string
	Tokens []engine.Token // of the text
	Prompt []engine.Token // with their log-probabilities, in the first piece, if requested
	// Thought says that the text is a part of what the model thinks before it answers. It has no tokens.
	Thought bool
	Call    *CallPiece
}

// CallPiece is the next piece of a call.
type CallPiece struct {
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
	Settings terms.Settings
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
	// Shown is called with the tokens of thoughts, of their marks and of calls, which pieces do not have; nil: not.
	Shown func(engine.Token) error
	Cut   bool // the answer has ended within a call

	IDs       []int32        // of the answer so far
	made      int            // calls
	Total     engine.Summary // of all stretches; Text, Tokens and AnswerAt are not set
	stretches int

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
		if err := a.scorePrompt(ctx); err != nil {
			return "", err
		}
	}
	if a.mustThinkFirst() {
		if finish, err := a.generateThought(ctx); finish != "" {
			return finish, err
		}
	}
	switch {
	case a.None:
		return FinishLength, nil
	case a.Calls.One == nil:
		return a.generateText(ctx)
	case a.Forced:
		return a.generateCall(ctx, a.Calls.One)
	case a.Settings.Structured():
		return a.generateCallOrText(ctx)
	}
	return a.generateUntilCall(ctx)
}

// scorePrompt emits the log-probabilities of the prompt, which it computes anew for that.
func (a *Answer) scorePrompt(ctx context.Context) error {
	var all []engine.Token
	for t, err := range a.Session.Score(ctx, a.Prompt, a.Settings.Top) {
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	return a.Emit(Piece{Prompt: all})
}

func (a *Answer) generateStretch(
	ctx context.Context, s terms.Settings, visit func(engine.Token) bool,
) (engine.Summary, error) {
	if s.MaxTokens > 0 {
		if s.MaxTokens -= len(a.IDs); s.MaxTokens <= 0 {
			a.Total.Stop = engine.StopLength
			return engine.Summary{Stop: engine.StopLength}, nil
		}
	}
	prompt := append(append([]int32{}, a.Prompt...), a.IDs...)
	if len(prompt) >= a.Model.Context() {
		a.Total.Stop = engine.StopContext
		return engine.Summary{Stop: engine.StopContext}, nil
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
	a.addStretch(sum)
	return sum, err
}

// addStretch adds the figures of a stretch. What it reads after the prompt of the answer is part of decoding.
func (a *Answer) addStretch(s engine.Summary) {
	total, figures := &a.Total, s.Routing
	figures.PromptTokens, figures.Thought = len(a.Prompt), 0 // thoughts are counted when they are consumed
	figures.ReusedTokens = min(s.ReusedTokens, len(a.Prompt))
	if a.Score {
		figures.ReusedTokens = 0
	}
	total.Verified = s.Verified && (total.Verified || a.stretches == 0)
	if a.stretches++; a.stretches > 1 {
		figures.PromptTokens, figures.ReusedTokens = 0, 0
		figures.PromptTime, figures.DecodeTime = 0, s.PromptTime+s.DecodeTime
		figures.Passes++
	}
	total.Routing.Plus(figures)
	total.Stop, total.Stopped, total.Shortened, total.Closed = s.Stop, s.Stopped, s.Shortened, s.Closed
	total.CloudTokens += s.CloudTokens
	total.Timeouts += s.Timeouts
	total.Unlike = total.Unlike || s.Unlike
	total.Err = cmp.Or(total.Err, s.Err)
	total.Receipt = total.Receipt.Plus(s.Receipt)
	total.Spent.Tokens += s.Spent.Tokens
	total.Spent.Escalations += s.Spent.Escalations
	total.Spent.Confidences = append(total.Spent.Confidences, s.Spent.Confidences...)
}

// appendTokens appends tokens that the model did not choose. It returns false if they do not fit with one more token.
func (a *Answer) appendTokens(ids []int32) bool {
	if a.Settings.MaxTokens > 0 && len(a.IDs)+len(ids) >= a.Settings.MaxTokens {
		a.Total.Stop = engine.StopLength
		return false
	}
	a.IDs = append(a.IDs, ids...)
	return true
}

func (a *Answer) unformattedSettings() terms.Settings {
	s := a.Settings
	s.Schema, s.JSON, s.Closed, s.Call, s.Stop, s.LogProbs, s.Top = nil, false, false, false, nil, false, 0
	return s
}

func (a *Answer) generateText(ctx context.Context) (string, error) {
	var sent int
	var out error
	cut := "" // why the text ends before the model ends it
	sum, err := a.generateStretch(ctx, a.Settings, func(t engine.Token) bool {
		if slices.Contains(a.Ends, t.ID) {
			cut = engine.StopEnd
			return false
		}
		sent += len(t.Text)
		var is bool
		if is, out = a.consumeThought(t); is {
			return out == nil
		}
		if a.Lines != nil {
			var over bool
			if t.Text, over = a.Lines.Take(t.Text); over {
				cut = engine.StopLength
			}
		}
		out = a.Emit(Piece{Text: t.Text, Tokens: []engine.Token{t}})
		return out == nil && cut == ""
	})
	if err = errors.Join(err, out); err != nil {
		return "", err
	}
	a.Total.Ignored = sum.Ignored
	if end := a.Session.End(); a.Score && end != nil { // clients that score the prompt drop the last token
		err = a.Emit(Piece{Tokens: []engine.Token{*end}})
	}
	if cut != "" {
		sum.Stop, a.Total.Stop = cut, cut
	} else if sent < len(sum.Text) && a.open {
		err = a.emitThought(sum.Text[sent:])
	} else if sent < len(sum.Text) { // the text that was held back
		err = a.Emit(Piece{Text: sum.Text[sent:]})
	}
	return a.answerFinish(sum), err
}

// answerFinish is the finish reason of the whole answer: after a call it tells clients to answer that.
func (a *Answer) answerFinish(s engine.Summary) string {
	if finish := finishReason(s); finish == FinishLength || a.made == 0 {
		return finish
	}
	return FinishCalls
}

func finishReason(s engine.Summary) string {
	if s.Stop == engine.StopLength || s.Stop == engine.StopContext {
		return FinishLength
	}
	return finishStop
}

func (a *Answer) generateUntilCall(ctx context.Context) (string, error) {
	scan := &callFinder{names: a.toolNames()}
	var tokens []engine.Token // with text that is held back
	var out error
	begin, sent, found := len(a.IDs), 0, false
	sum, err := a.generateStretch(ctx, a.Settings, func(t engine.Token) bool {
		sent += len(t.Text)
		var is bool
		if is, out = a.consumeThought(t); is {
			return out == nil
		}
		var text string
		text, found = scan.pushText(t.Text)
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
		return a.restartCall(ctx, begin, scan)
	}
	rest := scan.flushPending()
	if sent < len(sum.Text) {
		rest += sum.Text[sent:]
	}
	if a.made > 0 && !scan.hasShownText() && strings.TrimLeft(rest, blanks) == "" {
		rest, tokens = "", nil // blanks between calls are not part of the text
	}
	if a.open {
		return finishReason(sum), a.emitThought(rest)
	}
	if rest != "" || len(tokens) > 0 {
		if err := a.Emit(Piece{Text: rest, Tokens: tokens}); err != nil {
			return "", err
		}
	}
	return a.answerFinish(sum), nil
}

func (a *Answer) toolNames() []string { return slices.Sorted(maps.Keys(a.Calls.Each)) }

// restartCall generates a call after its beginning was found in the text; begin is where the stretch began. The call is
// restarted with its mark, so that its tokens are those that the model was trained on; the name of the tool is kept if
// the model has written it.
func (a *Answer) restartCall(ctx context.Context, begin int, found *callFinder) (string, error) {
	var text []byte
	var starts []int
	for _, id := range a.IDs[begin:] {
		b, err := a.Model.TokenBytes(id)
		if err != nil {
			return "", err
		}
		starts = append(starts, len(text))
		text = append(text, b...)
	}
	mark := bytes.LastIndex(text, []byte(found.rest))
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
		return a.generateCall(ctx, a.Calls.Each[found.name])
	}
	return a.generateCall(ctx, a.Calls.One)
}

// KindCall is the kind of the tokens of a call.
const KindCall = "call"

func (a *Answer) show(t engine.Token) error {
	if a.Shown == nil {
		return nil
	}
	return a.Shown(t)
}

func (a *Answer) generateCall(ctx context.Context, schema []byte) (string, error) {
	mark, err := a.Model.Tokenize(callBegin+"\n", false)
	if err != nil {
		return "", err
	}
	if !a.appendTokens(mark) {
		a.Cut = true
		return FinishLength, nil
	}
	s := a.unformattedSettings()
	s.Schema, s.Closed, s.Call = schema, true, true
	scan, index, sent := a.newCallReader(ctx), a.made, 0
	var out error
	tell := func(text string) {
		named, arguments, err := scan.pushPiece(text)
		switch {
		case err != nil:
			out = err
		case named:
			a.made++
			out = a.Emit(Piece{Call: &CallPiece{index, scan.function(), arguments}})
		case arguments != "":
			out = a.Emit(Piece{Call: &CallPiece{Index: index, Arguments: arguments}})
		}
	}
	sum, err := a.generateStretch(ctx, s, func(t engine.Token) bool {
		sent += len(t.Text)
		t.Kind = KindCall
		if out = a.show(t); out == nil {
			tell(t.Text)
		}
		return out == nil
	})
	if err == nil && out == nil && sent < len(sum.Text) {
		tell(sum.Text[sent:])
	}
	if err = errors.Join(err, out); err != nil {
		return "", err
	}
	if finishReason(sum) == FinishLength {
		a.Cut = scan.checkComplete() != nil
		return FinishLength, nil
	}
	if err := scan.checkComplete(); err != nil {
		return "", fmt.Errorf("parse the model's tool call: %w", err)
	}
	return a.continueAfterCall(ctx, scan.end())
}

// continueAfterCall appends the mark after a call, and generates what follows.
func (a *Answer) continueAfterCall(ctx context.Context, mark string) (string, error) {
	if a.Single || a.Forced {
		return FinishCalls, nil
	}
	if a.made >= maxCalls {
		return FinishCalls, nil
	}
	end, err := a.Model.Tokenize(mark, false)
	if err != nil {
		return "", err
	}
	if !a.appendTokens(end) {
		return FinishLength, nil
	}
	if a.Settings.Structured() {
		return a.generateCallOrText(ctx)
	}
	return a.generateUntilCall(ctx)
}

// generateCallOrText generates a call, or a text in the format: the first tokens of the model decide which.
func (a *Answer) generateCallOrText(ctx context.Context) (string, error) {
	begin, found := len(a.IDs), false
	scan := &callFinder{names: a.toolNames()}
	s := a.unformattedSettings() // in the format it could not call a tool
	sum, err := a.generateStretch(ctx, s, func(t engine.Token) bool {
		_, found = scan.pushText(t.Text)
		return !found && !scan.hasShownText()
	})
	if err != nil {
		return "", err
	}
	switch {
	case found:
		return a.restartCall(ctx, begin, scan)
	case a.made > 0 && sum.Stop == engine.StopEnd:
		return FinishCalls, nil
	}
	a.IDs = a.IDs[:begin]
	return a.generateText(ctx)
}
