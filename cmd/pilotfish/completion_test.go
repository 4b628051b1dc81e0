package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// completed returns the completions that a shell gets for a line.
func completed(t *testing.T, line ...string) (values []string, directive string) {
	t.Helper()
	code, stdout, stderr := clitest.Call(t, append([]string{"__complete"}, line...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	values = strings.Split(strings.TrimSpace(stdout), "\n")
	last := len(values) - 1
	return values[:last], values[last]
}

const noFiles, endings, folders = ":4", ":8", ":16"

// TestCompletion: models, values and files are completed.
func TestCompletion(t *testing.T) {
	clitest.OwnFolders(t)
	clitest.ModelFolderWith(t, map[string][]byte{"o/n/m-q8_0.gguf": nil, "o/n/m-q4_0.gguf": nil, "o/x/y.gguf": nil})
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.gguf", "b.txt", ".hidden.gguf", "sub/c.GGUF"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	for _, c := range []struct{ line, want, directive string }{
		{"run -m |", "o/n:Q4_0 o/n:Q8_0 o/x:y.gguf a.gguf sub/", noFiles},
		{"chat --model |O/N", "o/n:Q4_0 o/n:Q8_0", noFiles},
		{"chat --model |s", "sub/", ":6"},
		{"chat --model |sub/", "sub/c.GGUF", noFiles},
		{"chat --model |.h", ".hidden.gguf", noFiles},
		{"chat --model |/nowhere/", "", noFiles},
		{"bench routing --large |a", "a.gguf", noFiles},
		{"cloud --tokenizer |a", "a.gguf", noFiles},
		{"inspect |o/x", "o/x:y.gguf", noFiles}, {"inspect |o/x:y.gguf", "o/x:y.gguf", noFiles},
		{"rm |", "o/n:Q4_0 o/n:Q8_0 o/x:y.gguf", noFiles},
		{"rm o/n:Q4_0 |", "o/n:Q8_0 o/x:y.gguf", noFiles},
		{"pull |o/n:q4_k", "o/n:Q4_K_M o/n:Q4_K_S", noFiles},
		{"pull |o/n", "", noFiles},
		{"pull a/b:Q8_0 |o/n:q4_k", "", noFiles},
		{"run --lookup |", "auto off", noFiles},
		{"demo --policy |", "never always random margin entropy learned", noFiles},
		{"serve --mode |", "local serial pipelined", noFiles},
		{"run --policy |", "never always random margin entropy learned", noFiles},
		{"chat --policy |", "never always random margin entropy learned", noFiles},
		{"run --mode |", "local serial pipelined", noFiles},
		{"chat --mode |", "local serial pipelined", noFiles},
		{"run --backend |", "cpu metal soft", noFiles},
		{"run --kv |f", "auto f16 f32", noFiles},
		{"run --router |", "gguf", endings},
		{"run --config |", "yaml yml", endings},
		{"chat --load |", "json", endings},
		{"chat --json-schema |", "json", endings},
		{"tokenize -m |o/x", "o/x:y.gguf", noFiles},
		{"list --dir |", "", folders},
	} {
		line, begun, _ := strings.Cut(c.line, "|")
		got, directive := completed(t, append(strings.Fields(line), begun)...)
		if c.directive == noFiles && strings.HasPrefix(c.want, "never") {
			assert.Equal(t, strings.Fields(c.want), got, c.line)
		} else {
			assert.ElementsMatch(t, strings.Fields(c.want), got, c.line)
		}
		assert.Equal(t, c.directive, directive, c.line)
	}
	got, _ := completed(t, "ch")
	assert.Equal(t, []string{"chat\tChat with a model in the terminal"}, got)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, stdout, _ := clitest.Call(t, "completion", shell)
		assert.Equal(t, cli.ExitDone, code)
		assert.Contains(t, stdout, "__complete", shell)
	}
}

// TestCompletionValues: each completed value is accepted by the flag: the only error is then about the model.
func TestCompletionValues(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	const m = "/nowhere/m.gguf"
	for _, d := range cli.Declarations() {
		flag, values := d.Name, strings.Fields(d.Choices+" "+d.Values)
		if len(values) == 0 {
			continue
		}
		for _, v := range append(slices.Clone(values), "nonsense") {
			args := []string{"run", "-m", m, "--cloud", clitest.ClosedPort, "--" + flag, v, "hello"}
			switch {
			case flag == "log-level":
				args = []string{"cloud", "--listen", "127.0.0.1:0", "-m", m, "--" + flag, v}
			case flag == "profile":
				args[6] = v + ":" + filepath.Join(t.TempDir(), v)
			case flag == "log" || flag == "bench-engine.kv" || flag == "task":
				continue // for servers, a list, and for files of each format
			case flag == "label" || flag == "reference":
				args = []string{"router", "collect", "-m", m, "--large", m, "--data", "demo", "--router", demoRouter(t),
					"-o", filepath.Join(t.TempDir(), "new"), "--" + flag, v}
			case v == "learned":
				args = append(args, "--router", demoRouter(t))
			case flag == "verify-every":
				args = append(args, "--verify", "0")
			}
			_, _, stderr := clitest.Call(t, args...)
			if v == "nonsense" {
				assert.NotContains(t, stderr, m, flag)
			} else {
				assert.Contains(t, stderr, m, "%s %s", flag, v)
			}
		}
	}
}

// demoRouter returns the file of the demo's router.
func demoRouter(t *testing.T) string {
	t.Helper()
	_, _, net := clitest.DemoPairFiles(t)
	return net
}

// TestCompletionInBash: the script works in a real shell.
func TestCompletionInBash(t *testing.T) {
	racing.Spare(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	clitest.OwnFolders(t)
	clitest.ModelFolderWith(t, map[string][]byte{"o/n/m-q8_0.gguf": nil, "o/n/m-q4_0.gguf": nil})
	_, script, _ := clitest.Call(t, "completion", "bash")
	// A substitute for bash-completion handles words with colons.
	const words = `
_get_comp_words_by_ref() {
	cur="${COMP_WORDS[COMP_CWORD]}"; prev="${COMP_WORDS[COMP_CWORD-1]}"; words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD
}
__ltrim_colon_completions() { :; }
complete_line() {
	COMP_LINE="$1"; COMP_POINT=${#1}; read -ra COMP_WORDS <<<"$1"; [[ "$1" == *" " ]] && COMP_WORDS+=("")
	COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMP_TYPE=9; COMPREPLY=(); __start_pilotfish 2>/dev/null
	printf '%s\n' "${COMPREPLY[@]}"
}
`
	for line, want := range map[string]string{
		"pilotfish ins":            "inspect",
		"pilotfish run --policy e": "entropy",
		"pilotfish run -m o/":      "o/n:Q4_0 o/n:Q8_0",
		"pilotfish rm o/n:Q8":      "Q8_0", // bash treats the text after a colon as a separate word
	} {
		c := exec.CommandContext(t.Context(), bash, "--norc", "-c", script+words+`complete_line "$1"`, "-", line)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, strings.Fields(want), strings.Fields(string(out)), line)
	}
}
