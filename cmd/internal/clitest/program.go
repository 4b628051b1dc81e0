package clitest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// VisitFlags calls f with every command of the program under test except those of cobra, and with its flags, including
// hidden ones but not --help.
func VisitFlags(f func(c *cobra.Command, flags []*pflag.Flag)) {
	root := cli.NewRootCommand(&cli.App{Program: UnderTest})
	root.InitDefaultVersionFlag()
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		var flags []*pflag.Flag
		c.Flags().AddFlagSet(c.PersistentFlags())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "all" {
				flags = append(flags, f)
			}
		})
		f(c, flags)
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" && sub.Name() != "help" {
				visit(sub)
			}
		}
	}
	visit(root)
}

// RefusesNonsense tests that a flag refuses values of a wrong type, and a declared range what is below it; the message
// names the flag.
func RefusesNonsense(t *testing.T) {
	VisitFlags(func(c *cobra.Command, flags []*pflag.Flag) {
		for _, f := range flags {
			switch f.Value.Type() {
			case "string", "stringArray", "stringSlice", "paths":
				continue
			}
			values := []string{"nonsense"}
			if cli.DeclarationOf(f).Span != "" {
				values = append(values, "-3", "-3s") // one of them is of the wrong type
			}
			for _, value := range values {
				err := c.Flags().Set(f.Name, value)
				if err == nil {
					err = cli.CheckFlags(c.Flags())
				} else {
					err = cli.FlagFault(err)
				}
				assert.ErrorContains(t, err, "--"+f.Name, "%s --%s=%s", c.CommandPath(), f.Name, value)
			}
			f.Changed = false
		}
	})
}

// FlagTable tests that there are at most this many flags and options of flags, that each is declared once, and a
// command has it, and that the flags that it depends on or excludes exist.
func FlagTable(t *testing.T, most int, declared []cli.FlagDecl) {
	t.Helper()
	used := map[string]bool{"all": true}
	VisitFlags(func(_ *cobra.Command, flags []*pflag.Flag) {
		for _, f := range flags {
			used[f.Name] = true
			if o, ok := f.Value.(*cli.OptionsFlag); ok {
				for _, name := range o.Names() {
					used[f.Name+"."+name] = true
				}
			}
		}
	})
	assert.LessOrEqual(t, len(declared), most, "flags and options of flags")
	seen := map[string]bool{}
	for _, d := range declared {
		assert.False(t, seen[d.Name], "%s is declared twice", d.Name)
		seen[d.Name] = true
		_, name, variant := strings.Cut(d.Name, ".")
		assert.True(t, used[d.Name] || variant && used[name], "no command has --%s", d.Name)
		assert.NotEmpty(t, d.Help, d.Name)
		assert.False(t, strings.HasSuffix(d.Help, "."), d.Name)
		for other := range strings.FieldsSeq(strings.Join([]string{d.Needs, d.Unless, d.Excludes, d.With}, " ")) {
			other, _, _ = strings.Cut(other, "=")
			assert.True(t, used[other], "%s names %s, which is no flag", d.Name, other)
		}
	}
}

// HelpIsWhole tests that help is wrapped at a readable width if stdout is not a terminal, and no text is lost.
func HelpIsWhole(t *testing.T) {
	VisitFlags(func(c *cobra.Command, flags []*pflag.Flag) {
		code, stdout, stderr := Call(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		require.Equal(t, cli.ExitDone, code, stderr)
		_, rest, _ := Call(t, append(strings.Fields(c.CommandPath())[1:], "--help", "--all")...)
		text := strings.Join(strings.Fields(stdout+rest), " ")
		assert.Contains(t, text, strings.Join(strings.Fields(c.Long), " "))
		for _, f := range flags {
			_, usage := pflag.UnquoteUsage(f)
			assert.Contains(t, text, strings.Join(strings.Fields(usage), " "), "%s --%s", c.CommandPath(), f.Name)
			o, ok := f.Value.(*cli.OptionsFlag)
			if !ok {
				continue
			}
			assert.Contains(t, text, "Options of --"+f.Name+", as NAME=VALUE:", c.CommandPath())
			o.VisitAll(func(option *pflag.Flag) {
				_, usage := pflag.UnquoteUsage(option)
				assert.Contains(t, text, strings.Join(strings.Fields(usage), " "), "%s --%s", c.CommandPath(), f.Name)
			})
		}
		for line := range strings.Lines(stdout) {
			// except for a command line
			if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "  "+UnderTest.Name+" ") {
				assert.LessOrEqual(t, utf8.RuneCountInString(line), cli.HelpColumns, "%s: %s", c.CommandPath(), line)
			}
		}
	})
}

// HelpShowsExamples tests that every command has a line of help and an example.
func HelpShowsExamples(t *testing.T) {
	VisitFlags(func(c *cobra.Command, _ []*pflag.Flag) {
		assert.NotEmpty(t, c.Short, c.Name())
		if c.HasParent() {
			assert.Contains(t, c.Example, c.CommandPath(), c.Name())
		}
	})
}

// ProfilesCommands tests that every command that runs for long has --profile.
func ProfilesCommands(t *testing.T) {
	t.Helper()
	for _, name := range UnderTest.Profiled {
		c, rest, err := cli.NewRootCommand(&cli.App{Program: UnderTest}).Find(strings.Fields(name))
		require.NoError(t, err)
		assert.Empty(t, rest, name)
		assert.NotNil(t, c.Flags().Lookup("profile"), name)
	}
}

// ManPages tests that every command has a man page with its flags, and returns their folder. With PILOTFISH_MAN they
// are written to that folder, which is how `make man` works. A test does this so that the program need not link the
// generator.
func ManPages(t *testing.T) (dir string) {
	t.Helper()
	dir = os.Getenv("PILOTFISH_MAN")
	if dir == "" {
		dir = t.TempDir()
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	root := cli.NewRootCommand(&cli.App{Program: UnderTest, Env: os.Getenv})
	root.DisableAutoGenTag = true
	var indent func(c *cobra.Command)
	indent = func(c *cobra.Command) {
		c.Long = manText(c.Long)
		for _, sub := range c.Commands() {
			indent(sub)
		}
	}
	indent(root)
	title := strings.ToUpper(UnderTest.Name)
	header := doc.GenManHeader{Title: title, Section: "1", Source: "Pilotfish", Manual: "Pilotfish"}
	require.NoError(t, doc.GenManTree(root, &header, dir))
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		require.NoError(t, err)
		assert.Contains(t, string(page), ".SH SYNOPSIS", c.CommandPath())
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	return dir
}

// manText formats lists in a help text, which would become paragraphs, as blocks of lines that fit on a page.
func manText(long string) string {
	var out []string
	before := false
	for line := range strings.SplitSeq(cli.Reflow(long, 72), "\n") {
		list := strings.HasPrefix(line, "  ") || before && line == ""
		if list != before {
			out = append(out, "")
		}
		if before = list; list && line != "" {
			line = "  " + line
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// RepositoryFile returns a file of the repository.
func RepositoryFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Root(), name))
	require.NoError(t, err)
	return string(b)
}

// InlineCode returns the words of a page in back quotes, one per line.
func InlineCode(page string) string {
	return strings.Join(regexp.MustCompile("`[^`\n]*--[^`\n]*`").FindAllString(page, -1), "\n")
}

// DocumentedFlags tests that there is a row for every command, and that every flag in pages, by their names, exists.
// Words of others are flags of other programs.
func DocumentedFlags(t *testing.T, rows string, pages map[string]string, others string) {
	t.Helper()
	known := map[string]bool{"help": true, "version": true, "all": true}
	for name := range strings.FieldsSeq(others) {
		known[name] = true
	}
	VisitFlags(func(c *cobra.Command, flags []*pflag.Flag) {
		for _, f := range flags {
			known[f.Name] = true
		}
		if name := strings.TrimPrefix(c.CommandPath(), UnderTest.Name+" "); c.HasParent() && c.Runnable() &&
			name != "version" && !c.HasSubCommands() {
			assert.Regexp(t, "\n\\| `"+name+"[ `]", rows, "a row for %s", name)
		}
	})
	flag := regexp.MustCompile("(?:^|[\\s\"\x60(])--([a-z][a-z-]+)")
	for name, page := range pages {
		found := flag.FindAllStringSubmatch(page, -1)
		assert.NotEmpty(t, found, name)
		for _, one := range found {
			assert.True(t, known[one[1]], "--%s in %s", one[1], name)
		}
	}
}

// Failures returns the lines of stderr that are not progress.
func Failures(stderr string) (all []string) {
	progress := regexp.MustCompile(`^[a-z ]+: (\d+%|\d+) of [\d.]+( MB)?\n$`)
	for line := range strings.Lines(stderr) {
		if !progress.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

// UnwritableStdout tests that with a full stdout each of the command lines ends with one line and exit status 1, and
// with a closed one with exit status 1, silently. M in a line is a model, and NEW a new file.
func UnwritableStdout(t *testing.T, commands ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	model := TinyModel(t, "q8_0")
	read, closed, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.Close())
	for out, lines := range map[*os.File]int{full: 1, closed: 0} {
		for _, command := range commands {
			place := strings.NewReplacer("NEW", filepath.Join(t.TempDir(), "new.gguf"), "M", model)
			args := strings.Fields(place.Replace(command))
			var stderr strings.Builder
			c := Program(t, args...)
			c.Stdout, c.Stderr = out, &stderr
			_ = c.Run() // the exit code says how it ended
			assert.Equal(t, cli.ExitFailed, c.ProcessState.ExitCode(), "%v: %s", args, &stderr)
			assert.Len(t, Failures(stderr.String()), lines, "%v: %s", args, &stderr)
			assert.Equal(t, lines == 1, strings.Contains(stderr.String(), "no space left on device"), args)
		}
		require.NoError(t, out.Close())
	}
}
