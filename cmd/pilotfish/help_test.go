package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

func TestHelpWidth(t *testing.T) { clitest.HelpIsWhole(t) }

func TestEveryCommandShowsAnExample(t *testing.T) { clitest.HelpShowsExamples(t) }

// maxCommands is the maximum number of commands, so that they fit on a screen. It is only ever lowered.
const maxCommands = 17

// TestHelpOnScreen: the help of the program is a screen.
func TestHelpOnScreen(t *testing.T) {
	_, stdout, _ := clitest.Call(t, "--help")
	_, commands, _ := strings.Cut(stdout, "Commands:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	assert.LessOrEqual(t, strings.Count(commands, "\n")+1, maxCommands)
	assert.LessOrEqual(t, strings.Count(stdout, "\n"), 40)
}

// TestHelpOfRun: the help of run is short and refers to the complete help.
func TestHelpOfRun(t *testing.T) {
	flags := func(text string) int { return len(regexp.MustCompile(`(?m)^ +(-\w, )?--\w`).FindAllString(text, -1)) }
	_, usual, _ := clitest.Call(t, "run", "--help")
	_, all, _ := clitest.Call(t, "run", "--help", "--all")
	assert.LessOrEqual(t, flags(usual), 17)
	assert.Less(t, flags(usual), flags(all))
	assert.LessOrEqual(t, strings.Count(all, "\n"), 80)
}
