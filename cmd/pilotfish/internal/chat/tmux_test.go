//go:build terminal

package chat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"

	"github.com/stretchr/testify/require"
)

// tmux is a terminal with a screen that runs the chat: the tests check what the user sees.
type tmux struct {
	t      *testing.T
	socket string
}

// inTmux builds the program and starts a chat in a screen of 60 columns and 20 lines.
func inTmux(t *testing.T, model string, args ...string) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("this test needs tmux: install it")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "pilotfish")
	out, err := exec.Command("go", "build", "-o", program,
		"github.com/pilotfish-ai/pilotfish/cmd/pilotfish").CombinedOutput()
	require.NoError(t, err, "%s", out)
	s := &tmux{t, filepath.Join(dir, "tmux")}
	line := "XDG_CONFIG_HOME=" + dir + "/none XDG_STATE_HOME=" + os.Getenv("XDG_STATE_HOME") + " " + program +
		" chat -m " + model + " " +
		strings.Join(args, " ") + "; echo it ended with $?; exec sleep 1000"
	s.run("-f", "/dev/null", "new-session", "-d", "-s", "chat", "-x", "60", "-y", "20", line)
	t.Cleanup(func() { s.run("kill-server") })
	return s
}

func (s *tmux) run(args ...string) string {
	s.t.Helper()
	c := exec.Command("tmux", append([]string{"-u", "-S", s.socket}, args...)...)
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=")
	out, err := c.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	return string(out)
}

func (s *tmux) press(keys ...string) {
	s.t.Helper()
	s.run(append([]string{"send-keys", "-t", "chat"}, keys...)...)
}

// sees waits until the last lines of the screen, without empty ones, are as given.
func (s *tmux) sees(lines ...string) {
	s.t.Helper()
	var screen []string
	for range 100 {
		screen = nil
		for line := range strings.Lines(s.run("capture-pane", "-p", "-t", "chat")) {
			if line = strings.TrimRight(line, " \n"); line != "" {
				screen = append(screen, line)
			}
		}
		if n := len(screen) - len(lines); n >= 0 && strings.Join(screen[n:], "\n") == strings.Join(lines, "\n") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.Equal(s.t, strings.Join(lines, "\n"), strings.Join(screen, "\n"))
}

// TestTmuxKeys: lines, also with wide characters, are edited, recalled and searched for.
func TestTmuxKeys(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	small := clitest.DemoFile("small.gguf")
	s := inTmux(t, small)
	s.sees("pilotfish-demo-small, context of 512 tokens. /help lists the", " commands, Ctrl-D ends.", ">>>")
	s.press("/system 日本語 wörld", "Home", "Right", "DC", "DC", "DC", "DC", "DC", "DC", "sys", "End", "!")
	s.sees(" commands, Ctrl-D ends.", ">>> /sys 日本語 wörld!")
	s.press("Home", "Right", "Right", "Right", "Right", "tem", "End", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace",
		"BSpace", "BSpace", "BSpace")
	s.sees(">>> /system 日本")
	s.press("Left", "BSpace", "X", "Enter")
	s.sees(">>> /system X本", "the system message is set", ">>>")
	s.press("/temp", "Enter")
	s.sees(">>> /temp", "temperature 0: the most probable token is always picked", ">>>")
	s.press("Up", "Up")
	s.sees(">>> /system X本")
	s.press("C-u", "C-r", "tem")
	s.press("Enter")
	s.sees(">>> /temp", "temperature 0: the most probable token is always picked", ">>>")
	s.press("/qu", "Tab", "Enter")
	s.sees(">>> /quit", "it ended with 0")
	s = inTmux(t, small)
	s.sees(" commands, Ctrl-D ends.", ">>>")
	s.press("Up", "Up", "Up")
	s.sees(">>> /system X本")
	s.press("C-u")
	s.sees(">>>")
	s.press("C-d")
	s.sees(">>>", "it ended with 0")
}

// TestTmuxResize: a line longer than the width of the screen keeps its text in a narrower and a wider one.
func TestTmuxResize(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	small := clitest.DemoFile("small.gguf")
	s := inTmux(t, small)
	s.sees(" commands, Ctrl-D ends.", ">>>")
	long := "/system " + strings.Repeat("0123456789", 5)
	s.press(long)
	s.sees(">>> /system 012345678901234567890123456789012345678901234567", "89")
	s.run("resize-window", "-t", "chat", "-x", "40")
	s.sees(">>> /system 0123456789012345678901234567", "8901234567890123456789")
	s.press("a")
	s.sees(">>> /system 0123456789012345678901234567", "8901234567890123456789a")
	s.run("resize-window", "-t", "chat", "-x", "100")
	s.press("b", "Left", "Left", "X", "Enter")
	s.sees("the system message is set", ">>>")
	s.press("/system", "Enter")
	s.sees(">>> /system", "the system message is: "+strings.Repeat("0123456789", 5)+"Xab", ">>>")
}
