package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// piece is what is new of an answer.
type piece struct {
	text   string
	tokens []Token // that the text was made of
	prompt []Token // with their log-probabilities; of the first piece, where these are wanted
	call   *callPiece
}

// callPiece is what is new of a call.
type callPiece struct {
	index     int
	name      string // with the first piece
	arguments string
}

// answer generates one answer of a chat or completion, in one stretch or in several: where the model begins to call a
// tool, it goes on with the grammar of calls, and after that without.
type answer struct {
	model   Model
	session Session
	prompt  []int32
	s       Settings
	calls   callSchemas
	forced  bool       // it must be a call
	single  bool       // at most one
	format  format     // of what is no call
	score   bool       // the prompt's log-probabilities come first
	none    bool       // nothing is generated
	ends    []int32    // tokens that end it, besides the model's own
	lines   *lineLimit // nil: none
	emit    func(piece) error

	ids   []int32 // of the answer so far
	made  int     // calls
	total Summary // of all stretches
	first bool    // the first stretch is over: total.Reused is set
}

// format is the form that an answer is to have.
type format struct {
	at     string // path of the field that asks for it
	schema []byte
	strict bool // objects of the schema are closed: see [Settings].Closed
	json   bool
}

// constrained reports whether the whole answer follows a grammar.
func (f format) constrained() bool { return f.json || f.schema != nil }

// callSchemas are the JSON schemas of calls of tools.
type callSchemas struct {
	one  []byte            // of any call; nil: there are no tools
	each map[string][]byte // by names of tools
}

// maxCalls limits the calls of an answer.
const maxCalls = 128

// Why an answer ended, as clients are told.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishCalls  = "tool_calls"
)

// run generates the answer and returns why it ended.
func (a *answer) run(ctx context.Context) (finish string, err error) {
	if a.score {
		if err := a.scored(ctx); err != nil {
			return "", err
		}
	}
	switch {
	case a.none:
		return finishLength, nil
	case a.calls.one == nil:
		return a.plain(ctx)
	case a.forced:
		return a.call(ctx, a.calls.one)
	case a.format.constrained():
		return a.either(ctx)
	}
	return a.text(ctx)
}

// scored tells the log-probabilities of the prompt, which is read anew for that.
func (a *answer) scored(ctx context.Context) error {
	a.first = true
	var all []Token
	for t, err := range a.session.Score(ctx, a.prompt, a.s.Top) {
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	return a.emit(piece{prompt: all})
}

// stretch generates from where the answer stands, until visit returns false.
func (a *answer) stretch(ctx context.Context, s Settings, visit func(Token) bool) (Summary, error) {
	if s.MaxTokens > 0 {
		if s.MaxTokens -= len(a.ids); s.MaxTokens <= 0 {
			return Summary{Stop: StopLength}, nil
		}
	}
	prompt := append(append([]int32{}, a.prompt...), a.ids...)
	if len(prompt) >= a.model.Context() {
		return Summary{Stop: StopContext}, nil
	}
	var err error
	for t, wrong := range a.session.Generate(ctx, prompt, s) {
		if err = wrong; err != nil {
			break
		}
		a.ids = append(a.ids, t.ID)
		if !visit(t) {
			break
		}
	}
	sum := a.session.Summary()
	if !a.first {
		a.first, a.total.Reused = true, sum.Reused
	}
	a.total.Stop, a.total.Stopped = sum.Stop, sum.Stopped
	a.total.Shortened = a.total.Shortened || sum.Shortened
	a.total.Tokens += sum.Tokens
	a.total.Cloud += sum.Cloud
	a.total.Asks += sum.Asks
	a.total.Sent.add(sum.Sent)
	return sum, err
}

// write puts tokens into the answer that the model did not choose. It reports false where there is no room for them and
// for one more.
func (a *answer) write(ids []int32) bool {
	if a.s.MaxTokens > 0 && len(a.ids)+len(ids) >= a.s.MaxTokens {
		return false
	}
	a.ids = append(a.ids, ids...)
	return true
}

// bare are the settings without those that are of texts alone.
func (a *answer) bare() Settings {
	s := a.s
	s.Schema, s.JSON, s.Closed, s.Stop, s.LogProbs, s.Top = nil, false, false, nil, false, 0
	return s
}

// plain generates a text without calls.
func (a *answer) plain(ctx context.Context) (string, error) {
	s := a.s
	s.JSON, s.Schema, s.Closed = a.format.json, a.format.schema, a.format.strict
	var sent int
	var out error
	cut := "" // why it ends before the model's own end
	sum, err := a.stretch(ctx, s, func(t Token) bool {
		if slices.Contains(a.ends, t.ID) {
			cut = StopEnd
			return false
		}
		sent += len(t.Text)
		if a.lines != nil {
			var over bool
			if t.Text, over = a.lines.take(t.Text); over {
				cut = StopLength
			}
		}
		out = a.emit(piece{text: t.Text, tokens: []Token{t}})
		return out == nil && cut == ""
	})
	if err = errors.Join(err, out); err != nil {
		return "", err
	}
	if a.score && sum.End != nil { // who scores the prompt takes the last token off
		err = a.emit(piece{tokens: []Token{*sum.End}})
	}
	if cut != "" {
		sum.Stop, a.total.Stop = cut, cut
	} else if sent < len(sum.Text) { // what has been held back
		err = a.emit(piece{text: sum.Text[sent:]})
	}
	return finishOf(sum), err
}

// finishOf is why a text ended.
func finishOf(s Summary) string {
	if s.Stop == StopLength || s.Stop == StopContext {
		return finishLength
	}
	return finishStop
}

// text generates a text up to the first call of a tool, and then that.
func (a *answer) text(ctx context.Context) (string, error) {
	scan := &callFinder{names: a.names()}
	var tokens []Token // whose text is held back
	var out error
	begin, sent, found := len(a.ids), 0, false
	sum, err := a.stretch(ctx, a.s, func(t Token) bool {
		sent += len(t.Text)
		var text string
		text, found = scan.push(t.Text)
		tokens = append(tokens, t)
		if text != "" {
			out = a.emit(piece{text: text, tokens: tokens})
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
		rest, tokens = "", nil // blanks alone after calls are none of the text
	}
	if rest != "" || len(tokens) > 0 {
		if err := a.emit(piece{text: rest, tokens: tokens}); err != nil {
			return "", err
		}
	}
	if a.made > 0 && finishOf(sum) == finishStop {
		return finishCalls, nil
	}
	return finishOf(sum), nil
}

// names are those of the tools.
func (a *answer) names() []string { return slices.Sorted(maps.Keys(a.calls.each)) }

// called goes on with the call that was found in the answer after its first tokens: begin is where the stretch began.
// It is begun anew with its mark, so that its tokens are those that the model was trained on; a tool that it named
// stays.
func (a *answer) called(ctx context.Context, begin int, found *callFinder) (string, error) {
	var text []byte
	var starts []int
	for _, id := range a.ids[begin:] {
		starts = append(starts, len(text))
		text = append(text, a.model.Bytes(id)...)
	}
	mark := bytes.LastIndex(text, []byte(found.mark))
	if mark < 0 {
		return "", fmt.Errorf("%d tokens do not make the text that they made", len(a.ids)-begin)
	}
	at := len(starts) - 1
	for starts[at] > mark {
		at--
	}
	before, err := a.model.Tokenize(string(text[starts[at]:mark]), false)
	if err != nil {
		return "", err
	}
	a.ids = append(a.ids[:begin+at], before...)
	if found.name != "" {
		return a.call(ctx, a.calls.each[found.name])
	}
	return a.call(ctx, a.calls.one)
}

// call generates a call of a tool by a schema, and what follows it.
func (a *answer) call(ctx context.Context, schema []byte) (string, error) {
	mark, err := a.model.Tokenize(callBegin+"\n", false)
	if err != nil {
		return "", err
	}
	if !a.write(mark) {
		return finishLength, nil
	}
	s := a.bare()
	s.Schema, s.Closed = schema, true
	scan := newCallScanner()
	index, sent := a.made, 0
	var out error
	tell := func(text string) {
		named, arguments, err := scan.push(text)
		switch {
		case err != nil:
			out = err
		case named:
			a.made++
			out = a.emit(piece{call: &callPiece{index, scan.name, arguments}})
		case arguments != "":
			out = a.emit(piece{call: &callPiece{index: index, arguments: arguments}})
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
	if finishOf(sum) == finishLength {
		return finishLength, nil
	}
	if err := scan.complete(); err != nil {
		return "", fmt.Errorf("the model wrote a call: %w", err)
	}
	return a.after(ctx)
}

// after goes on behind a call, if there may be more.
func (a *answer) after(ctx context.Context) (string, error) {
	if a.single || a.forced {
		return finishCalls, nil
	}
	if a.made >= maxCalls {
		return finishCalls, nil
	}
	end, err := a.model.Tokenize("\n"+callEnd, false)
	if err != nil {
		return "", err
	}
	if !a.write(end) {
		return finishLength, nil
	}
	if a.format.constrained() {
		return a.either(ctx)
	}
	return a.text(ctx)
}

// either generates a call, or a text that follows the format: the model's own beginning decides.
func (a *answer) either(ctx context.Context) (string, error) {
	begin, found := len(a.ids), false
	scan := &callFinder{names: a.names()}
	sum, err := a.stretch(ctx, a.bare(), func(t Token) bool { // within the format there would be no call
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
		return finishCalls, nil
	}
	a.ids = a.ids[:begin]
	return a.plain(ctx)
}
