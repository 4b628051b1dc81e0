package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newRootCommand returns the command tree.
func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:                        "pilotfish COMMAND",
		DisableFlagsInUseLine:      true,
		Short:                      "A small language model on this device that asks a large one for the few tokens that matter",
		Version:                    buildVersion(),
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true, // app.run prints them
		SilenceUsage:               true,
		RunE: func(c *cobra.Command, _ []string) error {
			c.SetOut(a.stderr)
			if err := c.Help(); err != nil {
				return err
			}
			return usagef("which command?")
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddCommand(
		newPullCommand(a),
		newRunCommand(a),
		newCloudCommand(a),
		newDemoCommand(a),
		newInspectCommand(a),
		newTokenizeCommand(a),
		newLogitsCommand(a),
		newBenchCommand(a),
		newVersionCommand(a),
	)
	root.InitDefaultCompletionCmd()
	return root
}

// knownCommand refuses whatever is left on the line when no command was found, with the names that are near.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return fmt.Errorf("there is no command %q", args[0])
}
