// Command pilotfish runs a small language model on this device and asks a large one for the few tokens that matter.
//
// Text goes to stdout and everything else to stderr. The exit code is 0 after success, 1 after a failure, 2 after wrong
// usage, and 130 or 143 if Ctrl-C or SIGTERM ended the program.
package main

import (
	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/chat"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cloud"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/launch"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/models"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/run"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/selfcheck"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/serve"
)

func main() { cli.Main(newProgram()) }

func newProgram() cli.Program {
	return cli.Program{
		Name: "pilotfish",
		Short: "A small language model on this device that asks a large one for the few tokens " +
			"that matter",
		Long: `Pilotfish runs a small language model on this device and asks a large one, on another machine, for ` +
			`the few tokens that matter.
Start with "pilotfish demo", which needs neither a model nor a network.`,
		Commands: allCommands,
		Profiled: []string{"run", "cloud"},
	}
}

// allCommands returns the commands in the order of the help.
func allCommands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		models.NewPullCommand(a),
		models.NewListCommand(a),
		models.NewRemoveCommand(a),
		chat.NewCommand(a),
		run.NewCommand(a),
		serve.NewCommand(a),
		launch.NewCommand(a),
		cloud.NewCommand(a),
		demo.NewCommand(a),
		models.NewInspectCommand(a),
		models.NewTokenizeCommand(a),
		models.NewLogitsCommand(a),
		selfcheck.NewCommand(a),
		cli.NewConfigCommand(a),
		cli.NewVersionCommand(a),
	}
}
