package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/hub"
	"github.com/spf13/cobra"
)

// registerModelFolder adds --dir.
func registerModelFolder(c *cobra.Command, dir *string) {
	add(c.Flags(), "dir", dir, "")
}

// modelFolder is the folder of --dir, or else the one that is used where nothing is said.
func (a *app) modelFolder(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	return hub.DefaultDir(a.env)
}

// canAsk reports whether there is somebody to ask.
func (a *app) canAsk() bool {
	in, ok := a.stdin.(*os.File)
	return ok && isTerminal(in) && isTerminal(a.stderr)
}

// ask asks a question on the terminal. Whatever is not a yes is a no.
func (a *app) ask(ctx context.Context, question string) (yes bool, err error) {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	line, err := a.readLine(ctx)
	if err != nil && line == "" {
		fmt.Fprintln(a.stderr)
		return false, context.Cause(ctx)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// readLine reads a line from stdin, which is a terminal and gives one at a time. A read that waits cannot be ended:
// when ctx ends first, it is left behind, and the program with it.
func (a *app) readLine(ctx context.Context) (string, error) {
	type result struct {
		line string
		err  error
	}
	got := make(chan result, 1)
	go func() {
		line, err := bufio.NewReader(a.stdin).ReadString('\n')
		got <- result{line, err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// findModels puts the path of a pulled model in the place of its name, in the flags that name models. On a terminal it
// offers to fetch one that is not here.
func (a *app) findModels(c *cobra.Command) error {
	for _, name := range []string{"model", "large", "tokenizer"} {
		flag := c.Flags().Lookup(name)
		if flag == nil || !flag.Changed || flag.Value.Type() != "string" {
			continue
		}
		if flag.Value.String() == "" {
			return usagef("--%s is empty: give the path of a GGUF file, or the name of a downloaded model", name)
		}
		path, err := a.modelPath(c.Context(), flag.Value.String())
		if err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
		if err := flag.Value.Set(path); err != nil {
			return err
		}
	}
	return nil
}

// namesModel reports whether an argument is the file of a model by its name, or a model that is downloaded.
func (a *app) namesModel(arg string) bool {
	if strings.HasSuffix(arg, ".gguf") && !strings.ContainsAny(arg, " \t\n") {
		return true
	}
	dir, err := a.modelFolder("")
	if err == nil {
		_, err = hub.Find(dir, arg)
	}
	return err == nil
}

// modelPath is the path of the file that name means: its own, or that of a pulled model.
func (a *app) modelPath(ctx context.Context, name string) (string, error) {
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	dir, err := a.modelFolder("")
	if err != nil {
		return name, nil // without a folder there are no names: opening the file says what is wrong
	}
	path, err := hub.Resolve(dir, name)
	missing, ok := errors.AsType[*hub.MissingError](err)
	if !ok || !a.canAsk() {
		return path, err
	}
	yes, failed := a.ask(ctx, fmt.Sprintf("There is no model %s in %s. Fetch it?", missing.Ref, dir))
	if failed != nil || !yes {
		return "", errors.Join(failed, err)
	}
	files, err := a.fetch(ctx, missing.Ref, dir)
	if err != nil {
		return "", err
	}
	return files[0].Path, nil
}

// fetch brings what ref names into the folder, with a bar for somebody who watches.
func (a *app) fetch(ctx context.Context, ref hub.Ref, dir string) ([]hub.File, error) {
	meter := newMeter(a.stderr, ref.String(), inBytes)
	defer meter.close()
	files, err := hub.Pull(ctx, ref, hub.Options{
		Dir:      dir,
		Endpoint: a.env("HF_ENDPOINT"),
		Token:    a.env("HF_TOKEN"),
		Progress: meter.show,
		Notice:   meter.say,
	})
	stopped, interrupted := errors.AsType[*interruption](context.Cause(ctx))
	if cut, ok := errors.AsType[*hub.CutOffError](err); ok && interrupted {
		err = &interruption{signal: stopped.signal, progress: cut.Kept()}
	}
	return files, err
}
