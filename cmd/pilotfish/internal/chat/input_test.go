package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/peterh/liner"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script is an input with these lines.
type script struct {
	lines []string
	kept  []string
}

func (s *script) readLine(string) (string, error) {
	if len(s.lines) == 0 {
		return "", io.EOF
	}
	l := s.lines[0]
	s.lines = s.lines[1:]
	if l == "^C" {
		return "", errAborted
	}
	return l, nil
}

func (s *script) addToHistory(text string) { s.kept = append(s.kept, text) }

func (s *script) wasEmpty() bool { return true }

func (s *script) isInteractive() bool { return true }

func (s *script) closeInput() {}

func TestReadQuestion(t *testing.T) {
	for _, c := range []struct {
		lines   string // separated by |
		text    string
		command bool
		kept    string
		err     string
	}{
		{"hello", "hello", false, "hello", ""},
		{" hello", " hello", false, "", ""},
		{"", "", false, "", ""},
		{"/stats", "/stats", true, "/stats", ""},
		{"/save a b.json", "/save a b.json", true, "/save a b.json", ""},
		{"/", "/", true, "/", ""},
		{"/?", "/?", true, "/?", ""},
		{"/etc/passwd?", "/etc/passwd?", false, "/etc/passwd?", ""},
		{" /stats", " /stats", false, "", ""},
		{`a\|b\|c|d`, "a\nb\nc", false, "a\nb\nc", ""},
		{`a\`, "a", false, "a", ""},
		{`a\\|b`, `a\`, false, `a\\`, ""},
		{`\|x`, "\nx", false, "\nx", ""},
		{`"""|a| b |"""|c`, "a\n b ", false, "a\n b ", ""},
		{`"""a|b"""`, "a\nb", false, "a\nb", ""},
		{`"""one"""`, "one", false, "one", ""},
		{`  """|x|""" `, "x", false, "", ""},
		{`"""|/stats|"""`, "/stats", false, "/stats", ""},
		{`"""|a\|"""`, `a\`, false, `a\\`, ""},
		{`"""|a`, "", false, "", `the text that begins with """ does not end`},
		{`"""|a|^C`, "", false, "", "Ctrl-C"},
		{`a\|^C`, "", false, "", "Ctrl-C"},
		{`^C`, "", false, "", "Ctrl-C"},
		{`""""""`, "", false, "", ""},
	} {
		t.Run(c.lines, func(t *testing.T) {
			in := &script{lines: strings.Split(c.lines, "|")}
			text, command, err := readQuestion(in)
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				assert.Empty(t, in.kept)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.text, text)
			assert.Equal(t, c.command, command)
			assert.Equal(t, c.kept, strings.Join(in.kept, "|"))
		})
	}
	_, _, err := readQuestion(&script{})
	assert.ErrorIs(t, err, io.EOF)
}

// FuzzReadQuestion: reading ends for any input, and no line is lost.
func FuzzReadQuestion(f *testing.F) {
	for _, s := range []string{"a\nb", "\"\"\"\na\n\"\"\"", "a\\\nb", "/x y", "\"\"\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		in := &script{lines: strings.Split(s, "\n")}
		for range len(in.lines) + 1 {
			before := len(in.lines)
			_, _, err := readQuestion(in)
			if errors.Is(err, io.EOF) {
				require.Empty(t, in.lines)
				return
			}
			require.Less(t, len(in.lines), before)
		}
		require.Fail(t, "it does not end")
	})
}

// TestLineReader: lines come one by one, then the end of the input, or the error that ended it, for each further read.
func TestLineReader(t *testing.T) {
	for _, c := range []struct {
		name string
		in   io.Reader
		want string // a part of the error
	}{
		{"ended", strings.NewReader("one\ntwo\xff"), "EOF"},
		{"unplugged", io.MultiReader(strings.NewReader("one\ntwo\xff\n"), iotest.ErrReader(errors.New("unplugged"))),
			"unplugged"},
		{"too long", strings.NewReader("one\ntwo\xff\n" + strings.Repeat("x", longestLine+1)), "token too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newLineReader(t.Context(), &cli.App{Stdin: c.in}, false)
			for _, line := range []string{"one", "two\uFFFD"} {
				got, err := r.readLine(promptFirst)
				require.NoError(t, err)
				assert.Equal(t, line, got)
			}
			for range 2 {
				_, err := r.readLine(promptFirst)
				assert.ErrorContains(t, err, c.want)
				assert.Equal(t, c.want == "EOF", errors.Is(err, io.EOF), c.want)
			}
			r.closeInput()
		})
	}
}

// TestLineReaderTyped: on a terminal without editing, each line has a prompt, and a chat that ends within a line begins
// a new one.
func TestLineReaderTyped(t *testing.T) {
	for _, typed := range []bool{true, false} {
		read, write := io.Pipe()
		ctx, stop := context.WithCancelCause(t.Context())
		var errs strings.Builder
		r := newLineReader(ctx, &cli.App{Stdin: read, Stderr: &errs}, typed)
		assert.Equal(t, typed, r.isInteractive())
		go func() { _, _ = io.WriteString(write, "one\n") }()
		line, err := r.readLine(promptFirst)
		require.NoError(t, err)
		assert.Equal(t, "one", line)
		stop(io.ErrUnexpectedEOF)
		_, err = r.readLine(promptMore)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, map[bool]string{true: promptFirst + promptMore + "\n"}[typed], errs.String())
		r.closeInput()
		require.NoError(t, write.Close())
	}
}

// TestRememberFails: a history that cannot be written is said once, and the chat goes on without it.
func TestRememberFails(t *testing.T) {
	var errs strings.Builder
	e := &editor{a: &cli.App{Stderr: &errs}, state: liner.NewLiner(), history: &history{path: t.TempDir()}}
	defer e.state.Close()
	e.addToHistory("one")
	e.addToHistory("two")
	assert.Equal(t, 1, strings.Count(errs.String(), "pilotfish: no history of lines from here on: open "), &errs)
	assert.Nil(t, e.history)
}

// TestUserPath: ~ stands for the home folder, alone or before a separator.
func TestUserPath(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for path, want := range map[string]string{"~": home, "~/a/b": filepath.Join(home, "a", "b"), "~a": "~a",
		"a/~": "a/~", "/a": "/a", "": ""} {
		assert.Equal(t, want, expandHome(path), path)
	}
	t.Setenv("HOME", "")
	t.Setenv("USERPROFILE", "")
	assert.Equal(t, "~/a", expandHome("~/a"), "without a home folder")
}

func TestPasteFilter(t *testing.T) {
	paste := func(s string) string { return pasteBegin + s + pasteEnd }
	for in, want := range map[string]string{
		"typed \x1b[A\r\x03":              "typed \x1b[A\r\x03",
		paste("one"):                      "one",
		paste("one\ntwo"):                 "one\u2063\rtwo",
		paste("one\r\ntwo\rthree"):        "one\u2063\rtwo\u2063\rthree",
		paste("one\n\ntwo"):               "one\u2063\r\u2063\rtwo",
		paste("one\n\r\n"):                "one",
		paste("\none"):                    "\u2063\rone",
		paste("a\tb\x00\x03\x04\x1b\x7f"): "a␉b",
		paste("\x1b[A"):                   "[A",
		paste("\x1b\x1b[20"):              "[20",
		paste("a\x1b[20") + "b":           "a[20b",
		paste("日本語 ö"):                    "日本語 ö",
		"a" + paste("b") + "c\r":          "abc\r",
		paste("a") + paste("b\n") + "\r":  "ab\r",
		"\x1b[20~" + paste("x"):           "\x1b[20~x",
		"\x1b\x1b[200~x\n" + pasteEnd:     "\x1bx",
		paste("x" + pasteBegin + "y"):     "x[200~y",
		pasteEnd:                          pasteEnd, // an end without a begin: an unknown key
	} {
		assert.Equal(t, want, string(new(pasteFilter).filterBytes([]byte(in))), "%q", in)
		for cut := range in { // in two parts: pasted text is the same, and of a mark a key may be left
			p := new(pasteFilter)
			got := string(p.filterBytes([]byte(in[:cut]))) + string(p.filterBytes([]byte(in[cut:])))
			assert.True(t, got == want || lessMark(got, want), "%q at %d: %q", in, cut, got)
		}
	}
}

// lessMark reports whether got is want plus the beginning of a mark somewhere in it.
func lessMark(got, want string) bool {
	for at := range got {
		for n := 1; n < len(pasteBegin); n++ {
			if rest, ok := strings.CutPrefix(got[at:], pasteBegin[:n]); ok && got[:at]+rest == want {
				return true
			}
		}
	}
	return false
}

// FuzzPasteFilter: no control character passes inside a paste, and only marks are added.
func FuzzPasteFilter(f *testing.F) {
	f.Add("a" + pasteBegin + "b\nc\x1b[A" + pasteEnd + "d")
	f.Add(pasteBegin + "\x1b[20" + pasteEnd)
	f.Fuzz(func(t *testing.T, s string) {
		if out := new(pasteFilter).filterBytes([]byte(s)); len(out) > 4*len(s) {
			require.Fail(t, "more output than input", "%q", out)
		}
		if strings.Contains(s, "\x1b") {
			return
		}
		out := string(new(pasteFilter).filterBytes([]byte(pasteBegin + s + pasteEnd)))
		require.NotContains(t, out, "\n")
		out = strings.ReplaceAll(out, pastedEnd+"\r", string(shownLineEnd))
		for _, c := range []byte(out) {
			require.True(t, c >= ' ' && c != 0x7f, "%q", out)
		}
		if utf8.ValidString(s) && !strings.ContainsAny(s, "␤␉\r") && strings.IndexFunc(s, func(r rune) bool {
			return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
		}) < 0 {
			require.Equal(t, strings.TrimRight(s, "\n"), showControls(out))
		}
	})
}

func TestHistoryPath(t *testing.T) {
	clitest.OwnFolders(t)
	for dir, want := range map[string]bool{t.TempDir(): true, "relative": false, "": false} {
		got, err := historyPath(func(string) string { return dir })
		require.NoError(t, err)
		assert.Equal(t, want, got == filepath.Join(dir, "pilotfish", "chat_history"),
			"a relative folder is ignored: %s", got)
	}
}

// TestHistory: a history that grows too long is shortened, and only its user can read it.
func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "chat_history")
	h, err := openHistory(path)
	require.NoError(t, err)
	assert.Empty(t, h.lines)
	folder, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), folder.Mode().Perm(), "only the user can read it")
	for i := range 2*liner.HistoryLimit + 1 {
		if i < 3 || i > 2*liner.HistoryLimit-2 {
			require.NoError(t, h.appendLine(fmt.Sprint("line ", i)))
			continue
		}
		if i == 3 {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			for j := 3; j <= 2*liner.HistoryLimit-2; j++ {
				fmt.Fprintln(f, "line", j)
			}
			fmt.Fprint(f, "\n\xff\n")
			require.NoError(t, f.Close())
		}
	}
	require.NoError(t, os.Chmod(path, 0o644))
	h, err = openHistory(path)
	require.NoError(t, err)
	require.Len(t, h.lines, liner.HistoryLimit)
	assert.Equal(t, fmt.Sprint("line ", 2*liner.HistoryLimit), h.lines[liner.HistoryLimit-1])
	info, err := os.Stat(path) // before it is opened again, which would make it private
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	again, err := openHistory(path)
	require.NoError(t, err)
	assert.Equal(t, h.lines, again.lines, "it was shortened")
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = openHistory(path)
	require.NoError(t, err)
	info, err = os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode(), "it becomes private")
}

// TestOpenHistory: a history is not shortened at each start, and of one that is too large no part of a line is read.
func TestOpenHistory(t *testing.T) {
	path, many := filepath.Join(t.TempDir(), "chat_history"), strings.Repeat("x\n", 2*liner.HistoryLimit)
	require.NoError(t, os.WriteFile(path, []byte(many), 0o600))
	h, err := openHistory(path)
	require.NoError(t, err)
	assert.Len(t, h.lines, 2*liner.HistoryLimit)
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, many, string(kept), "it is not shortened at each start")

	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", maxHistory)+"\nlast\n"), 0o600))
	h, err = openHistory(path)
	require.NoError(t, err)
	assert.Equal(t, []string{"last"}, h.lines, "no part of a line")
	_, err = openHistory(filepath.Join(path, "below"))
	assert.Error(t, err)
	held.Same(t, func() {
		_, err := openHistory(path)
		require.NoError(t, err)
	})
}
