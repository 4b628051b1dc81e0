package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/peterh/liner"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// Replacements for line ends and tabs in an edited line and in the history, since a line cannot contain them.
const (
	shownLineEnd = '␤'
	shownTab     = '␉'
)

func hideControls(text string) string {
	return strings.NewReplacer("\r\n", string(shownLineEnd), "\n", string(shownLineEnd), "\t", string(shownTab)).
		Replace(text)
}

func showControls(line string) string {
	return strings.NewReplacer(string(shownLineEnd), "\n", string(shownTab), "\t").Replace(line)
}

// editor reads lines that can be edited, with a history.
type editor struct {
	a       *cli.App
	ctx     context.Context
	state   *liner.State
	keys    *keyForwarder // the keys of the terminal
	history *history
}

// canEditLines reports whether the library can edit lines: it only supports stdin and stdout of the process.
func canEditLines(a *cli.App, in *os.File) bool {
	out := a.Stdout
	if o, ok := out.(*cli.Output); ok {
		out = o.W
	}
	return in == os.Stdin && out == os.Stdout && liner.TerminalSupported()
}

// newEditor returns an editor of lines. If ctx ends, so does the line that is being read.
func newEditor(ctx context.Context, a *cli.App, remember bool) (*editor, error) {
	e := &editor{a: a, ctx: ctx}
	var err error
	if e.keys, err = newKeyForwarder(ctx); err != nil {
		return nil, fmt.Errorf("read keys from the terminal: %w", err)
	}
	e.state = e.keys.newLinerState()
	e.state.SetCtrlCAborts(true)
	e.state.SetMultiLineMode(true)
	e.state.SetBeep(false)
	e.state.SetTabCompletionStyle(liner.TabPrints)
	e.state.SetCompleter(completeCommand)
	if remember {
		e.loadHistory()
	}
	return e, nil
}

// loadHistory reads the lines of earlier chats. An error is only a warning.
func (e *editor) loadHistory() {
	path, err := historyPath(e.a.Env)
	if err == nil {
		e.history, err = openHistory(path)
	}
	if err != nil {
		fmt.Fprintf(e.a.Stderr, "pilotfish: no history of lines: %v\n", err)
		return
	}
	for _, line := range e.history.lines {
		e.state.AppendHistory(line)
	}
}

func completeCommand(line string) (fit []string) {
	for _, k := range chatCommands() {
		if line != "" && strings.HasPrefix(k.name, line) {
			fit = append(fit, k.name)
		}
	}
	return fit
}

// readLine implements [chatInput]. Pasted lines are one text.
func (e *editor) readLine(prompt string) (text string, err error) {
	e.keys.beginPrompt()
	defer e.keys.endPrompt()
	for more := true; more && err == nil; prompt = promptMore {
		var line string
		line, err = e.state.Prompt(prompt)
		if line, more = strings.CutSuffix(line, pastedEnd); more {
			line += "\n"
			e.keys.beginLine()
		}
		text += line
	}
	switch {
	case e.ctx.Err() != nil:
		if err != nil { // the line is incomplete: the next output starts on a new line
			fmt.Fprintln(e.a.Stderr)
		}
		return "", context.Cause(e.ctx)
	case errors.Is(err, liner.ErrPromptAborted):
		return "", errAborted
	case errors.Is(err, io.EOF):
		fmt.Fprintln(e.a.Stderr)
		return "", io.EOF
	case err != nil:
		return "", fmt.Errorf("read a line from the terminal: %w", err)
	}
	return showControls(strings.ToValidUTF8(text, "\uFFFD")), nil
}

func (e *editor) addToHistory(text string) {
	line := hideControls(text)
	e.state.AppendHistory(line)
	if e.history == nil {
		return
	}
	if err := e.history.appendLine(line); err != nil {
		fmt.Fprintf(e.a.Stderr, "pilotfish: no history of lines from here on: %v\n", err)
		e.history = nil
	}
}

func (e *editor) wasEmpty() bool { return e.keys.isLineEmpty() }

func (e *editor) isInteractive() bool { return true }

// closeInput restores the mode of the terminal.
func (e *editor) closeInput() {
	e.state.Close()
	e.keys.stopForwarding()
}
