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
		Short: "Check whether an inference engine can be used behind the gateway",
		Long: `Check whether an inference engine can be used behind the gateway.

This does what the gateway does when it starts, and asks the engine about a hundred questions: whether it has the
vocabulary of --tokenizer, gives the same answers when asked again and under load, reports correct probabilities and
audits, reuses what it has computed, keeps clients apart, and survives requests that are cancelled or too long. No text
of any user is sent.

  pass  as it should be
  note  usable, but with a restriction
  fail  not usable; the exit code is then 1`,
		Example: `  pilotfish cloud check http://10.0.0.8:8000 --tokenizer small.gguf`,
		Args:    oneArg("the address of an engine, such as http://10.0.0.8:8000"),
		RunE: func(c *cobra.Command, args []string) error {
			u.o.URLs = args
			if err := u.checkEngine(); err != nil {
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
	add(c.Flags(), "json", &json, false)
	return c
}
