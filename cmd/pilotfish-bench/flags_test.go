package main

import (
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
)

func TestNonsenseIsRefused(t *testing.T) { clitest.RefusesNonsense(t) }

func TestProfiledCommands(t *testing.T) { clitest.ProfilesCommands(t) }

func TestHelpWidth(t *testing.T) { clitest.HelpIsWhole(t) }

func TestEveryCommandShowsAnExample(t *testing.T) { clitest.HelpShowsExamples(t) }

func TestManPages(t *testing.T) { clitest.ManPages(t) }

// maxFlags is the maximum number of flags and options of flags that the program pilotfish does not have. It is only
// ever lowered.
const maxFlags = 50

func TestFlagTable(t *testing.T) { clitest.FlagTable(t, maxFlags, measure.Declarations()) }
