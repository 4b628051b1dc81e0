package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

func TestNonsenseIsRefused(t *testing.T) { clitest.RefusesNonsense(t) }

func TestProfiledCommands(t *testing.T) { clitest.ProfilesCommands(t) }

// maxFlags is the maximum number of flags and options of flags. It is only ever lowered.
const maxFlags = 80

func TestFlagTable(t *testing.T) {
	clitest.FlagTable(t, maxFlags, cli.Declarations())
	for name, largest := range map[string]int{
		"threads": engine.MostThreads, "temp": terms.MaxTemperature, "logprobs": terms.MaxTop,
	} {
		assert.Equal(t, fmt.Sprint(largest), strings.Fields(cli.Declaration(name).Span)[1], name)
	}
}
