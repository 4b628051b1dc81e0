package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pairCommands returns the command lines of each command with two models, without the flags of the small one; cloud is
// the address of a gateway, large the file of the large model. Some commands can leave out the chat template.
func pairCommands(t *testing.T, cloud []string, large string) map[string][]string {
	t.Helper()
	dir := t.TempDir()
	questions := filepath.Join(dir, "questions.jsonl")
	require.NoError(t, os.WriteFile(questions, []byte(`{"question": "What swims?", "answer": "fish"}`+"\n"), 0o600))
	few := []string{"--questions", "1", "-n", "2"}
	eval := append([]string{"eval", questions, "--policy", "always"}, few...)
	collect := append([]string{"router", "collect", "--data", questions}, few...)
	in := func(line, where []string) []string { return append(append([]string{}, line...), where...) }
	here := []string{"--large", large}
	return map[string][]string{
		"eval --cloud":           in(eval, cloud),
		"eval --large":           in(eval, here),
		"router collect --cloud": in(append(collect, "-o", filepath.Join(dir, "far")), cloud),
		"router collect --large": in(append(collect, "-o", filepath.Join(dir, "near")), here),
		"routing --large": in([]string{"routing", "--workload", questions, "--modes", "serial",
			"-n", "2", "--deadline", "off"}, here),
	}
}

// flagOf returns the flag with which a command line names its large model, with its value.
func flagOf(line []string) string {
	for i, arg := range line {
		if arg == "--cloud" || arg == "--large" {
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
	address, pin := clitest.StartGateway(t, large, engine.Options{})
	same := clitest.Replaced(t, large, "{# a chat #}", "{# a talk #}")
	other := clitest.Replaced(t, large, `message.role + '\n' +`, `message.role + ' \n'+`)
	none := clitest.Replaced(t, large, "tokenizer.chat_template", "tokenizer.tach_template")
	tokens := clitest.OtherTokens(t)
	for name, line := range pairCommands(t, []string{"--cloud", address, "--pin", pin}, large) {
		run := func(small string, more ...string) (code int, stderr string) {
			line := append(append(append([]string{}, line...), "-m", small), more...)
			for i := range line[:len(line)-1] {
				if line[i] == "-o" { // a new folder
					line[i+1] = filepath.Join(t.TempDir(), "out")
				}
			}
			code, _, stderr = clitest.Call(t, line...)
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
			code, stderr = run(other, "--raw")
			assert.Equal(t, cli.ExitDone, code, stderr)
			assert.NotContains(t, stderr, "template")
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
