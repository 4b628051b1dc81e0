package models

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

// NewPullCommand returns the command that downloads a model.
func NewPullCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:                   "pull OWNER/NAME[@REVISION][:QUANT or :FILE]",
		DisableFlagsInUseLine: true,
		Short:                 "Download a model from the Hugging Face hub and print its path",
		Long: `Download a GGUF model from the Hugging Face hub and print its path.

QUANT is a quantisation such as Q4_K_M, in upper or lower case. Without it, the repository's only model is chosen, or
the first of its Q8_0, Q4_K_M, Q4_0 and F16 files. All parts of a split model are downloaded; the path is that of the
first. An interrupted download is resumed. A file that is already here and has the hub's SHA-256 is not downloaded
again.

Other commands accept the same name for -m. "pilotfish list" lists downloaded models, "pilotfish rm" removes them.

Environment:
  HF_TOKEN           token for private and gated repositories; sent only to the hub
  HF_ENDPOINT        another hub (default ` + hub.DefaultEndpoint + `)
  PILOTFISH_MODELS   folder for models (default: pilotfish/models in the user's cache folder)`,
		Example: `  pilotfish pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0
  pilotfish pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:qwen2.5-0.5b-instruct-q8_0.gguf`,
		Args: cli.OneArg("the model to download, such as Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0"),
		RunE: func(c *cobra.Command, args []string) error {
			ref, err := hub.ParseRef(args[0])
			if err != nil {
				return &cli.UsageError{Err: err}
			}
			return pullModel(c.Context(), a, ref)
		},
	}
}

func pullModel(ctx context.Context, a *cli.App, ref hub.Ref) error {
	dir, err := a.ModelFolder()
	if err != nil {
		return err
	}
	files, err := a.Fetch(ctx, ref, dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, files[0].Path)
	return err
}
