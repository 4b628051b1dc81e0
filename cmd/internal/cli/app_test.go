package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBandwidth: outside of tests the bandwidth of the machine is measured.
func TestBandwidth(t *testing.T) {
	racing.Spare(t)
	assert.Greater(t, New(Program{}, nil, nil, nil).Bandwidth(), 0.1)
}

// TestPatience: a run that needed no answer waits for half a second for its first connection.
func TestPatience(t *testing.T) {
	assert.Equal(t, 500*time.Millisecond, New(Program{}, nil, nil, nil).Patience)
}

// TestModelHint: only the error of a missing model has the flag and what to give.
func TestModelHint(t *testing.T) {
	c := new(cobra.Command)
	Add(c.Flags(), "large", new(string), "")
	assert.NoError(t, c.ParseFlags([]string{"--large", "m"}))
	assert.ErrorContains(t, addModelHint(c, &fs.PathError{Path: "m", Err: fs.ErrNotExist}), "--large: ")
	for _, err := range []error{&fs.PathError{Path: "m", Err: fs.ErrPermission}, &fs.PathError{Err: fs.ErrNotExist}} {
		assert.Equal(t, err, addModelHint(c, err))
	}
	assert.NoError(t, addModelHint(c, nil))
}

// TestWrongModels: the error of what is no model says what it is, and what to do.
func TestWrongModels(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("folder.gguf", 0o700))
	require.NoError(t, os.MkdirAll("models", 0o700))
	for name, c := range map[string]struct{ text, want string }{
		"models/a.gguf":   {"GGUF", "the file is cut short or damaged: fetch it again"},
		"page.gguf":       {"\n<!DOCTYPE html>", "it is a web page: fetch the file itself"},
		"lfs.gguf":        {"version https://git-lfs.github.com/spec/v1\n", `of Git LFS: "git lfs pull"`},
		"m.gguf":          {"\x10\x00\x00\x00\x00\x00\x00\x00{\"__met", "in the format safetensors"},
		"b.safetensors":   {"anything", "in the format safetensors"},
		"text.gguf":       {"a text", `not a GGUF file: fetch a GGUF file, as "pilotfish pull `},
		"empty.gguf":      {"", "cut short or damaged"},
		"folder.gguf":     {want: "it is a folder without GGUF files"},
		"models":          {want: "it is a folder: name a file in it, such as models/a.gguf"},
		"qwen2.5:0.5b":    {want: "names of models are OWNER/NAME:QUANT"},
		"nowhere/no.gguf": {want: "give the path of a GGUF file"},
	} {
		if c.text != "" || name == "empty.gguf" {
			require.NoError(t, os.WriteFile(name, []byte(c.text), 0o600))
		} else if name == "models" {
			require.NoError(t, os.WriteFile("models/a.gguf", nil, 0o600))
		}
		f, err := gguf.Open(name)
		if !assert.Error(t, err, name) {
			f.Close()
			continue
		}
		command := new(cobra.Command)
		Add(command.Flags(), "model", new(string), "")
		assert.NoError(t, command.ParseFlags([]string{"--model", name}))
		assert.ErrorContains(t, addModelHint(command, err), c.want, name)
	}
}

// TestCheckProfile: a profile that its library could not write completely is an error.
func TestCheckProfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	var whole bytes.Buffer
	z := gzip.NewWriter(&whole)
	_, err := z.Write([]byte("a profile"))
	require.NoError(t, errors.Join(err, z.Close()))
	for n := range whole.Len() + 1 {
		require.NoError(t, os.WriteFile(path, whole.Bytes()[:n], 0o600))
		assert.Equal(t, n == whole.Len(), checkProfileFile(path, true) == nil, n)
		assert.Equal(t, n > 0, checkProfileFile(path, false) == nil, n)
	}
}

// TestErrorsOfCommands: the error of a command selects exit status 1 or 2, and an interrupted command reports it.
func TestErrorsOfCommands(t *testing.T) {
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(&Interruption{Signal: os.Interrupt})
	terminated, terminate := context.WithCancelCause(t.Context())
	terminate(&Interruption{Signal: syscall.SIGTERM})
	progress := &Interruption{Signal: os.Interrupt, Progress: "3 of 7 questions are answered in all modes"}
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		code   int
		stderr string
	}{
		{"none", t.Context(), nil, ExitDone, ""},
		{"failure", t.Context(), io.ErrUnexpectedEOF, ExitFailed, "pilotfish: unexpected EOF\n"},
		{"words of a peer", t.Context(), errors.New("closed: \x1b[2J\u009b"), ExitFailed,
			"pilotfish: closed: ␛[2J\uFFFD\n"},
		{"usage", t.Context(), Usagef("-a excludes -b"), ExitUsage,
			"pilotfish: -a excludes -b\nusage: root\nTry 'root --help'.\n"},
		{"interrupt", interrupted, context.Canceled, 130, "pilotfish: interrupted\n"},
		{"interrupt of a part", interrupted, fmt.Errorf("paper: %w", context.Cause(interrupted)), 130,
			"pilotfish: interrupted\n"},
		{"interrupt with progress", interrupted, errors.Join(nil, progress), 130,
			"pilotfish: interrupted: 3 of 7 questions are answered in all modes\n"},
		{"interrupt of a server that ends in order", interrupted, nil, 130, ""},
		{"terminate", terminated, context.Canceled, 143, "pilotfish: terminated\n"},
		{"terminate a server that ends in order", terminated, nil, ExitDone, ""},
		{"failure beside wrong usage", t.Context(), errors.Join(io.ErrUnexpectedEOF, Usagef("no")), ExitUsage,
			"pilotfish: unexpected EOF\nno\nusage: root\nTry 'root --help'.\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr bytes.Buffer
			a := &App{Stderr: &stderr, Program: Program{Name: "pilotfish"}}
			root := &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
				RunE: func(*cobra.Command, []string) error { return c.err }}
			assert.Equal(t, c.code, a.executeCommand(c.ctx, root, nil))
			assert.Equal(t, c.stderr, stderr.String())
		})
	}
}

// TestPreparationFails: a command whose preparation fails does not run, with settings or without.
func TestPreparationFails(t *testing.T) {
	for _, name := range []string{"run", "other"} {
		var stderr bytes.Buffer
		a := New(Program{Name: "pilotfish", Commands: func(*App) []*cobra.Command {
			return []*cobra.Command{{Use: name,
				PreRunE: func(*cobra.Command, []string) error { return errors.New("it is not prepared") },
				RunE:    func(*cobra.Command, []string) error { t.Error("it runs"); return nil }}}
		}}, nil, io.Discard, &stderr)
		a.Env = func(string) string { return "" }
		assert.Equal(t, ExitUsage, a.Run(t.Context(), []string{name}))
		assert.Contains(t, stderr.String(), "pilotfish: it is not prepared\n")
	}
}

// TestOutput: after the first error nothing more is written, and only that error is reported: silently if the reader of
// a pipe has gone.
func TestOutput(t *testing.T) {
	for err, silent := range map[error]bool{syscall.ENOSPC: false, io.ErrClosedPipe: true,
		&fs.PathError{Err: syscall.EPIPE}: true} {
		writes := 0
		a := &App{Stdout: &Output{W: writerFunc(func(b []byte) (int, error) {
			if writes++; writes == 2 {
				return 0, err
			}
			return len(b), nil
		})}}
		got, quiet := a.OutputError()
		assert.NoError(t, got)
		assert.False(t, quiet)
		for i := range 3 {
			assert.Equal(t, i > 0, a.PrintJSON("<&>") != nil)
		}
		assert.Equal(t, 2, writes)
		got, quiet = a.OutputError()
		assert.Equal(t, err, got)
		assert.Equal(t, silent, quiet)
	}
	var out bytes.Buffer
	assert.NoError(t, (&App{Stdout: &out}).PrintJSON("<&>"))
	assert.Equal(t, "\"<&>\"\n", out.String(), "as it is, on one line")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestOrigin: a message has the source of each setting that it names by its whole name.
func TestOrigin(t *testing.T) {
	a := &App{Settled: map[string]string{"temp": "f:1", "cloud": "PILOTFISH_CLOUD", "top-k": "f:3",
		"token-file": "f:4"}}
	for message, want := range map[string]string{
		"":                                "",
		"temp is 3, and --model is empty": "",
		"--temp -1 is out of range":       " (--temp is from f:1)",
		"without --temp":                  " (--temp is from f:1)",
		"--temperature, --top-kind":       "",
		"--tokens, --token-file x":        " (--token-file is from f:4)",
		"--top-k: give --cloud, --temp": " (--cloud is from PILOTFISH_CLOUD; --temp is from f:1; --top-k is " +
			"from f:3)",
	} {
		assert.Equal(t, want, a.settingOrigins(message), message)
	}
}

// TestAsk: only yes means yes, and a question that a signal ends has its cause.
func TestAsk(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, " YES \n": true, "yes": true, "\n": false, "": false,
		"n\n": false, "yess\n": false, "no yes\n": false} {
		var stderr bytes.Buffer
		a := &App{Stdin: strings.NewReader(answer), Stderr: &stderr}
		yes, err := a.Ask(t.Context(), "Remove it?")
		assert.NoError(t, err)
		assert.Equal(t, want, yes, answer)
		assert.Equal(t, answer == "", strings.HasSuffix(stderr.String(), "\n"), "of an answer the terminal shows it")
		assert.Contains(t, stderr.String(), "Remove it? [y/N] ")
	}
	read, write := io.Pipe() // nothing comes
	defer write.Close()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(&Interruption{Signal: os.Interrupt})
	yes, err := (&App{Stdin: read, Stderr: io.Discard}).Ask(ctx, "Remove it?")
	assert.False(t, yes)
	assert.Equal(t, context.Cause(ctx), err)
}

// TestReadPrompt: the prompt is the arguments, or else stdin with all but its last line end.
func TestReadPrompt(t *testing.T) {
	for _, c := range []struct {
		name        string
		args        []string
		stdin, want string
	}{
		{"arguments", []string{"a", " b"}, "c", "a  b"},
		{"stdin", nil, " c\n\n", " c\n"},
		{"a minus", []string{"-"}, "c", "c"},
		{"two of them", []string{"-", "-"}, "c", "- -"},
		{"a line end", nil, "\n", ""},
		{"an empty argument", []string{""}, "c", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadPrompt(&App{Stdin: strings.NewReader(c.stdin)}, c.args)
			assert.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	_, err := ReadPrompt(&App{Stdin: strings.NewReader("")}, nil)
	assert.ErrorAs(t, err, new(*UsageError))
	_, err = ReadPrompt(&App{Stdin: iotest.ErrReader(io.ErrUnexpectedEOF)}, nil)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestJoinPrompt: the prompt is the arguments, and below them what comes from stdin in time.
func TestJoinPrompt(t *testing.T) {
	for _, c := range []struct {
		name        string
		args        []string
		stdin, want string
	}{
		{"both", []string{"a", "b"}, "c\n\n", "a b\n\nc\n"},
		{"empty stdin", []string{"a"}, "", "a"},
		{"a line end", []string{"a"}, "\n", "a"},
		{"only stdin", nil, "c", "c"},
		{"a minus", []string{"-"}, "c", "c"},
		{"a minus after an argument", []string{"a", "-"}, "c", "a\n\nc"},
		{"a minus for empty stdin", []string{"a", "-"}, "", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := JoinPrompt(&App{Stdin: strings.NewReader(c.stdin)}, c.args, time.Hour)
			assert.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	var said strings.Builder
	got, err := JoinPrompt(&App{Stdin: read, Stderr: &said}, []string{"a"}, time.Millisecond)
	assert.NoError(t, err, "an inherited pipe that stays open")
	assert.Equal(t, "a", got)
	assert.Equal(t, "nothing came from stdin within 1ms, so that it is left out: a last argument - waits "+
		"for it\n", said.String())
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	said.Reset()
	got, err = JoinPrompt(&App{Stdin: null, Stderr: &said}, []string{"a"}, 0)
	assert.NoError(t, err)
	assert.Equal(t, "a", got)
	assert.Equal(t, "", said.String())
}
