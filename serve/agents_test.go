//go:build clients

package serve

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// agent is a program that edits files, how it is installed, and how it edits one.
type agent struct {
	install []string // command that installs it into the working folder
	bin     string   // folder of the program there
	args    []string // to work without questions; the task follows
	steps   []step   // in terms of its own tools; DIR is the folder of the file
	text    string   // what the model says last
}

// Of an agent without tools of its own the edit is a text.
func agents() map[string]agent {
	npm := func(name string) []string {
		return []string{"npm", "install", "--silent", "--no-audit", "--no-fund", name}
	}
	const modules = "node_modules/.bin"
	file, before, after := "DIR/calc.py", "return a - b", "return a + b"
	return map[string]agent{
		"claude": {npm("@anthropic-ai/claude-code"), modules, []string{"--permission-mode", "acceptEdits",
			"-p"}, []step{
			{"Read", map[string]any{"file_path": file}},
			{"Edit", map[string]any{"file_path": file, "old_string": before, "new_string": after}},
		}, "Done."},
		"codex": {npm("@openai/codex"), modules, []string{"exec", "--sandbox", "danger-full-access",
			"--skip-git-repo-check"}, []step{
			{"exec_command", map[string]any{"cmd": "sed -i 's/a - b/a + b/' " + file}},
		}, "Done."},
		"opencode": {npm("opencode-ai"), modules, []string{"run"}, []step{
			{"read", map[string]any{"filePath": file}},
			{"edit", map[string]any{"filePath": file, "oldString": before, "newString": after}},
		}, "Done."},
		"qwen": {npm("@qwen-code/qwen-code"), modules, []string{"--yolo", "-p"}, []step{
			{"read_file", map[string]any{"file_path": file}},
			{"edit", map[string]any{"file_path": file, "old_string": before, "new_string": after}},
		}, "Done."},
		"aider": {[]string{"sh", "-c", "python3 -m venv venv && venv/bin/pip install --quiet aider-chat"}, "venv/bin",
			[]string{"--yes-always", "--no-git", "--edit-format", "diff", "calc.py", "-m"}, nil,
			"calc.py\n```python\n<<<<<<< SEARCH\n    " + before + "\n=======\n    " + after +
				"\n>>>>>>> REPLACE\n```\n"},
	}
}

// TestAgents installs each agent, starts it with pilotfish launch against a server with a script, and checks that it
// has edited a file as the script's calls say, and that its last request found its beginning in the cache. AGENTS names
// a folder with installed agents; without it they are in a temporary one.
func TestAgents(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pilotfish")
	out, err := exec.Command("go", "build", "-o", program, "../cmd/pilotfish").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range slices.Sorted(maps.Keys(agents())) {
		t.Run(name, func(t *testing.T) {
			a := agents()[name]
			place := installed(t, name, a)
			dir := t.TempDir()
			calc := filepath.Join(dir, "calc.py")
			require.NoError(t, os.WriteFile(calc, []byte("def add(a, b):\n    return a - b\n"), 0o644))
			for _, s := range a.steps {
				for key, value := range s.Arguments {
					s.Arguments[key] = strings.ReplaceAll(value.(string), "DIR", dir)
				}
			}
			url, last := serveScript(t, scripted{a.steps, a.text})
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			args := append([]string{"launch", name, "--listen", url, "--"}, a.args...)
			c := exec.CommandContext(ctx, program, append(args, "add is wrong in calc.py: repair it")...)
			c.Dir, c.WaitDelay = dir, time.Second
			c.Env = append(os.Environ(), "HOME="+t.TempDir(), "PWD="+dir,
				"PATH="+filepath.Join(place, a.bin)+":"+os.Getenv("PATH"))
			out, err := c.CombinedOutput()
			t.Logf("%s", out)
			require.NoError(t, err)
			got, err := os.ReadFile(calc)
			require.NoError(t, err)
			assert.Equal(t, "def add(a, b):\n    return a + b\n", string(got))
			if e := last(); a.steps != nil {
				assert.Greater(t, float64(e.Cached), 0.98*float64(e.Prompt))
			}
		})
	}
}

// installed returns the folder with an agent.
func installed(t *testing.T, name string, a agent) string {
	t.Helper()
	place := filepath.Join(os.Getenv("AGENTS"), name)
	if os.Getenv("AGENTS") == "" {
		place = t.TempDir()
	}
	if _, err := os.Stat(filepath.Join(place, a.bin)); err == nil {
		return place
	}
	require.NoError(t, os.MkdirAll(place, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, a.install[0], a.install[1:]...)
	c.Dir = place
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("*** LEFT OUT: the agent cannot be installed: %v: %s ***", err, out)
	}
	return place
}
