package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/runtime/hub"
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

// newListCommand shows what was pulled.
func newListCommand(a *app) *cobra.Command {
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use:                   "list [--dir DIR] [--json]",
		DisableFlagsInUseLine: true,
		Short:                 "List downloaded models",
		Long: `List downloaded models, with the names that other commands accept for -m.

--json prints one object per model: "name", "quant" (absent if the file's name does not contain it), "bytes",
"modified", "path", and "missing", the number of parts that are absent or incomplete.`,
		Example: "  pilotfish list",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.modelFolder(dir)
			if err != nil {
				return err
			}
			all, err := hub.Models(dir)
			if err != nil {
				return fmt.Errorf("list models: %w", err)
			}
			if asJSON {
				return a.listJSON(all)
			}
			return a.list(all, dir)
		},
	}
	registerModelFolder(c, &dir)
	add(c.Flags(), "json", &asJSON, false)
	return c
}

// listedModel is a line of list --json.
type listedModel struct {
	Name     string    `json:"name"`
	Quant    string    `json:"quant,omitempty"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
	Path     string    `json:"path"`
	Missing  int       `json:"missing"` // parts
}

func (a *app) listJSON(all []hub.Model) error {
	for _, m := range all {
		err := a.printJSON(listedModel{m.Ref(all), m.Quant, m.Size, m.Modified.UTC().Truncate(time.Second), m.Path,
			m.Missing})
		if err != nil {
			return err
		}
	}
	return nil
}

// list prints a table.
func (a *app) list(all []hub.Model, dir string) error {
	if len(all) == 0 {
		fmt.Fprintf(a.stderr, "no models in %s: \"pilotfish pull OWNER/NAME\" fetches one\n", dir)
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tQUANT\tSIZE\tMODIFIED\tPATH")
	for _, m := range all {
		quant, size := m.Quant, humanize.Bytes(uint64(m.Size))
		if quant == "" {
			quant = "-"
		}
		if m.Missing > 0 {
			size += ", incomplete"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Ref(all), quant, size, m.Modified.Local().Format("2006-01-02 15:04"),
			m.Path)
	}
	return w.Flush()
}

// newRemoveCommand removes what was pulled.
func newRemoveCommand(a *app) *cobra.Command {
	var dir string
	var force bool
	c := &cobra.Command{
		Use:                   "rm [--dir DIR] [--force] OWNER/NAME[:QUANT or :FILE]...",
		DisableFlagsInUseLine: true,
		Short:                 "Remove downloaded models",
		Long: `Remove downloaded models with all their parts, and partial downloads. On a terminal it asks for each;
otherwise --force is needed. A model that is being downloaded is kept. If one of the names is wrong, nothing is
removed.`,
		Example: "  pilotfish rm Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0",
		Args:    someArgs("the models to remove: \"pilotfish list\" shows their names"),
		RunE: func(c *cobra.Command, names []string) error {
			if !force && !a.canAsk() {
				return usagef("there is no terminal to ask on: give --force to remove without asking")
			}
			dir, err := a.modelFolder(dir)
			if err != nil {
				return err
			}
			return a.remove(c.Context(), dir, names, force)
		},
	}
	registerModelFolder(c, &dir)
	add(c.Flags(), "force", &force, false)
	return c
}

// remove removes the models with such names.
func (a *app) remove(ctx context.Context, dir string, names []string, force bool) error {
	var chosen []hub.Model
	for _, name := range names {
		m, err := hub.Find(dir, name)
		if missing, ok := errors.AsType[*hub.MissingError](err); ok {
			return fmt.Errorf("there is no model %s in %s: \"pilotfish list\" shows what there is", missing.Ref, dir)
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		chosen = append(chosen, m)
	}
	for _, m := range chosen {
		what := fmt.Sprintf("%s:%s (%s)", m.Repository(), m.File, humanize.Bytes(uint64(m.Size)))
		if !force {
			if yes, err := a.ask(ctx, "Remove "+what+"?"); err != nil || !yes {
				return err
			}
		}
		if err := hub.Remove(dir, m); err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "removed %s\n", what)
	}
	return nil
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

// modelHint adds to the error of a model that is not there which flag named it, and what could be.
func modelHint(c *cobra.Command, err error) error {
	missing, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(missing, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{"model", "large", "tokenizer"} {
		if flag := c.Flags().Lookup(name); flag != nil && flag.Changed && flag.Value.String() == missing.Path {
			return fmt.Errorf("--%s: %w: give the path of a GGUF file, or the name of a downloaded model "+
				"(\"pilotfish list\" shows them)", name, err)
		}
	}
	return err
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
