package eval

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.Program{Name: "pilotfish-bench", Commands: func(a *cli.App) []*cobra.Command {
		return []*cobra.Command{NewCommand(a)}
	}})
}
