package run

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/bench"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cloud"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/routing"
)

func TestMain(m *testing.M) {
	clitest.Main(m, func(a *cli.App) []*cobra.Command {
		return []*cobra.Command{
			NewCommand(a), cloud.NewCommand(a), routing.NewDemoCommand(a),
			bench.NewCommand(a, routing.NewBenchCommand(a)),
		}
	})
}

func TestScripts(t *testing.T) { clitest.Scripts(t) }
