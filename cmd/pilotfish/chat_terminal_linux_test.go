package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
)

const (
	ctrlC, ctrlD  = "\x03", "\x04"
	ctrlZ         = "\x1a"
	up, left      = "\x1b[A", "\x1b[D"
	enter         = "\r"
	readyFor      = "\x1b[?2004h" // written before each prompt
	lineEnds      = "\x1b[?2004l" // and behind each line
	pastedA, outA = "\x1b[200~", "\x1b[201~"
)

// TestChatTerminal: lines are edited, remembered and recalled, also by the next chat; nobody else can read them.
func TestChatTerminal(t *testing.T) {
	ownFolders(t)
	small, _, _ := demoPairFiles(t)
	kept, err := historyFile(os.Getenv)
	require.NoError(t, err)
	k := atTerminal(t, "chat", "-m", small)
	k.expect("/help lists the commands")
	k.expect(readyFor)
	k.expect(promptFirst)
	k.press("/system wörld 日本語" + left + left + "\x7fX" + enter) // X in the place of 本's left neighbour
	k.expect("the system message is set")
	k.press("/system" + enter)
	k.expect("the system message is: wörld X本語\r\n")
	k.press(" /unkept" + enter)
	k.expect(readyFor)
	k.press(up + up + enter)
	k.expect("the system message is set")
	k.press("/sta\t" + enter)
	k.expect("all 1 answers: ")
	k.press(question(0) + enter)
	k.expect(lineEnds)
	k.expect(readyFor)
	k.press(ctrlD)
	assert.Equal(t, exitDone, k.ends(), "%q", k.all)
	b, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.Equal(t, "/system wörld X本語\n/system\n/system wörld X本語\n/stats\n"+question(0)+"\n", string(b))
	info, err := os.Stat(kept)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	k = atTerminal(t, "chat", "-m", small)
	k.expect(readyFor)
	k.press(up + up + enter)
	k.expect("no answers yet")
	k.expect(readyFor)
	k.press(ctrlC)
	k.expect("(Ctrl-C again, or Ctrl-D, ends the chat)")
	k.expect(readyFor)
	k.press(ctrlC)
	assert.Equal(t, exitDone, k.ends())

	require.NoError(t, os.Remove(kept))
	k = atTerminal(t, "chat", "-m", small, "--no-history")
	k.expect(readyFor)
	k.press("/temp" + enter)
	k.expect("always picked")
	k.expect(readyFor)
	k.press("half a line" + ctrlC) // which is given up
	k.expect(readyFor)
	k.press(ctrlC)
	k.expect("(Ctrl-C again")
	k.press("/nothing" + enter)
	k.expect("pilotfish: there is no command /nothing")
	k.expect(readyFor)
	k.press(ctrlC)
	k.expect("(Ctrl-C again") // the first of two
	k.expect(readyFor)
	k.press("/quit" + enter)
	assert.Equal(t, exitDone, k.ends())
	assert.NoFileExists(t, kept)
}

// TestChatPaste: pasted text of several lines is one question, and so are lines between quotes or with a backslash.
func TestChatPaste(t *testing.T) {
	ownFolders(t)
	small, _, _ := demoPairFiles(t)
	file := filepath.Join(t.TempDir(), "c.json")
	k := atTerminal(t, "chat", "-m", small, "-n", "3")
	k.expect(readyFor)
	k.press(pastedA + "one\r\ttwo\nthree\x1b[A\x03\r\n" + outA)
	k.expect("one␤␉two␤three[A")
	k.press(" more" + enter)
	k.expect("(cut off")
	k.expect(readyFor)
	k.press(`"""` + enter)
	k.expect(promptMore)
	k.press(" quoted " + enter)
	k.expect(promptMore)
	k.press(`text"""` + enter)
	k.expect("(cut off")
	k.expect(readyFor)
	k.press(`this\` + enter)
	k.expect(promptMore)
	k.press(`and that` + enter)
	k.expect("(cut off")
	k.expect(readyFor)
	k.press(up + "!" + enter)
	k.expect("(cut off")
	k.expect(readyFor)
	k.press(`"""` + enter)
	k.expect(promptMore)
	k.press("no" + ctrlC)
	k.expect(promptFirst)
	k.press("/save " + file + enter)
	k.expect("8 messages in")
	k.expect(readyFor)
	k.press(ctrlD)
	assert.Equal(t, exitDone, k.ends())
	saved, err := readChat(file)
	require.NoError(t, err)
	var asked []string
	for i := 0; i < len(saved.Messages); i += 2 {
		asked = append(asked, saved.Messages[i].Content)
	}
	assert.Equal(t, []string{"one\n\ttwo\nthree[A more", " quoted \ntext", "this\nand that", "this\nand that!"}, asked)
}

// slowModel writes a model that goes on and on, slowly.
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

// TestChatInterrupt: Ctrl-C stops an answer and not the chat, what there is of the answer stays.
func TestChatInterrupt(t *testing.T) {
	ownFolders(t)
	slow := slowModel(t)
	file := filepath.Join(t.TempDir(), "c.json")
	k := atTerminal(t, "chat", "-m", slow, "-n", "0", "-c", "16384")
	k.expect(readyFor)
	k.press("on and on" + enter)
	k.expect(lineEnds)
	for len(strings.TrimSpace(string(k.seen))) < 60 {
		b, ok := <-k.text
		require.True(t, ok, "%q", k.all)
		k.seen, k.all = append(k.seen, b...), append(k.all, b...)
	}
	k.resize(40) // while it answers
	k.press(ctrlC)
	k.expect("(stopped)")
	k.expect(readyFor)
	k.press("/save " + file + enter)
	k.expect("2 messages in")
	k.expect(readyFor)
	k.press("again" + enter)
	k.expect(lineEnds)
	k.press(ctrlC)
	k.expect("(stopped)")
	k.expect(readyFor)
	k.press("at once" + enter + ctrlC) // which is not for the next line
	k.expect("(stopped)")
	k.expect(readyFor)
	k.press("/stats" + enter + ctrlC) // nothing to stop: it is for the next line
	k.expect("(Ctrl-C again, or Ctrl-D, ends the chat)")
	k.expect(readyFor)
	require.NoError(t, k.c.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, k.ends())
	assert.Contains(t, string(k.all), "terminated")
	saved, err := readChat(file)
	require.NoError(t, err)
	require.Len(t, saved.Messages, 2)
	assert.NotEmpty(t, saved.Messages[1].Content)

	k = atTerminal(t, "chat", "-m", slow, "-n", "0", "-c", "16384")
	k.expect(readyFor)
	k.press("on and on" + enter)
	k.expect(lineEnds)
	k.expect("t t t")
	require.NoError(t, k.c.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, k.ends(), "also while it answers")
}

// TestChatSuspend: Ctrl-Z stops the chat, with the terminal as it was, and fg brings the line back as it was typed;
// where no shell could have it go on, the chat does.
func TestChatSuspend(t *testing.T) {
	ownFolders(t)
	slow := slowModel(t)
	inner := program(t, "chat", "-m", slow, "-n", "0", "-c", "16384")
	shell := exec.CommandContext(t.Context(), "/bin/sh",
		append([]string{"-c", `set -m; "$@"; echo "status $?"; stty -a; fg; fg`, "sh"}, inner.Args...)...)
	shell.Env = inner.Env
	k := startAtTerminal(t, shell)
	k.expect(readyFor)
	k.press("/system wör")
	k.expect("wör")
	k.press(ctrlZ)
	k.expect(lineEnds)
	k.expect("status 148")
	assert.Contains(t, k.expect("echoctl"), "\r\nisig icanon iexten echo ")
	k.expect(readyFor)
	k.expect(promptFirst + "/system wör")
	k.press("ld" + enter)
	k.expect("the system message is set")
	k.press("/system" + enter)
	k.expect("the system message is: wörld\r\n")
	k.press("/system off" + enter)
	k.expect("the system message is set")
	k.expect(readyFor)
	k.press("on and on" + enter)
	k.expect("t t t")
	k.press(ctrlZ) // while it answers
	k.expect("t t t")
	k.press(ctrlC)
	k.expect("(stopped)")
	k.expect(readyFor)
	k.press(ctrlD)
	assert.Equal(t, exitDone, k.ends(), "%q", k.all)

	k = atTerminal(t, "chat", "-m", slow)
	k.expect(readyFor)
	k.press("/temp")
	k.expect("/temp")
	k.press(ctrlZ)
	k.expect(readyFor)
	k.expect(promptFirst + "/temp")
	k.press(enter)
	k.expect("always picked")
	k.press("half a line")
	k.expect("half a line")
	require.NoError(t, k.c.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, k.ends())
	assert.Regexp(t, "half a line(\x1b\\[[?0-9]+[a-zA-Z])*\r?\n(\x1b\\[[?0-9]+[a-zA-Z])*pilotfish: terminated",
		string(k.all), "on a line of its own")
}

// TestChatFileKinds: what is no regular file is refused before it is read, which could take for ever.
func TestChatFileKinds(t *testing.T) {
	ownFolders(t)
	small, _, _ := demoPairFiles(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	for path, kind := range map[string]string{fifo: "a pipe", "/dev/zero": "a device", t.TempDir(): "a folder"} {
		want := path + " is " + kind + ", not a regular file"
		code, _, stderr := chat(t, "/load "+path+"\n", "-m", small)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, want)
		_, _, stderr = chat(t, "", "-m", small, "--load", path)
		assert.Contains(t, stderr, want)
		_, _, stderr = chat(t, "/save "+path+"\n", "-m", small)
		assert.Contains(t, stderr, want)
		if path == "/dev/zero" {
			want = "/dev/zero has more than 1048576 bytes: is it the right file?"
		}
		for _, command := range []string{"config", "run", "cloud"} {
			_, _, stderr = call(t, command, "--config", path)
			assert.Contains(t, stderr, want, command)
		}
	}
	kept, err := historyFile(os.Getenv)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(kept), 0o700))
	require.NoError(t, unix.Mkfifo(kept, 0o600))
	k := atTerminal(t, "chat", "-m", small)
	k.expect("pilotfish: no history of lines: " + kept)
	k.expect(readyFor)
	k.press(ctrlD)
	assert.Equal(t, exitDone, k.ends())
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	go func() { write.WriteString("temp: 0.25\n"); write.Close() }()
	code, stdout, stderr := call(t, "config", "--config", fmt.Sprintf("/dev/fd/%d", read.Fd()))
	require.Equal(t, exitDone, code, stderr)
	assert.Regexp(t, "(?m)^temp +0.25 ", stdout, "what the shell opened may be a pipe")
}

// TestChatResize: a line that is being edited is drawn anew in a window of another width.
func TestChatResize(t *testing.T) {
	ownFolders(t)
	small, _, _ := demoPairFiles(t)
	k := atTerminal(t, "chat", "-m", small)
	k.expect(readyFor)
	k.press("/system abcdefghijklmnopqrstuvwxyz")
	k.expect("wxyz")
	k.resize(30)
	k.expect(promptFirst + "/system abcdefghijklmnopqrstuvwxyz")
	k.press("!" + enter)
	k.expect("the system message is set")
	k.press("/system" + enter)
	k.expect("the system message is: abcdefghijklmnopqrstuvwxyz!")
	k.press("/quit" + enter)
	assert.Equal(t, exitDone, k.ends())
}

// TestPullOffer: on a terminal, a model that is not here is fetched if somebody says so; rm asks before it removes.
func TestPullOffer(t *testing.T) {
	ownFolders(t)
	dir := modelFolderWith(t, nil)
	hubOf(t, map[string][]byte{"m-Q8_0.gguf": demo.Small()})
	k := atTerminal(t, "run", "-n", "2", "-m", "o/n:Q8_0", "hello")
	k.expect("There is no model o/n:Q8_0 in " + dir + ". Fetch it? [y/N] ")
	k.press("n\n")
	assert.Equal(t, exitFailed, k.ends())
	assert.Contains(t, string(k.all), `"pilotfish pull o/n:Q8_0"`)
	k = atTerminal(t, "run", "-n", "2", "-m", "o/n:Q8_0", "hello")
	k.expect("[y/N] ")
	k.press("yes\n")
	assert.Equal(t, exitDone, k.ends(), "%s", k.all)
	assert.Contains(t, string(k.all), "2 generated")
	path := filepath.Join(dir, "o", "n", "m-Q8_0.gguf")
	assert.FileExists(t, path)
	for answer, there := range map[string]bool{"\n": true, "n\n": true, ctrlD: true} {
		k = atTerminal(t, "rm", "o/n")
		k.expect("Remove o/n:m-Q8_0.gguf (")
		k.expect("[y/N] ")
		k.press(answer)
		assert.Equal(t, exitDone, k.ends())
		_, err := os.Stat(path)
		assert.Equal(t, there, err == nil, answer)
	}
	k = atTerminal(t, "rm", "o/n")
	k.expect("[y/N] ")
	k.press("Y\n")
	assert.Equal(t, exitDone, k.ends())
	assert.NoFileExists(t, path)
	k = atTerminal(t, "rm", "o/n")
	assert.Equal(t, exitFailed, k.ends())
}

// TestChatColours: tokens of the cloud have a colour at a terminal.
func TestChatColours(t *testing.T) {
	ownFolders(t)
	small, large, _ := demoPairFiles(t)
	address, pin, _ := startCloud(t, "-m", large)
	k := atTerminal(t, "chat", "-m", small, "--cloud", address, "--pin", pin, "--policy", "always", "--deadline", "off")
	k.expect(readyFor)
	k.press(question(0) + enter)
	k.expect("\x1b[36;1m")
	k.expect(readyFor)
	k.press(ctrlD)
	assert.Equal(t, exitDone, k.ends())
}
