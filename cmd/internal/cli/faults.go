package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagFault rewrites an error of pflag for users: pflag mentions the functions of Go that parse the value.
func FlagFault(err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return flagValueError(wrong)
	}
	if wrong, ok := errors.AsType[*pflag.NotExistError](err); ok && wrong.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("unknown flag: -%s in -%s", wrong.GetSpecifiedName(), wrong.GetSpecifiedShortnames())
	}
	if wrong, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		dashes := "--"
		if wrong.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return fmt.Errorf("%s%s needs a value", dashes, wrong.GetSpecifiedName())
	}
	return err
}

func suggestFlags(c *cobra.Command, err error) error {
	wrong, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || wrong.GetSpecifiedShortnames() != "" {
		return FlagFault(err)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := Near(wrong.GetSpecifiedName(), names); len(near) > 0 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return err
}

// Near returns the names that are similar to a wrong one, sorted.
func Near(wrong string, names []string) (near []string) {
	all := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra only compares names of commands
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
		if len(name) > 2 && strings.HasPrefix(wrong, name) {
			near = append(near, name)
		}
	}
	near = append(near, all.SuggestionsFor(wrong)...)
	slices.Sort(near)
	return slices.Compact(near)
}

func flagValueError(wrong *pflag.InvalidValueError) error {
	flag := wrong.GetFlag()
	what := fmt.Sprintf("--%s %.40q", flag.Name, wrong.GetValue())
	if flag.Shorthand != "" {
		what = fmt.Sprintf("-%s, --%s %.40q", flag.Shorthand, flag.Name, wrong.GetValue())
	}
	kind := flag.Value.Type()
	_, number := errors.AsType[*strconv.NumError](wrong.Unwrap())
	switch {
	case kind == new(OptionsFlag).Type():
		return fmt.Errorf("--%s: %w", flag.Name, wrong.Unwrap())
	case number && errors.Is(wrong.Unwrap(), strconv.ErrRange):
		return fmt.Errorf("%s is out of range", what)
	case number && kind == "bool":
		return fmt.Errorf("%s is neither true nor false", what)
	case number && strings.HasPrefix(kind, "uint"):
		return fmt.Errorf("%s is not a whole number of 0 or more", what)
	case number && strings.HasPrefix(kind, "int"):
		return fmt.Errorf("%s is not a whole number", what)
	case number:
		return fmt.Errorf("%s is not a number", what)
	case kind == "duration":
		return fmt.Errorf("%s is not a time such as 500ms, 30s or 5m", what)
	}
	return fmt.Errorf("%s: %w", what, wrong.Unwrap())
}

// checkRequiredFlags returns an error if required flags are missing.
func checkRequiredFlags(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, required := f.Annotations[cobra.BashCompOneRequiredFlag]; !required || f.Changed || err != nil {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		shown := "--" + f.Name
		if f.Shorthand != "" {
			shown = "-" + f.Shorthand
		}
		err = Usagef("%s is missing: give %s %s (%s)", shown, shown, strings.ToUpper(name), usage)
	})
	return err
}

// Called returns the name of a command for messages, which begin with the name of the program.
func Called(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ") }

// NoArgs refuses arguments that are not flags.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !c.HasAvailableSubCommands() {
		return fmt.Errorf("%s takes no arguments besides flags: leave out %.40q", Called(c), args[0])
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("%s has no command %.40q: choose one of %s", Called(c), args[0], strings.Join(names, ", "))
}

// OneArg requires one argument that is not a flag. what describes it.
func OneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s needs %s", Called(c), what)
		}
		return UpToOneArg(what)(c, args)
	}
}

// UpToOneArg refuses more than one argument that is not a flag. what describes it.
func UpToOneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%s takes one argument, %s: leave out %.40q", Called(c), what, args[1])
		}
		return nil
	}
}

// OneOf refuses an argument that is not one of the names.
func OneOf(what string, names []string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 && !slices.Contains(names, args[0]) {
			return fmt.Errorf("%.40q is not %s: choose one of %s", args[0], what, strings.Join(names, ", "))
		}
		return nil
	}
}

// SomeArgs requires at least one argument that is not a flag.
func SomeArgs(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s needs %s", Called(c), what)
		}
		return nil
	}
}
