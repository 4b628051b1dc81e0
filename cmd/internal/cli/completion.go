package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

func (a *App) addCompletions(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		d := DeclarationOf(f)
		values, files := strings.Fields(d.Choices+" "+d.Values), strings.Fields(d.Files)
		switch {
		case f.Value.Type() == "bool":
			return
		case f.Name == "model", f.Name == "large", f.Name == "tokenizer":
			complete = a.completeModel
		case len(values) > 0:
			complete = cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		case len(files) > 0:
			complete = cobra.FixedCompletions(files, cobra.ShellCompDirectiveFilterFileExt)
		case f.Name == "kv-folder":
			complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		default:
			return
		}
		cobra.CheckErr(c.RegisterFlagCompletionFunc(f.Name, complete))
	})
	switch c.CommandPath() {
	case "pilotfish rm":
		c.ValidArgsFunction = a.completePulledModel
	case "pilotfish inspect":
		c.ValidArgsFunction = a.completeModel
	}
}

func (a *App) pulledModels() (names []string) {
	dir, err := a.ModelFolder()
	if err != nil {
		return nil
	}
	all, _ := hub.Models(dir) // a shell shows no errors
	for _, m := range all {
		names = append(names, m.Ref(all))
	}
	return names
}

// completePulledModel completes the names of downloaded models, except those that are on the line already.
func (a *App) completePulledModel(
	_ *cobra.Command, args []string, begun string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return slices.DeleteFunc(filterByPrefix(a.pulledModels(), begun),
		func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
}

func (a *App) completeModel(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all := append(filterByPrefix(a.pulledModels(), begun), listModelFiles(begun)...)
	directive := cobra.ShellCompDirectiveNoFileComp
	if len(all) == 1 && strings.HasSuffix(all[0], "/") {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return all, directive
}

func listModelFiles(begun string) (all []string) {
	dir, name := filepath.Split(begun)
	entries, err := os.ReadDir(filepath.Join(dir, "."))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name) || strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(name, ".") {
			continue
		}
		switch info, err := os.Stat(filepath.Join(dir, e.Name())); {
		case err != nil:
		case info.IsDir():
			all = append(all, dir+e.Name()+"/")
		case strings.EqualFold(filepath.Ext(e.Name()), ".gguf"):
			all = append(all, dir+e.Name())
		}
	}
	return all
}

func filterByPrefix(all []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool {
		return len(s) < len(begun) || !strings.EqualFold(s[:len(begun)], begun)
	})
}
