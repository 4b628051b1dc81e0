// Package router has the commands of pilotfish-bench router: collect, train, calibrate and show.
package router

import (
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/spf13/cobra"
)

// NewCommand returns the command router with its subcommands.
func NewCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "router COMMAND",
		Short: "Train, calibrate and examine routers, which decide when the large model is asked",
		Example: `  pilotfish-bench router collect --data demo-train --questions 2000 -o traces
  pilotfish-bench router train traces -o router.gguf
  pilotfish-bench router show router.gguf traces
  pilotfish-bench router calibrate --router router.gguf -o certified.gguf`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return cli.Usagef("which command? See `pilotfish-bench router --help`")
		},
	}
	c.AddCommand(newRouterCollectCommand(a), newRouterTrainCommand(a), newRouterCalibrateCommand(a),
		newRouterShowCommand(a))
	return c
}
