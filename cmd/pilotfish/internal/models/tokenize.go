package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// NewTokenizeCommand returns the command that converts text to token ids.
func NewTokenizeCommand(a *cli.App) *cobra.Command {
	var (
		path      string
		noSpecial bool
		jsonl     bool
	)
	c := &cobra.Command{
		Use:   "tokenize -m FILE [flags] [TEXT | -]",
		Short: "Convert text to token ids",
		Long: `Convert text to token ids, one "id<TAB>bytes" line per token.

With --json, read one JSON string per line from stdin and print one JSON array of ids for each. Special tokens such as
<|im_start|> are recognised unless --no-special is given; none is added.`,
		Example: `  pilotfish tokenize -m model.gguf "Hello, world"
  echo '"Hello, world"' | pilotfish tokenize -m model.gguf --json`,
		RunE: func(c *cobra.Command, args []string) error {
			if jsonl && len(args) > 0 {
				return cli.Usagef("--json reads texts from stdin: leave out the text on the command line")
			}
			t, err := engine.ReadTokenizer(path)
			if err != nil {
				return err
			}
			if jsonl {
				return tokenizeLines(a, t, !noSpecial)
			}
			text, err := cli.ReadPrompt(a, args)
			if err != nil {
				return err
			}
			for _, id := range t.Encode(text, !noSpecial) {
				fmt.Fprintf(a.Stdout, "%d\t%q\n", id, t.Bytes(id))
			}
			return nil
		},
	}
	cli.Add(c.Flags(), "model", &path, "")
	cli.Add(c.Flags(), "no-special", &noSpecial, false)
	cli.Add(c.Flags(), "json", &jsonl, false)
	cobra.CheckErr(c.MarkFlagRequired("model"))
	return c
}

// tokenizeLines reads JSON strings from stdin and writes their ids, line by line.
func tokenizeLines(a *cli.App, t *tokenizer.Tokenizer, special bool) error {
	in := json.NewDecoder(a.Stdin)
	for n := 1; ; n++ {
		var text *string // nil for null
		err := in.Decode(&text)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("stdin: text %d is not a JSON string: %w", n, err)
		case text == nil:
			return fmt.Errorf("stdin: text %d is not a JSON string: it is null", n)
		}
		ids := t.Encode(*text, special)
		if ids == nil {
			ids = []int32{}
		}
		if err := a.PrintJSON(ids); err != nil {
			return err
		}
	}
}
