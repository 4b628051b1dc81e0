package cloud

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

func newCloudCheckCommand(a *cli.App) *cobra.Command {
	var u group.UpstreamFlags
	var json bool
	c := &cobra.Command{
		Use:   "check URL --tokenizer FILE [flags]",
		Short: "Check whether an inference engine can be used behind the gateway",
		Long: `Check whether an inference engine can be used behind the gateway.

It runs the checks of the gateway's start, and asks the engine about a hundred questions: whether it has the
vocabulary of --tokenizer, gives the same answers when asked again and under load, reports correct probabilities and
audits, reuses what it has computed, keeps clients apart, and survives requests that are cancelled or too long. No text
of any user is sent.

  pass  as expected
  note  usable, but with a restriction
  fail  not usable; the exit code is then 1`,
		Example: `  pilotfish cloud check http://10.0.0.8:8000 --tokenizer small.gguf`,
		Args:    cli.OneArg("the address of an engine, such as http://10.0.0.8:8000"),
		RunE: func(c *cobra.Command, args []string) error {
			u.O.URLs = args
			if err := u.CheckEngine(); err != nil {
				return err
			}
			return engine.CheckUpstream(c.Context(), u.Tokenizer, u.O, func(r engine.UpstreamResult) {
				if json {
					_ = a.PrintJSON(r) // an error of stdout does not stop the checks
					return
				}
				fmt.Fprintf(a.Stdout, "%-20s %-4s  %s\n", r.Check, r.Verdict, r.Found)
			})
		},
	}
	u.RegisterEngine(c.Flags())
	cli.Add(c.Flags(), "json", &json, false)
	return c
}
