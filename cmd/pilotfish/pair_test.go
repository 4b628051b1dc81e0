package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/stretchr/testify/assert"
)

// pairCommands returns the command lines of each command that asks a gateway, without the flags of the small model.
func pairCommands(cloud []string) map[string][]string {
	return map[string][]string{
		"run --cloud": append([]string{"run", "--policy", "always", "-n", "2", "--deadline", "off", "--require-cloud",
			"What swims?"}, cloud...),
		"chat --cloud": append([]string{"chat", "-n", "2"}, cloud...),
	}
}

// flagOf returns the flag with which a command line names its large model, with its value.
func flagOf(line []string) string {
	for i, arg := range line {
		if arg == "--cloud" {
			return arg + " " + line[i+1]
		}
	}
	return ""
}

// TestPair: all commands with two models follow one rule. Templates with different text and the same effect are
// accepted silently; one with another effect gives a warning, unless no chat is used; another tokenizer is refused.
// Each message names the flag.
func TestPair(t *testing.T) {
	clitest.OwnFolders(t)
	large := clitest.TinyModel(t, "q8_0")
	address, pin, _ := clitest.StartCloud(t, "-m", large, "--log", "off")
	same := clitest.Replaced(t, large, "{# a chat #}", "{# a talk #}")
	other := clitest.Replaced(t, large, `message.role + '\n' +`, `message.role + ' \n'+`)
	none := clitest.Replaced(t, large, "tokenizer.chat_template", "tokenizer.tach_template")
	tokens := clitest.OtherTokens(t)
	for name, line := range pairCommands([]string{"--cloud", address, "--pin", pin}) {
		run := func(small string, more ...string) (code int, stderr string) {
			line := append(append(append([]string{}, line...), "-m", small), more...)
			code, _, stderr = callWith(t, "What swims?\n", line...)
			return code, stderr
		}
		t.Run(name, func(t *testing.T) {
			for _, small := range []string{same, none} {
				code, stderr := run(small)
				assert.Equal(t, cli.ExitDone, code, stderr)
				assert.NotContains(t, stderr, "template")
			}
			code, stderr := run(other)
			assert.Equal(t, cli.ExitDone, code, stderr)
			assert.Contains(t, stderr, "warning: "+flagOf(line)+": its chat template")
			assert.LessOrEqual(t, strings.Count(stderr, "warning"), 1)
			if !strings.HasPrefix(name, "chat") {
				code, stderr = run(other, "--raw")
				assert.Equal(t, cli.ExitDone, code, stderr)
				assert.NotContains(t, stderr, "template")
			}
			code, stderr = run(tokens)
			assert.Equal(t, cli.ExitFailed, code, stderr)
			assert.Contains(t, stderr, flagOf(line)+": ")
			assert.Contains(t, stderr, "token")
			assert.Contains(t, stderr, "-m")
			assert.Contains(t, stderr, "family")
			assert.NotContains(t, stderr, "template")
		})
	}
}

// callWith is call with text on stdin.
func callWith(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.New(clitest.UnderTest, strings.NewReader(stdin), &out, &errs).Run(t.Context(), args)
	return code, out.String(), errs.String()
}

// TestServePair: the server follows the same rule, and logs it.
func TestServePair(t *testing.T) {
	clitest.OwnFolders(t)
	large := clitest.TinyModel(t, "q8_0")
	address, pin, _ := clitest.StartCloud(t, "-m", large, "--log", "off")
	cloud := []string{"--cloud", address, "--pin", pin}
	other := clitest.Replaced(t, large, `message.role + '\n' +`, `message.role + ' \n'+`)
	for model, want := range map[string]bool{large: false, other: true} {
		s := clitest.StartServe(t, append([]string{"-m", model}, cloud...)...)
		s.Stop()
		said := s.Errs.String()
		assert.Equal(t, want, strings.Contains(said, "chat template writes chats differently"), said)
		assert.Equal(t, want, strings.Contains(said, "cloud="+address), said)
	}
	code, _, stderr := clitest.Call(t, append([]string{"serve", "-m", clitest.OtherTokens(t), "--listen",
		"127.0.0.1:0"}, cloud...)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "--cloud "+address+": ")
	assert.Contains(t, stderr, "tokenizers of edge and cloud differ")
}
