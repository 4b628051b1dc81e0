package clitest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// keyboard runs a program on its own terminal.
type keyboard struct {
	t    *testing.T
	C    *exec.Cmd
	here *os.File
	Text chan []byte // the output of the program; closed at its end
	Seen []byte      // the output that Expect has not consumed yet
	All  []byte
}

// AtTerminal starts the program on a terminal of 80 columns. The arguments follow those of [Program].
func AtTerminal(t *testing.T, args ...string) *keyboard {
	t.Helper()
	return StartAtTerminal(t, Program(t, args...))
}

// StartAtTerminal starts a process on a terminal of 80 columns.
func StartAtTerminal(t *testing.T, c *exec.Cmd) *keyboard {
	t.Helper()
	here, tty := newTerminal(t)
	defer tty.Close()
	k := &keyboard{t: t, C: c, here: here, Text: make(chan []byte, 1000)}
	k.Resize(80)
	k.C.Stdin, k.C.Stdout, k.C.Stderr = tty, tty, tty
	k.C.Env = append(k.C.Env, "TERM=xterm", "NO_COLOR=")
	k.C.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, k.C.Start())
	t.Cleanup(func() {
		k.C.Process.Kill()
		k.C.Wait()
		here.Close()
		for range k.Text { // until the reader has ended
		}
	})
	go func() {
		defer close(k.Text)
		for {
			b := make([]byte, 4096)
			n, err := here.Read(b)
			if err != nil {
				return // the other side is closed
			}
			k.Text <- b[:n]
		}
	}()
	return k
}

func (k *keyboard) Resize(columns uint16) {
	require.NoError(k.t, unix.IoctlSetWinsize(int(k.here.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
}

// Press types keys.
func (k *keyboard) Press(keys string) {
	_, err := k.here.WriteString(keys)
	require.NoError(k.t, err)
}

// Expect waits until the program has written a text, after the one of the call before, and returns the output before
// it.
func (k *keyboard) Expect(text string) string {
	k.t.Helper()
	late := time.After(20 * time.Second)
	for {
		if before, after, ok := bytes.Cut(k.Seen, []byte(text)); ok {
			k.Seen = bytes.Clone(after)
			return string(before)
		}
		select {
		case b, ok := <-k.Text:
			if !ok {
				require.FailNow(k.t, "the program ended", "%q did not come: %q", text, k.All)
			}
			k.Seen, k.All = append(k.Seen, b...), append(k.All, b...)
		case <-late:
			require.FailNow(k.t, "nothing more came", "%q did not come: %q", text, k.All)
		}
	}
}

// Ends waits until the program has ended, and returns its exit code.
func (k *keyboard) Ends() int {
	k.t.Helper()
	for b := range k.Text {
		k.All = append(k.All, b...)
	}
	k.C.Wait()
	return k.C.ProcessState.ExitCode()
}

// Terminal returns a terminal for a program, and a function that returns the output. Call it once.
func Terminal(t *testing.T) (tty *os.File, text func() string) {
	t.Helper()
	here, tty := newTerminal(t)
	all := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(here) // the error means that the other side is closed
		all <- string(b)
		here.Close()
	}()
	return tty, func() string { tty.Close(); return <-all }
}

// newTerminal returns both sides of a new terminal.
func newTerminal(t *testing.T) (here, tty *os.File) {
	t.Helper()
	here, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system has no terminals to give")
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(here.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(here.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return here, tty
}
