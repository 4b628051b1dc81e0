package models

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// logitsResult is the output of `pilotfish logits --json`. Its fields are a contract.
type logitsResult struct {
	Argmax int32     `json:"argmax"`
	Logits []float32 `json:"logits"` // [vocabulary]
}

// NewLogitsCommand returns the command that prints the logits after some tokens, for comparison with other engines.
func NewLogitsCommand(a *cli.App) *cobra.Command {
	var (
		model  group.ModelFlags
		tokens string
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "logits -m FILE --tokens IDS [flags]",
		Short: "Print the logits of the next token",
		Long: `Print the logits of the next token, for comparison with other engines: the best tokens, one
"id<TAB>logit" line each, or with --json those of the whole vocabulary.`,
		Example: `  pilotfish logits -m model.gguf --tokens 9707,11,1879 --json`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ids, err := group.ParseIDs(tokens)
			if err != nil {
				return err
			}
			e, err := model.Open()
			if err != nil {
				return err
			}
			defer e.Close()
			return printLogits(c.Context(), a, e, ids, asJSON)
		},
	}
	model.RegisterWithoutContext(c)
	cli.Add(c.Flags(), "tokens", &tokens, "")
	cli.Add(c.Flags(), "json", &asJSON, false)
	cobra.CheckErr(c.MarkFlagRequired("tokens"))
	return c
}

// bestTokens is how many tokens are printed.
const bestTokens = 10

func printLogits(ctx context.Context, a *cli.App, e *engine.Engine, ids []int32, asJSON bool) error {
	logits, top, err := e.Logits(ctx, ids, bestTokens)
	if err != nil {
		return err
	}
	if asJSON {
		return a.PrintJSON(logitsResult{Argmax: top[0].ID, Logits: logits})
	}
	for _, t := range top {
		fmt.Fprintf(a.Stdout, "%d\t%v\n", t.ID, t.Logit)
	}
	return nil
}
