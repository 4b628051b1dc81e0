package cli

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// ReadPrompt returns the arguments as one text, or else the text from stdin.
func ReadPrompt(a *App, args []string) (string, error) {
	if len(args) > 0 && !(len(args) == 1 && args[0] == "-") {
		return strings.Join(args, " "), nil
	}
	if file, ok := a.Stdin.(*os.File); ok && len(args) == 0 && IsTerminal(file) {
		return "", noPromptError()
	}
	text, err := readPromptText(a.Stdin)
	if err == nil && text == "" {
		err = noPromptError()
	}
	return strings.TrimSuffix(text, "\n"), err
}

func noPromptError() error { return Usagef("no prompt: give one as an argument, or pipe it in") }

func readPromptText(in io.Reader) (string, error) {
	b, err := io.ReadAll(in)
	if err != nil {
		err = fmt.Errorf("read the prompt: %w", err)
	}
	return string(b), err
}

// JoinPrompt is [ReadPrompt], with the text from stdin after that of the arguments and an empty line. Beside arguments,
// a file or pipe is read if it has something, or ends, within patience: an open pipe without a writer may be inherited.
// A last argument "-" reads stdin whatever it is and as long as it takes.
func JoinPrompt(a *App, args []string, patience time.Duration) (string, error) {
	last := len(args) - 1
	if last < 0 || last == 0 && args[0] == "-" {
		return ReadPrompt(a, args)
	}
	in := bufio.NewReader(a.Stdin)
	switch {
	case args[last] == "-":
		args = args[:last]
	case !isPiped(a.Stdin):
		return strings.Join(args, " "), nil
	default:
		begun := make(chan struct{})
		go func() { // it cannot be stopped while it reads, and ends with the process
			_, _ = in.Peek(1) // an error comes again
			close(begun)
		}()
		select {
		case <-begun:
		case <-time.After(patience):
			fmt.Fprintf(a.Stderr, "nothing came from stdin within %v, so that it is left out: a last argument - waits "+
				"for it\n", patience)
			return strings.Join(args, " "), nil
		}
	}
	prompt := strings.Join(args, " ")
	text, err := readPromptText(in)
	if text = strings.TrimSuffix(text, "\n"); text != "" {
		prompt += "\n\n" + text
	}
	return prompt, err
}

// isPiped reports whether a reader is a regular file or a pipe: not a terminal, nor a device such as /dev/null.
func isPiped(r io.Reader) bool {
	file, ok := r.(*os.File)
	if !ok {
		return true
	}
	info, err := file.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&fs.ModeNamedPipe != 0)
}
