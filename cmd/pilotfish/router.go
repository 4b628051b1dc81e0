package main

import "github.com/spf13/cobra"

// newRouterCommand makes and looks into routers.
func newRouterCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "router COMMAND",
		Short: "Train, calibrate and examine routers, which decide when the large model is asked",
		Example: `  pilotfish router collect --data demo-train --questions 2000 -o traces
  pilotfish router train traces -o router.gguf
  pilotfish router show router.gguf traces
  pilotfish router calibrate --router router.gguf -o certified.gguf`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return usagef("which command? See `pilotfish router --help`")
		},
	}
	c.AddCommand(newRouterCollectCommand(a), newRouterTrainCommand(a), newRouterCalibrateCommand(a),
		newRouterShowCommand(a))
	return c
}
