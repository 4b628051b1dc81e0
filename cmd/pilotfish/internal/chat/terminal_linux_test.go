package chat

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

const (
	ctrlC, ctrlD  = "\x03", "\x04"
	ctrlZ         = "\x1a"
	up, left      = "\x1b[A", "\x1b[D"
	enter         = "\r"
	readyFor      = "\x1b[?2004h" // written before each prompt
	lineEnds      = "\x1b[?2004l" // and after each line
	pastedA, outA = "\x1b[200~", "\x1b[201~"
)

// TestChatTerminal: lines are edited, remembered and recalled, also by the next chat; only the user can read them.
func TestChatTerminal(t *testing.T) {
	clitest.OwnFolders(t)
	small := clitest.DemoFile("small.gguf")
	kept, err := historyPath(os.Getenv)
	require.NoError(t, err)
	k := clitest.AtTerminal(t, "chat", "-m", small)
	k.Expect("/help lists the commands")
	k.Expect(readyFor)
	k.Expect(promptFirst)
	k.Press("/system wörld 日本語" + left + left + "\x7fX" + enter) // X replaces 本's left neighbor
	k.Expect("the system message is set")
	k.Press("/system" + enter)
	k.Expect("the system message is: wörld X本語\r\n")
	k.Press(" /unkept" + enter)
	k.Expect(readyFor)
	k.Press(up + up + enter)
	k.Expect("the system message is set")
	k.Press("/sta\t" + enter)
	k.Expect("all 1 answers: ")
	k.Press(clitest.Question(0) + enter)
	k.Expect(lineEnds)
	k.Expect(readyFor)
	k.Press(ctrlD)
	assert.Equal(t, cli.ExitDone, k.Ends(), "%q", k.All)
	b, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.Equal(t, "/system wörld X本語\n/system\n/system wörld X本語\n/stats\n"+clitest.Question(0)+"\n", string(b))
	info, err := os.Stat(kept)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	k = clitest.AtTerminal(t, "chat", "-m", small)
	k.Expect(readyFor)
	k.Press(up + up + enter)
	k.Expect("no answers yet")
	k.Expect(readyFor)
	k.Press(ctrlC)
	k.Expect("(Ctrl-C again, or Ctrl-D, ends the chat)")
	k.Expect(readyFor)
	k.Press(ctrlC)
	assert.Equal(t, cli.ExitDone, k.Ends())
}

// TestChatNoHistory: with PILOTFISH_NOHISTORY no file is written. Ctrl-C discards a line, and ends a chat only if
// repeated.
func TestChatNoHistory(t *testing.T) {
	clitest.OwnFolders(t)
	small := clitest.DemoFile("small.gguf")
	kept, err := historyPath(os.Getenv)
	require.NoError(t, err)
	t.Setenv("PILOTFISH_NOHISTORY", "1")
	k := clitest.AtTerminal(t, "chat", "-m", small)
	k.Expect(readyFor)
	k.Press("/temp" + enter)
	k.Expect("always picked")
	k.Expect(readyFor)
	k.Press("half a line" + ctrlC) // which is discarded
	k.Expect(readyFor)
	k.Press(ctrlC)
	k.Expect("(Ctrl-C again")
	k.Press("/nothing" + enter)
	k.Expect("pilotfish: there is no command /nothing")
	k.Expect(readyFor)
	k.Press(ctrlC)
	k.Expect("(Ctrl-C again") // the first of two
	k.Expect(readyFor)
	k.Press("/quit" + enter)
	assert.Equal(t, cli.ExitDone, k.Ends())
	assert.NoFileExists(t, kept)
}

// TestChatPaste: pasted text of several lines is one question, and so are lines between quotes or with a backslash.
func TestChatPaste(t *testing.T) {
	clitest.OwnFolders(t)
	small := clitest.DemoFile("small.gguf")
	file := filepath.Join(t.TempDir(), "c.json")
	k := clitest.AtTerminal(t, "chat", "-m", small, "-n", "3")
	k.Expect(readyFor)
	k.Press(pastedA + "one\r\ttwo\nthree\x1b[A\x03\r\n" + outA)
	k.Expect(promptFirst + "one")
	k.Expect(promptMore + "␉two")
	k.Expect(promptMore + "three[A")
	k.Press(" more" + enter)
	k.Expect("cut off after 3 tokens")
	k.Expect(readyFor)
	k.Press(`"""` + enter)
	k.Expect(promptMore)
	k.Press(" quoted " + enter)
	k.Expect(promptMore)
	k.Press(`text"""` + enter)
	k.Expect("cut off after 3 tokens")
	k.Expect(readyFor)
	k.Press(`this\` + enter)
	k.Expect(promptMore)
	k.Press(`and that` + enter)
	k.Expect("cut off after 3 tokens")
	k.Expect(readyFor)
	k.Press(up + "!" + enter)
	k.Expect("cut off after 3 tokens")
	k.Expect(readyFor)
	k.Press(`"""` + enter)
	k.Expect(promptMore)
	k.Press("no" + ctrlC)
	k.Expect(promptFirst)
	k.Press("/save " + file + enter)
	k.Expect("8 messages in")
	k.Expect(readyFor)
	k.Press(ctrlD)
	assert.Equal(t, cli.ExitDone, k.Ends())
	saved, err := readSavedChat(file)
	require.NoError(t, err)
	var asked []string
	for i := 0; i < len(saved.Messages); i += 2 {
		asked = append(asked, saved.Messages[i].Content)
	}
	assert.Equal(t, []string{"one\n\ttwo\nthree[A more", " quoted \ntext", "this\nand that", "this\nand that!"}, asked)
}

// slowModel writes a slow model that generates without end.
func slowModel(t *testing.T) string {
	t.Helper()
	recipe, err := synth.ParseRecipe("f32")
	require.NoError(t, err)
	s := synth.Tiny(recipe, 1)
	s.Layers, s.Context = 16, 1<<14
	path := filepath.Join(t.TempDir(), "slow.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, s.Write(out, nil))
	require.NoError(t, out.Close())
	return path
}

// TestChatInterrupt: Ctrl-C stops an answer but not the chat, and the partial answer stays.
func TestChatInterrupt(t *testing.T) {
	clitest.OwnFolders(t)
	slow := slowModel(t)
	file := filepath.Join(t.TempDir(), "c.json")
	k := clitest.AtTerminal(t, "chat", "-m", slow, "-n", "0", "-c", "16384")
	k.Expect(readyFor)
	k.Press("on and on" + enter)
	k.Expect(lineEnds)
	for len(strings.TrimSpace(string(k.Seen))) < 60 {
		b, ok := <-k.Text
		require.True(t, ok, "%q", k.All)
		k.Seen, k.All = append(k.Seen, b...), append(k.All, b...)
	}
	k.Resize(40) // during the answer
	k.Press(ctrlC)
	k.Expect("(stopped)")
	k.Expect(readyFor)
	k.Press("/save " + file + enter)
	k.Expect("2 messages")
	k.Expect(readyFor)
	k.Press("again" + enter)
	k.Expect(lineEnds)
	k.Press(ctrlC)
	k.Expect("(stopped)")
	k.Expect(readyFor)
	k.Press("at once" + enter + ctrlC) // which is not for the next line
	k.Expect("(stopped)")
	k.Expect(readyFor)
	k.Press("/stats" + enter + ctrlC) // nothing to stop: it is for the next line
	k.Expect("(Ctrl-C again, or Ctrl-D, ends the chat)")
	k.Expect(readyFor)
	silent, err := net.ListenPacket("udp", "127.0.0.1:0") // a gateway that does not answer
	require.NoError(t, err)
	defer silent.Close()
	k.Press("/cloud " + silent.LocalAddr().String() + enter)
	k.Expect(lineEnds)
	k.Press(ctrlC)
	k.Expect("connect to " + silent.LocalAddr().String())
	k.Expect("stopped by Ctrl-C")
	k.Expect(readyFor)
	require.NoError(t, k.C.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, k.Ends())
	assert.Contains(t, string(k.All), "terminated")
	saved, err := readSavedChat(file)
	require.NoError(t, err)
	require.Len(t, saved.Messages, 2)
	assert.NotEmpty(t, saved.Messages[1].Content)

	k = clitest.AtTerminal(t, "chat", "-m", slow, "-n", "0", "-c", "16384")
	k.Expect(readyFor)
	k.Press("on and on" + enter)
	k.Expect(lineEnds)
	k.Expect("t t t")
	require.NoError(t, k.C.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, k.Ends(), "also during an answer")
}

// TestChatSuspend: Ctrl-Z stops the chat and restores the terminal, and fg restores the typed line; without job control
// the chat continues.
func TestChatSuspend(t *testing.T) {
	clitest.OwnFolders(t)
	slow := slowModel(t)
	inner := clitest.Program(t, "chat", "-m", slow, "-n", "0", "-c", "16384")
	shell := exec.CommandContext(t.Context(), "/bin/sh",
		append([]string{"-c", `set -m; "$@"; echo "status $?"; stty -a; fg; fg`, "sh"}, inner.Args...)...)
	shell.Env = inner.Env
	k := clitest.StartAtTerminal(t, shell)
	k.Expect(readyFor)
	k.Press("/system wör")
	k.Expect("wör")
	k.Press(ctrlZ)
	k.Expect(lineEnds)
	k.Expect("status 148")
	assert.Contains(t, k.Expect("echoctl"), "\r\nisig icanon iexten echo ")
	k.Expect(readyFor)
	k.Expect(promptFirst + "/system wör")
	k.Press("ld" + enter)
	k.Expect("the system message is set")
	k.Press("/system" + enter)
	k.Expect("the system message is: wörld\r\n")
	k.Press("/system off" + enter)
	k.Expect("the system message is set")
	k.Expect(readyFor)
	k.Press("on and on" + enter)
	k.Expect("t t t")
	k.Press(ctrlZ) // during the answer
	k.Expect("t t t")
	k.Press(ctrlC)
	k.Expect("(stopped)")
	k.Expect(readyFor)
	k.Press(ctrlD)
	assert.Equal(t, cli.ExitDone, k.Ends(), "%q", k.All)

	k = clitest.AtTerminal(t, "chat", "-m", slow)
	k.Expect(readyFor)
	k.Press("/temp")
	k.Expect("/temp")
	k.Press(ctrlZ)
	k.Expect(readyFor)
	k.Expect(promptFirst + "/temp")
	k.Press(enter)
	k.Expect("always picked")
	k.Press("half a line")
	k.Expect("half a line")
	require.NoError(t, k.C.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, k.Ends())
	assert.Regexp(t, "half a line(\x1b\\[[?0-9]+[a-zA-Z])*\r?\n(\x1b\\[[?0-9]+[a-zA-Z])*pilotfish: terminated",
		string(k.All), "on a new line")
}

// TestChatFileKinds: a file that is not regular is refused before it is read, because reading may block forever.
func TestChatFileKinds(t *testing.T) {
	clitest.OwnFolders(t)
	small := clitest.DemoFile("small.gguf")
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	for path, kind := range map[string]string{fifo: "a pipe", "/dev/zero": "a device", t.TempDir(): "a folder"} {
		want := path + " is " + kind + ", not a regular file"
		code, _, stderr := clitest.Chat(t, "/load "+path+"\n", "-m", small)
		assert.Equal(t, cli.ExitFailed, code)
		assert.Contains(t, stderr, want)
		_, _, stderr = clitest.Chat(t, "", "-m", small, "--load", path)
		assert.Contains(t, stderr, want)
		_, _, stderr = clitest.Chat(t, "/save "+path+"\n", "-m", small)
		assert.Contains(t, stderr, want)
		if path == "/dev/zero" {
			want = "/dev/zero has more than 1048576 bytes: is it the right file?"
		}
		for _, command := range []string{"config", "run", "cloud"} {
			_, _, stderr = clitest.Call(t, command, "--config", path)
			assert.Contains(t, stderr, want, command)
		}
	}
	kept, err := historyPath(os.Getenv)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(kept), 0o700))
	require.NoError(t, unix.Mkfifo(kept, 0o600))
	k := clitest.AtTerminal(t, "chat", "-m", small)
	k.Expect("pilotfish: no history of lines: " + kept)
	k.Expect(readyFor)
	k.Press(ctrlD)
	assert.Equal(t, cli.ExitDone, k.Ends())
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	go func() { write.WriteString("temp: 0.25\n"); write.Close() }()
	code, stdout, stderr := clitest.Call(t, "config", "--config", fmt.Sprintf("/dev/fd/%d", read.Fd()))
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, "(?m)^temp +0.25 ", stdout, "a file opened by the shell may be a pipe")
}

// TestChatResize: a line that is being edited is redrawn when the width of the window changes.
func TestChatResize(t *testing.T) {
	clitest.OwnFolders(t)
	small := clitest.DemoFile("small.gguf")
	k := clitest.AtTerminal(t, "chat", "-m", small)
	k.Expect(readyFor)
	k.Press("/system abcdefghijklmnopqrstuvwxyz")
	k.Expect("wxyz")
	k.Resize(30)
	k.Expect(promptFirst + "/system abcdefghijklmnopqrstuvwxyz")
	k.Press("!" + enter)
	k.Expect("the system message is set")
	k.Press("/system" + enter)
	k.Expect("the system message is:\r\nabcdefghijklmnopqrstuvwxyz!\r\n")
	k.Press("/quit" + enter)
	assert.Equal(t, cli.ExitDone, k.Ends())
}

// TestChatColours: tokens of the cloud are coloured on a terminal.
func TestChatColours(t *testing.T) {
	small, at := clitest.StartPair(t)
	line := []string{"chat", "-m", small, "--policy", "always", "--deadline", "off"}
	k := clitest.AtTerminal(t, append(line, at...)...)
	k.Expect(readyFor)
	k.Press(clitest.Question(0) + enter)
	k.Expect("\x1b[36;1m")
	k.Expect(" tokens from the large model, ")
	k.Expect("\x1b[36;1mthis colour\x1b[0m: chosen by the large model; ")
	k.Expect(readyFor)
	k.Press("/retry" + enter)
	k.Expect(" tokens from the large model, ")
	assert.NotContains(t, k.Expect(readyFor), "this colour", "it is explained once")
	k.Press(ctrlD)
	assert.Equal(t, cli.ExitDone, k.Ends())
}

// TestChatControlCharacters: on a terminal, with colours or without, an answer cannot control the terminal.
func TestChatControlCharacters(t *testing.T) {
	m := loaded(t, demo.Small(), 64)
	for _, no := range []string{"", "1"} {
		tty, shown := clitest.Terminal(t)
		a := &cli.App{Stdout: &cli.Output{W: tty}, Env: func(key string) string {
			return map[string]string{"NO_COLOR": no}[key]
		}}
		c := converse(t, a, m)
		out := a.Wrapped(a.Stdout, false)
		printed, failed, broken := c.printTokens(out, func(yield func(pilotfish.Token, error) bool) {
			_ = yield(pilotfish.Token{Text: "a\x1b[2J", Origin: "edge"}, nil) &&
				yield(pilotfish.Token{Text: "\x07é", Origin: "cloud"}, nil) &&
				yield(pilotfish.Token{}, io.ErrUnexpectedEOF)
		})
		assert.Equal(t, 8, printed, "bytes of the answer")
		assert.Equal(t, io.ErrUnexpectedEOF, failed)
		require.NoError(t, broken)
		_, err := io.WriteString(out, "\n")
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"": "a␛[2J\x1b[36;1m␇é\x1b[0m\r\n", "1": "a␛[2J␇é\r\n"}[no], shown())
	}
}

// TestKeyTaken: Ctrl-C belongs to the editor while it reads a line, which return and Ctrl-J end. Other keys always do.
func TestKeyTaken(t *testing.T) {
	for _, end := range []byte("\r\n") {
		k := &keyForwarder{interrupts: new(cli.Interrupts)}
		k.prompting.Store(true)
		assert.False(t, k.handleKey('a') || k.handleKey(interruptKey) || k.handleKey(end))
		assert.False(t, k.interrupts.Left())
		assert.True(t, k.handleKey(interruptKey))
		assert.True(t, k.interrupts.Left())
		assert.False(t, k.handleKey('b'))
	}
}
