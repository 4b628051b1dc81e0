package main

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

// keyboard is a program at a terminal of its own.
type keyboard struct {
	t    *testing.T
	c    *exec.Cmd
	here *os.File
	text chan []byte // what the program writes, as it comes; closed at its end
	seen []byte      // of it, what was not expected yet
	all  []byte
}

// atTerminal starts the program at a terminal of 80 columns. The arguments come after those of [program].
func atTerminal(t *testing.T, args ...string) *keyboard {
	t.Helper()
	return startAtTerminal(t, program(t, args...))
}

// startAtTerminal starts a process at a terminal of 80 columns.
func startAtTerminal(t *testing.T, c *exec.Cmd) *keyboard {
	t.Helper()
	here, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system has no terminals to give")
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(here.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(here.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer tty.Close()
	k := &keyboard{t: t, c: c, here: here, text: make(chan []byte, 1000)}
	k.resize(80)
	k.c.Stdin, k.c.Stdout, k.c.Stderr = tty, tty, tty
	k.c.Env = append(k.c.Env, "TERM=xterm", "NO_COLOR=")
	k.c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, k.c.Start())
	t.Cleanup(func() {
		k.c.Process.Kill()
		k.c.Wait()
		here.Close()
		for range k.text { // until the reader has ended
		}
	})
	go func() {
		defer close(k.text)
		for {
			b := make([]byte, 4096)
			n, err := here.Read(b)
			if err != nil {
				return // the other side is closed
			}
			k.text <- b[:n]
		}
	}()
	return k
}

func (k *keyboard) resize(columns uint16) {
	require.NoError(k.t, unix.IoctlSetWinsize(int(k.here.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
}

// press types keys.
func (k *keyboard) press(keys string) {
	_, err := k.here.WriteString(keys)
	require.NoError(k.t, err)
}

// expect waits until the program has written a text behind the last one that was expected, and returns what came
// before.
func (k *keyboard) expect(text string) string {
	k.t.Helper()
	late := time.After(20 * time.Second)
	for {
		if before, behind, ok := bytes.Cut(k.seen, []byte(text)); ok {
			k.seen = bytes.Clone(behind)
			return string(before)
		}
		select {
		case b, ok := <-k.text:
			if !ok {
				require.FailNow(k.t, "the program ended", "%q did not come: %q", text, k.all)
			}
			k.seen, k.all = append(k.seen, b...), append(k.all, b...)
		case <-late:
			require.FailNow(k.t, "nothing more came", "%q did not come: %q", text, k.all)
		}
	}
}

// ends waits until the program has ended, and returns its exit code.
func (k *keyboard) ends() int {
	k.t.Helper()
	for b := range k.text {
		k.all = append(k.all, b...)
	}
	k.c.Wait()
	return k.c.ProcessState.ExitCode()
}

// terminal returns a terminal for a program, and what was written to it, to be called once.
func terminal(t *testing.T) (tty *os.File, text func() string) {
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
	all := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(here) // ends with an error when the other side is closed
		all <- string(b)
		here.Close()
	}()
	return tty, func() string { tty.Close(); return <-all }
}
