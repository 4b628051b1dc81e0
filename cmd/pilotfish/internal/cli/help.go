package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Columns of help where stdout is no terminal, and at most where it is one.
const (
	HelpColumns = 100
	maxColumns  = 120
)

// helpWidth is how many columns help may take.
func (a *App) helpWidth() int {
	w := a.Stdout
	if o, ok := w.(*Output); ok {
		w = o.W
	}
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return min(columns, maxColumns)
		}
	}
	return HelpColumns
}

// addHelp has all commands wrap their help.
func addHelp(a *App, root *cobra.Command) {
	root.SetUsageFunc(func(c *cobra.Command) error {
		var text bytes.Buffer
		writeUsage(&text, c, a.helpWidth())
		_, err := c.OutOrStderr().Write(text.Bytes())
		return err
	})
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		if allFlags(c) {
			writeFlags(c.OutOrStdout(), c, a.helpWidth())
			return
		}
		about := c.Long
		if about == "" {
			about = c.Short
		}
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", Reflow(strings.TrimSpace(about), a.helpWidth()), c.UsageString())
	})
	eachCommand(root, func(c *cobra.Command) {
		if countFlags(c) > manyFlags {
			c.Flags().Bool("all", false, "with --help: list the other flags")
		}
	})
}

// manyFlags is how many flags a command has at most whose help lists them all.
const manyFlags = 20

func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, do)
	}
}

func countFlags(c *cobra.Command) (n int) {
	c.Flags().VisitAll(func(*pflag.Flag) { n++ })
	return n
}

// allFlags reports whether help is to list what it usually leaves out.
func allFlags(c *cobra.Command) bool {
	f := c.Flags().Lookup("all")
	return f != nil && f.Changed
}

// usualFlags are the flags that help lists: all, or of many those that are often used.
func usualFlags(c *cobra.Command) *pflag.FlagSet {
	usual := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c.Flags().Lookup("all") == nil || f.Name == "help" || f.Name == "all" || isOften(f) {
			usual.AddFlag(f)
		}
	})
	return usual
}

// isOften reports whether a flag is one of those that are often used.
func isOften(f *pflag.Flag) bool {
	_, often := f.Annotations[oftenUsed]
	return often
}

// writeFlags lists the flags that help leaves out, and the options of all.
func writeFlags(w io.Writer, c *cobra.Command, columns int) {
	usual, rest := usualFlags(c), pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if usual.Lookup(f.Name) == nil {
			rest.AddFlag(f)
		}
	})
	fmt.Fprintf(w, "Flags of %s beside those of \"%[1]s --help\":\n%s", c.CommandPath(),
		rest.FlagUsagesWrapped(columns))
	writeOptions(w, c, columns)
}

// writeOptions lists the options that flags of a command set.
func writeOptions(w io.Writer, c *cobra.Command, columns int) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if o, ok := f.Value.(*OptionsFlag); ok {
			usages := strings.ReplaceAll(o.FlagUsagesWrapped(columns), "      --", "      ")
			fmt.Fprintf(w, "\nOptions of --%s, as NAME=VALUE:\n%s", f.Name, usages)
		}
	})
}

// writeUsage writes how a command is called.
func writeUsage(w io.Writer, c *cobra.Command, columns int) {
	fmt.Fprintln(w, "Usage:")
	if c.Runnable() {
		fmt.Fprintf(w, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		if !strings.HasPrefix(c.UseLine(), c.CommandPath()+" COMMAND") {
			fmt.Fprintf(w, "  %s COMMAND\n", c.CommandPath())
		}
		fmt.Fprintln(w, "\nCommands:")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(w, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", usualFlags(c).FlagUsagesWrapped(columns))
	}
	if c.HasAvailableInheritedFlags() {
		fmt.Fprintf(w, "\nGlobal flags:\n%s", c.InheritedFlags().FlagUsagesWrapped(columns))
	}
	switch {
	case c.Flags().Lookup("all") != nil:
		fmt.Fprintf(w, "\n\"%s --help --all\" lists the other flags.\n", c.CommandPath())
	default:
		writeOptions(w, c, columns)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n\"%s COMMAND --help\" has more about a command.\n", c.CommandPath())
	}
}

// paragraph is a part of a help text whose lines are broken anew.
type paragraph struct {
	label string // the first line begins with it, the others are indented as far: an entry of a list
	words []string
}

// append adds the lines of the paragraph, of at most so many columns each if the words allow it.
func (p *paragraph) append(out []string, columns int) []string {
	line, begun := p.label, false
	for _, word := range p.words {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			out = append(out, line)
			line, begun = strings.Repeat(" ", utf8.RuneCountInString(p.label)), false
		}
		if begun {
			line += " "
		}
		line, begun = line+word, true
	}
	if begun {
		out = append(out, line)
	}
	return out
}

// Reflow breaks the lines of paragraphs and of lists anew, at so many columns. Other lines that are indented stay.
func Reflow(text string, columns int) string {
	entry := regexp.MustCompile(`^( +\S(?:.*?\S)?  +)(\S.*)$`)
	var out []string
	var open paragraph
	end := func(label string) {
		out = open.append(out, columns)
		open = paragraph{label: label}
	}
	for line := range strings.SplitSeq(text, "\n") {
		inner := strings.TrimLeft(line, " ")
		indent := len(line) - len(inner)
		found := entry.FindStringSubmatch(line)
		switch {
		case inner != "" && len(open.words) > 0 && indent == utf8.RuneCountInString(open.label): // it goes on
		case found != nil:
			end(found[1])
			inner = found[2]
		case indent > 0 || inner == "" || inner[0] == '\t':
			end("")
			out = append(out, line)
			continue
		default:
			end("")
		}
		open.words = append(open.words, strings.Fields(inner)...)
	}
	end("")
	return strings.Join(out, "\n")
}
