package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// newCloudCheckCommand tries an inference engine.
func newCloudCheckCommand(a *app) *cobra.Command {
	var u upstreamFlags
	var json bool
	c := &cobra.Command{
		Use:   "check URL --tokenizer FILE [flags]",
		Short: "Find out whether an inference engine is fit to stand behind the gateway",
		Long: `Find out whether an inference engine is fit to stand behind the gateway.

It does what the gateway does when it starts, and asks the engine some hundred questions: whether it has the vocabulary
of --tokenizer, answers alike when asked again and in company, gives probabilities and audits that are right, finds what
it has computed before, keeps clients apart, and survives what is cancelled or too long. Texts of nobody are sent.

  pass  as it should be
  note  it can serve, but not as well as others
  fail  it must not serve; the exit code is then 1`,
		Example: `  pilotfish cloud check http://10.0.0.8:8000 --tokenizer small.gguf`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			u.o.URLs = args
			if err := u.checkEngine(c.Flags()); err != nil {
				return err
			}
			return engine.CheckUpstream(c.Context(), u.tokenizer, u.o, func(r engine.UpstreamResult) {
				if json {
					_ = a.printJSON(r) // a stdout that takes no more ends nothing that is under way
					return
				}
				fmt.Fprintf(a.stdout, "%-20s %-4s  %s\n", r.Check, r.Verdict, r.Found)
			})
		},
	}
	u.registerEngine(c.Flags())
	c.Flags().BoolVar(&json, "json", false, "print one JSON object per check")
	return c
}
