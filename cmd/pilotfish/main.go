// Command pilotfish runs a small language model on this device and asks a large one for the few tokens that matter.
//
// Text goes to stdout and everything else to stderr. The exit code is 0 after success, 1 after a failure, 2 after wrong
// usage, and 130 or 143 if Ctrl-C or SIGTERM ended the program.
package main

import (
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/bench"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/chat"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cloud"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/eval"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/launch"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/models"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/router"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/run"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/serve"
	"github.com/spf13/cobra"
)

func main() { cli.Main(allCommands) }

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
		router.NewCommand(a),
		models.NewInspectCommand(a),
		models.NewTokenizeCommand(a),
		models.NewLogitsCommand(a),
		bench.NewCommand(a, routing.NewBenchCommand(a)),
		eval.NewCommand(a),
		cli.NewConfigCommand(a),
		cli.NewVersionCommand(a),
	}
}
