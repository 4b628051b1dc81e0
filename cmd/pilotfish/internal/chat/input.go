package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// chatInput reads the lines of a chat.
type chatInput interface {
	// readLine returns the next line, without its line end. The error is io.EOF after the last line, and errAborted if
	// Ctrl-C cancelled the line.
	readLine(prompt string) (string, error)
	// addToHistory adds a text to the history.
	addToHistory(text string)
	// wasEmpty reports whether the line was empty when Ctrl-C cancelled it.
	wasEmpty() bool
	// isInteractive reports whether a user types the lines.
	isInteractive() bool
	closeInput()
}

// newChatInput returns an editor if stdin and stdout are terminals, otherwise a reader of lines.
func newChatInput(ctx context.Context, a *cli.App, history bool) (chatInput, error) {
	in, ok := a.Stdin.(*os.File)
	typed := ok && cli.IsTerminal(in)
	if typed && cli.IsTerminal(a.Stdout) && canEditLines(a, in) {
		return newEditor(ctx, a, history)
	}
	return newLineReader(ctx, a, typed), nil
}

// slashLine matches a line that is a command and not a path: "/word", and arguments.
var slashLine = regexp.MustCompile(`^/[A-Za-z?]*(\s|$)`)

// Prompts: for a question, and for its further lines.
const (
	promptFirst = ">>> "
	promptMore  = "... "
)

// readQuestion reads a question, which may have several lines, or a command.
func readQuestion(in chatInput) (text string, command bool, err error) {
	first, err := in.readLine(promptFirst)
	if err != nil {
		return "", false, err
	}
	switch {
	case slashLine.MatchString(first):
		in.addToHistory(first)
		return first, true, nil
	case strings.HasPrefix(strings.TrimLeft(first, " \t"), `"""`):
		text, err = readQuoted(in, strings.TrimLeft(first, " \t")[3:])
	default:
		text, err = readContinued(in, first)
	}
	if err == nil && strings.TrimSpace(text) != "" && !strings.HasPrefix(first, " ") {
		kept := text
		if strings.HasSuffix(text, `\`) {
			kept += `\` // as the user would have to type it
		}
		in.addToHistory(kept)
	}
	return text, false, err
}

// readQuoted reads lines until one ends with three quotes.
func readQuoted(in chatInput, line string) (string, error) {
	var all []string
	for {
		if text, ends := strings.CutSuffix(strings.TrimRight(line, " \t"), `"""`); ends {
			return strings.Trim(strings.Join(append(all, text), "\n"), "\n"), nil
		}
		all = append(all, line)
		var err error
		if line, err = in.readLine(promptMore); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New(`the text that begins with """ does not end: write """ after its last line`)
			}
			return "", err
		}
	}
}

// readContinued reads lines as long as they end with a backslash. Two backslashes stand for one in the text.
func readContinued(in chatInput, line string) (string, error) {
	var all []string
	for {
		text, more := strings.CutSuffix(line, `\`)
		if !more || strings.HasSuffix(text, `\`) {
			return strings.Join(append(all, text), "\n"), nil
		}
		all = append(all, text)
		var err error
		if line, err = in.readLine(promptMore); errors.Is(err, io.EOF) {
			return strings.Join(all, "\n"), nil
		} else if err != nil {
			return "", err
		}
	}
}

// lineReader reads lines without editing.
type lineReader struct {
	a     *cli.App
	ctx   context.Context
	stop  func()
	typed bool // a user types the lines
	lines chan readResult
}

// readResult is a line or an error.
type readResult struct {
	text string
	err  error
}

// longestLine limits the length of a question, in bytes.
const longestLine = 16 << 20

// newLineReader starts to read stdin. A blocked read cannot be cancelled: if ctx ends first, the read is abandoned, and
// the program ends soon after.
func newLineReader(ctx context.Context, a *cli.App, typed bool) *lineReader {
	ctx, stop := context.WithCancel(ctx)
	return &lineReader{a: a, ctx: ctx, stop: stop, typed: typed, lines: readLines(ctx, a.Stdin)}
}

func readLines(ctx context.Context, from io.Reader) chan readResult {
	lines := make(chan readResult)
	s := bufio.NewScanner(from)
	s.Buffer(nil, longestLine)
	send := func(l readResult) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		for s.Scan() {
			if !send(readResult{text: s.Text()}) {
				return
			}
		}
		err := io.EOF
		if s.Err() != nil {
			err = fmt.Errorf("read a question from stdin: %w", s.Err())
		}
		for send(readResult{err: err}) { // for every further read
		}
	}()
	return lines
}

func (r *lineReader) readLine(prompt string) (string, error) {
	if r.typed {
		fmt.Fprint(r.a.Stderr, prompt)
	}
	select {
	case l := <-r.lines:
		return strings.ToValidUTF8(l.text, "\uFFFD"), l.err
	case <-r.ctx.Done():
		if r.typed { // the line is incomplete: the next output starts on a new line
			fmt.Fprintln(r.a.Stderr)
		}
		return "", context.Cause(r.ctx)
	}
}

func (r *lineReader) addToHistory(string) {}

func (r *lineReader) wasEmpty() bool { return true }

func (r *lineReader) isInteractive() bool { return r.typed }

func (r *lineReader) closeInput() { r.stop() }
