package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestHelpOnTerminal: on a terminal help uses its columns, up to a readable number.
func TestHelpOnTerminal(t *testing.T) {
	for columns, most := range map[uint16]int{60: 60, 110: 110, 300: 120, 0: cli.HelpColumns} {
		tty, text := clitest.Terminal(t)
		require.NoError(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
		code := clitest.Run(t.Context(), []string{"chat", "--help"}, strings.NewReader(""), tty, new(strings.Builder))
		longest := 0
		for line := range strings.Lines(text()) {
			if line = strings.TrimRight(line, "\r\n"); !strings.HasPrefix(line, "  pilotfish ") {
				longest = max(longest, utf8.RuneCountInString(line))
			}
		}
		assert.Equal(t, cli.ExitDone, code)
		assert.LessOrEqual(t, longest, most)
		assert.Greater(t, longest, most-8, "of %d columns", columns)
	}
}
