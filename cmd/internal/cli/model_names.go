package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/hub"
	"github.com/spf13/cobra"
)

// ModelFolder returns the folder of downloaded models.
func (a *App) ModelFolder() (string, error) { return hub.DefaultDir(a.Env) }

// CanAsk reports whether stdin and stderr are terminals, so that a user can answer questions.
func (a *App) CanAsk() bool {
	in, ok := a.Stdin.(*os.File)
	return ok && IsTerminal(in) && IsTerminal(a.Stderr)
}

// Ask asks a question on the terminal. Every answer except yes means no.
func (a *App) Ask(ctx context.Context, question string) (yes bool, err error) {
	fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	line, err := a.readTerminalLine(ctx)
	if err != nil && line == "" {
		fmt.Fprintln(a.Stderr)
		return false, context.Cause(ctx)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// readTerminalLine reads a line from stdin, which is a terminal and returns one line at a time. A blocked read cannot
// be cancelled: if ctx ends first, the read is abandoned, and the program ends soon after.
func (a *App) readTerminalLine(ctx context.Context) (string, error) {
	type result struct {
		line string
		err  error
	}
	got := make(chan result, 1)
	go func() {
		line, err := bufio.NewReader(a.Stdin).ReadString('\n')
		got <- result{line, err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// resolveModelFlags replaces the name of a downloaded model by its path, in the flags for models. On a terminal it
// offers to download a missing model.
func (a *App) resolveModelFlags(c *cobra.Command) error {
	for _, name := range []string{"model", "large", "tokenizer"} {
		flag := c.Flags().Lookup(name)
		if flag == nil || !flag.Changed || flag.Value.Type() != "string" {
			continue
		}
		path, err := a.ModelPath(c.Context(), flag.Value.String())
		if err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
		if err := flag.Value.Set(path); err != nil {
			return err
		}
	}
	return nil
}

// NamesModel reports whether an argument is the name of a model file or of a downloaded model.
func (a *App) NamesModel(arg string) bool {
	if strings.HasSuffix(arg, ".gguf") && !strings.ContainsAny(arg, " \t\n") {
		return true
	}
	if dir, err := a.ModelFolder(); err == nil {
		if _, err = hub.Find(dir, arg); err == nil { // complete or not
			return true
		}
	}
	path, _, err := hub.Locate(a.Env, arg)
	return err == nil && path != arg
}

// ModelPath returns the path of the file that name means: name itself, or the file of a downloaded model.
func (a *App) ModelPath(ctx context.Context, name string) (string, error) {
	path, cache, err := hub.Locate(a.Env, name)
	if cache != "" {
		fmt.Fprintf(a.Stderr, "%s: found in the cache of Hugging Face's tools, %s\n", name, path)
	}
	missing, ok := errors.AsType[*hub.MissingError](err)
	if !ok || !a.CanAsk() {
		return path, err
	}
	yes, failed := a.Ask(ctx, fmt.Sprintf("There is no model %s in %s. Fetch it?", missing.Ref, missing.Dir))
	if failed != nil || !yes {
		return "", errors.Join(failed, err)
	}
	files, err := a.Fetch(ctx, missing.Ref, missing.Dir)
	if err != nil {
		return "", err
	}
	return files[0].Path, nil
}

// Fetch downloads the files of ref into the folder, with a bar on a terminal.
func (a *App) Fetch(ctx context.Context, ref hub.Ref, dir string) ([]hub.File, error) {
	meter := NewMeter(a.Stderr, ref.String(), true)
	defer meter.Close()
	files, err := hub.Pull(ctx, ref, hub.Options{
		Dir:      dir,
		Endpoint: a.Env("HF_ENDPOINT"),
		Token:    a.Env("HF_TOKEN"),
		Progress: meter.Show,
		Notice:   meter.Say,
	})
	stopped, interrupted := errors.AsType[*Interruption](context.Cause(ctx))
	if cut, ok := errors.AsType[*hub.CutOffError](err); ok && interrupted {
		err = &Interruption{Signal: stopped.Signal, Progress: cut.Kept()}
	}
	if wire := (*net.OpError)(nil); errors.As(err, &wire) {
		err = fmt.Errorf("%w (without a network, -m takes a GGUF file on disk; HF_ENDPOINT names a mirror of the hub)",
			err)
	}
	return files, err
}
