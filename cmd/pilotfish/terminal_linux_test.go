package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

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

// TestColours: on a terminal the demo shows an answer with the large model's tokens in colour, unless NO_COLOR says
// otherwise.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		env    string
		colour bool
	}{{"", true}, {"1", false}} {
		t.Setenv("NO_COLOR", c.env)
		tty, text := terminal(t)
		var stderr strings.Builder
		code := run(t.Context(), strings.Fields("demo --questions 1 --rtt 1ms --edge-tps 0 --cloud-ms 0 --deadline 1m --modes pipelined-2"), strings.NewReader(""), tty, &stderr)
		shown := text()
		require.Equal(t, exitDone, code, stderr.String())
		answer, table, _ := strings.Cut(shown, "(pipelined-2: ")
		assert.Equal(t, c.colour, strings.Contains(answer, "\x1b["), answer)
		assert.Contains(t, answer, "quaros")
		assert.Contains(t, table, "2 of them from the large model")
		assert.NotContains(t, table, "\x1b[")
	}
}
