package cli

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Columns of help if stdout is not a terminal, and the maximum if it is.
const (
	HelpColumns = 100
	maxColumns  = 120
)

// Columns returns the width of the terminal that w leads to, or usual if it leads to none.
func Columns(w io.Writer, usual int) int {
	if f, ok := underlyingFile(w); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return usual
}

func (a *App) helpWidth() int { return min(Columns(a.Stdout, HelpColumns), maxColumns) }

func addHelp(a *App, root *cobra.Command) {
	root.SetUsageFunc(func(c *cobra.Command) error {
		var text bytes.Buffer
		writeUsage(&text, c, a.helpWidth())
		_, err := c.OutOrStderr().Write(text.Bytes())
		return err
	})
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		if c.Flags().Changed("all") {
			writeOtherFlags(c.OutOrStdout(), c, a.helpWidth())
			return
		}
		about := c.Long
		if about == "" {
			about = c.Short
		}
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", Reflow(strings.TrimSpace(about), a.helpWidth()), c.UsageString())
	})
	visitCommands(root, func(c *cobra.Command) {
		n := 0
		if c.Flags().VisitAll(func(*pflag.Flag) { n++ }); n > manyFlags {
			c.Flags().Bool("all", false, "with --help: list the other flags")
		}
	})
}

// manyFlags is the maximum number of flags that --help lists completely.
const manyFlags = 20

func visitCommands(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		visitCommands(sub, do)
	}
}

// listedFlags returns the flags that help lists: all, or the often used ones if there are many.
func listedFlags(c *cobra.Command) *pflag.FlagSet {
	usual := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c.Flags().Lookup("all") == nil || f.Name == "help" || f.Name == "all" || DeclarationOf(f).Often {
			usual.AddFlag(f)
		}
	})
	return usual
}

func writeOtherFlags(w io.Writer, c *cobra.Command, columns int) {
	usual, rest := listedFlags(c), pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if usual.Lookup(f.Name) == nil {
			rest.AddFlag(f)
		}
	})
	fmt.Fprintf(w, "Flags of %s beside those of \"%[1]s --help\":\n%s", c.CommandPath(),
		rest.FlagUsagesWrapped(columns))
	writeOptions(w, c, columns)
}

func writeOptions(w io.Writer, c *cobra.Command, columns int) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if o, ok := f.Value.(*OptionsFlag); ok {
			usages := strings.ReplaceAll(o.FlagUsagesWrapped(columns), "      --", "      ")
			fmt.Fprintf(w, "\nOptions of --%s, as NAME=VALUE:\n%s", f.Name, usages)
		}
	})
}

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
		fmt.Fprintf(w, "\nFlags:\n%s", listedFlags(c).FlagUsagesWrapped(columns))
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

// paragraph is a part of a help text that is wrapped again.
type paragraph struct {
	label string // the start of the first line of a list entry; the other lines are indented by its width
	words []string
}

// appendLines adds the lines of the paragraph. Lines have at most the given number of columns, except for longer words.
func (p *paragraph) appendLines(out []string, columns int) []string {
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

// Reflow wraps paragraphs and lists again, at a number of columns. Other indented lines are unchanged.
func Reflow(text string, columns int) string {
	entry := regexp.MustCompile(`^( +\S(?:.*?\S)?  +)(\S.*)$`)
	var out []string
	var open paragraph
	end := func(label string) {
		out = open.appendLines(out, columns)
		open = paragraph{label: label}
	}
	for line := range strings.SplitSeq(text, "\n") {
		inner := strings.TrimLeft(line, " ")
		indent := len(line) - len(inner)
		found := entry.FindStringSubmatch(line)
		switch {
		case inner != "" && len(open.words) > 0 && indent == utf8.RuneCountInString(open.label): // an entry continues
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
