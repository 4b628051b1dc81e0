// Command pilotfish-bench measures what the program pilotfish does: its engine, its links and gateways, and what
// routing gains in time and accuracy. It also trains routers.
//
// Text goes to stdout and everything else to stderr. The exit code is 0 after success, 1 after a failure, 2 after wrong
// usage, and 130 or 143 if Ctrl-C or SIGTERM ended the program.
package main

import (
	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/bench"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/eval"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/router"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/routing"
)

func main() { cli.Main(newProgram()) }

func newProgram() cli.Program {
	return cli.Program{
		Name:  "pilotfish-bench",
		Short: "Measurements of Pilotfish, and training of routers",
		Long: `Measure what Pilotfish does: its engine, its links and gateways, and what routing gains in time and ` +
			`accuracy; and train routers.
The program pilotfish answers questions. Measurements that need two models have those of "pilotfish demo" by default.`,
		Commands: allCommands,
		Profiled: []string{
			"eval", "engine", "routing", "link", "gateway", "capacity", "router train", "router collect",
			"router calibrate",
		},
	}
}

// allCommands returns the commands in the order of the help.
func allCommands(a *cli.App) []*cobra.Command {
	all := append(bench.NewCommands(a), routing.NewCommand(a), eval.NewCommand(a), router.NewCommand(a))
	return append(all, cli.NewVersionCommand(a))
}
