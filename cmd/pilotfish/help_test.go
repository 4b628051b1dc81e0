package main

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHelpWidth: no line of any help is wider than what is read well where stdout is no terminal; nothing of it is
// lost.
func TestHelpWidth(t *testing.T) {
	flagsOfCommands(func(c *cobra.Command, flags []*pflag.Flag) {
		code, stdout, stderr := call(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		require.Equal(t, exitDone, code, stderr)
		_, rest, _ := call(t, append(strings.Fields(c.CommandPath())[1:], "--help", "--all")...)
		text := strings.Join(strings.Fields(stdout+rest), " ")
		assert.Contains(t, text, strings.Join(strings.Fields(c.Long), " "))
		for _, f := range flags {
			_, usage := pflag.UnquoteUsage(f)
			assert.Contains(t, text, strings.Join(strings.Fields(usage), " "), "%s --%s", c.CommandPath(), f.Name)
		}
		for line := range strings.Lines(stdout) {
			if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "  pilotfish ") { // but a line to type
				assert.LessOrEqual(t, utf8.RuneCountInString(line), helpColumns, "%s: %s", c.CommandPath(), line)
			}
		}
	})
}

// TestHelpOfRun: what a newcomer reads first is short; everything is one word away.
func TestHelpOfRun(t *testing.T) {
	flags := func(text string) int { return len(regexp.MustCompile(`(?m)^ +(-\w, )?--\w`).FindAllString(text, -1)) }
	_, usual, _ := call(t, "run", "--help")
	_, all, _ := call(t, "run", "--help", "--all")
	assert.LessOrEqual(t, flags(usual), 17)
	assert.Less(t, flags(usual), flags(all)/2)
	assert.LessOrEqual(t, strings.Count(all, "\n"), 80)
	code, _, stderr := call(t, "run", "-m", "model.gguf", "--all", "hello")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "--all goes with --help")
}

func TestReflow(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"", 9, ""},
		{"one two\nthree", 80, "one two three"},
		{"one two three", 7, "one two\nthree"},
		{"one two three", 6, "one\ntwo\nthree"},
		{"überlang 日本", 11, "überlang 日本"},
		{"one\n\ntwo", 80, "one\n\ntwo"},
		{"list:\n  0    a\n  1    b\nend of it", 80, "list:\n  0    a\n  1    b\nend of it"},
		{"longer than that", 3, "longer\nthan\nthat"},
		{"  key    one two\n         three\nend", 15, "  key    one\n         two\n         three\nend"},
		{"  key    one\n         two\n  k2     three\n\n    - a b c d e f g h i", 18,
			"  key    one two\n  k2     three\n\n    - a b c d e f g h i"},
		{"tab:\n\n\tsource x", 80, "tab:\n\n\tsource x"},
	} {
		assert.Equal(t, c.want, reflow(c.text, c.columns))
	}
}
