// Command pilotfish runs a small language model on this device and asks a large one for the few tokens that matter.
//
// Text goes to stdout and everything else to stderr. It exits with 0 when done, 1 when something failed, 2 when it was
// called the wrong way, and 130 or 143 when Ctrl-C or SIGTERM ended it.
package main

import (
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/bench"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/chat"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cloud"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/eval"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/models"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/router"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/run"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/serve"
	"github.com/spf13/cobra"
)

func main() { cli.Main(commands) }

// commands are those that the help lists, in its order.
func commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		models.NewPullCommand(a),
		models.NewListCommand(a),
		models.NewRemoveCommand(a),
		chat.NewCommand(a),
		run.NewCommand(a),
		serve.NewCommand(a),
		cloud.NewCommand(a),
		routing.NewDemoCommand(a),
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
