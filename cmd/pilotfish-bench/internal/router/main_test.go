package router

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/bench"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/eval"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/routing"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.Program{Name: "pilotfish-bench", Commands: func(a *cli.App) []*cobra.Command {
		return append(bench.NewCommands(a), NewCommand(a), eval.NewCommand(a), routing.NewCommand(a))
	}})
}

func TestScripts(t *testing.T) { clitest.Scripts(t) }
