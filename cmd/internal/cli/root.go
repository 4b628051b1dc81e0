package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// NewRootCommand returns the command tree.
func NewRootCommand(a *App) *cobra.Command {
	root := &cobra.Command{
		Use:                   a.Program.Name + " COMMAND",
		DisableFlagsInUseLine: true,
		Short:                 a.Program.Short,
		Long: a.Program.Long + `

Text goes to stdout, everything else to stderr. Exit codes:
  0    success
  1    failure; without a message if stdout is a pipe that was closed, as with head
  2    wrong usage
  130  interrupted by Ctrl-C
  143  terminated by SIGTERM`,
		Version:                    BuildVersion(),
		Args:                       checkKnownCommand,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true, // App.executeCommand prints them
		SilenceUsage:               true,
		RunE: func(c *cobra.Command, _ []string) error {
			c.SetOut(a.Stderr)
			if err := c.Help(); err != nil {
				return err
			}
			return Usagef("no command given: choose one from the list above")
		},
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.AddCommand(a.Program.Commands(a)...)
	addSettingSources(a, root)
	visitCommands(root, a.addCompletions)
	addProfileFlags(root, a.Program.Profiled)
	root.InitDefaultCompletionCmd()
	root.SetHelpCommand(newHelpCommand(root))
	addHelp(a, root)
	root.SetFlagErrorFunc(suggestFlags)
	return root
}

func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND]",
		DisableFlagsInUseLine: true,
		Short:                 "Show the help of a command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (all []string, d cobra.ShellCompDirective) {
			if of, rest, err := root.Find(args); err == nil && len(rest) == 0 {
				for _, sub := range of.Commands() {
					all = append(all, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			switch {
			case err != nil:
				return &UsageError{err}
			case len(rest) > 0 && of == root:
				return &UsageError{checkKnownCommand(root, rest)}
			case len(rest) > 0:
				return Usagef("%s has no command %.40q", of.CommandPath(), rest[0])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

func checkKnownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return fmt.Errorf("there is no command %q", args[0])
}
