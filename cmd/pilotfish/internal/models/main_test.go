package models

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/chat"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cloud"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/run"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.Program{Name: "pilotfish", Commands: func(a *cli.App) []*cobra.Command {
		return []*cobra.Command{
			NewPullCommand(a), NewListCommand(a), NewRemoveCommand(a), NewInspectCommand(a), NewTokenizeCommand(a),
			NewLogitsCommand(a), run.NewCommand(a), chat.NewCommand(a), cloud.NewCommand(a),
		}
	}})
}

func TestScripts(t *testing.T) { clitest.Scripts(t) }
