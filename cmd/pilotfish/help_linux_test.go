package main

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
)

// TestHelpOnTerminal: on a terminal help is as wide as that, up to a readable width.
func TestHelpOnTerminal(t *testing.T) {
	for columns, want := range map[uint16]int{0: cli.HelpColumns, 70: 70, 110: 110, 200: 120} {
		tty, text := clitest.Terminal(t)
		require.NoError(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
		code := clitest.Run(t.Context(), []string{"router", "calibrate", "--help"}, nil, tty, io.Discard)
		require.Equal(t, cli.ExitDone, code)
		widest := 0
		for line := range strings.Lines(text()) {
			if !strings.HasPrefix(line, "  pilotfish ") { // a command line
				widest = max(widest, utf8.RuneCountInString(strings.TrimRight(line, "\r\n")))
			}
		}
		assert.LessOrEqual(t, widest, want, "%d columns", columns)
		assert.Greater(t, widest, want-8, "%d columns", columns)
	}
}
