package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/peterh/liner"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// Characters that stand for line ends and tabs in a line that is edited, and in the history: a line has none.
const (
	shownLineEnd = '␤'
	shownTab     = '␉'
)

// hideControls makes one line of a text.
func hideControls(text string) string {
	return strings.NewReplacer("\r\n", string(shownLineEnd), "\n", string(shownLineEnd), "\t", string(shownTab)).
		Replace(text)
}

// showControls gives a text its line ends and tabs back.
func showControls(line string) string {
	return strings.NewReplacer(string(shownLineEnd), "\n", string(shownTab), "\t").Replace(line)
}

// editor reads lines that can be edited, with a history.
type editor struct {
	a       *cli.App
	ctx     context.Context
	state   *liner.State
	keys    *keys // what comes from the terminal
	history *history
}

// canEdit reports whether the library can edit lines here: it knows the process's own stdin and stdout only.
func canEdit(a *cli.App, in *os.File) bool {
	out := a.Stdout
	if o, ok := out.(*cli.Output); ok {
		out = o.W
	}
	return in == os.Stdin && out == os.Stdout && liner.TerminalSupported()
}

// newEditor begins to edit lines. ctx ends the line that is waited for.
func newEditor(ctx context.Context, a *cli.App, remember bool) (*editor, error) {
	e := &editor{a: a, ctx: ctx}
	var err error
	if e.keys, err = newKeys(ctx); err != nil {
		return nil, fmt.Errorf("read keys from the terminal: %w", err)
	}
	e.state = e.keys.newState()
	e.state.SetCtrlCAborts(true)
	e.state.SetMultiLineMode(true)
	e.state.SetBeep(false)
	e.state.SetTabCompletionStyle(liner.TabPrints)
	e.state.SetCompleter(completeChat)
	if remember {
		e.openHistory()
	}
	return e, nil
}

// openHistory reads the lines of earlier chats. A chat without them is as good.
func (e *editor) openHistory() {
	path, err := historyFile(e.a.Env)
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

// completeChat completes the names of commands.
func completeChat(line string) (fit []string) {
	for _, k := range chatCommands() {
		if line != "" && strings.HasPrefix(k.name, line) {
			fit = append(fit, k.name)
		}
	}
	return fit
}

// line implements [chatInput].
func (e *editor) line(prompt string) (string, error) {
	e.keys.begin()
	defer e.keys.end()
	text, err := e.state.Prompt(prompt)
	switch {
	case e.ctx.Err() != nil:
		if err != nil { // the line has not ended: what is said next begins another one
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

// remember implements [chatInput].
func (e *editor) remember(text string) {
	line := hideControls(text)
	e.state.AppendHistory(line)
	if e.history == nil {
		return
	}
	if err := e.history.add(line); err != nil {
		fmt.Fprintf(e.a.Stderr, "pilotfish: no history of lines from here on: %v\n", err)
		e.history = nil
	}
}

func (e *editor) wasEmpty() bool { return e.keys.none() }

func (e *editor) interactive() bool { return true }

// close gives the terminal back as it was.
func (e *editor) close() {
	e.state.Close()
	e.keys.close()
}
