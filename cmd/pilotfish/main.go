// Command pilotfish runs a small language model on this device and asks a large one for the few tokens that matter.
//
// Text goes to stdout and everything else to stderr. It exits with 0 when done, 1 when something failed, 2 when it was
// called the wrong way, and 130 or 143 when Ctrl-C or SIGTERM ended it.
package main

import "github.com/spf13/cobra"

func main() { runMain(commands) }

// commands are those that the help lists, in its order.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newPullCommand(a),
		newListCommand(a),
		newRemoveCommand(a),
		newChatCommand(a),
		newRunCommand(a),
		newServeCommand(a),
		newCloudCommand(a),
		newDemoCommand(a),
		newRouterCommand(a),
		newInspectCommand(a),
		newTokenizeCommand(a),
		newLogitsCommand(a),
		newBenchCommand(a, newBenchRoutingCommand(a)),
		newEvalCommand(a),
		newConfigCommand(a),
		newVersionCommand(a),
	}
}
