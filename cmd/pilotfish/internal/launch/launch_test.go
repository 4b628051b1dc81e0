package launch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/serve"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.Program{Name: "pilotfish", Commands: func(a *cli.App) []*cobra.Command {
		return []*cobra.Command{NewCommand(a), serve.NewCommand(a)}
	}})
}

func TestScripts(t *testing.T) { clitest.Scripts(t) }

// listing returns the address of a server that lists a model with this key.
func listing(t *testing.T, key string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || key != "" && r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"fish","context_length":7777},{"id":"other","context_length":7777}]}`)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestPrint: the settings of every agent name the server and its model, and no placeholder is left; the key is named,
// and not printed.
func TestPrint(t *testing.T) {
	const key = "secret-key-0123456789"
	t.Setenv("PILOTFISH_API_KEY", key)
	at := listing(t, key)
	for _, one := range knownAgents() {
		for _, address := range []string{at, "http://" + at, "http://" + at + "/v1/"} {
			code, out, stderr := clitest.Call(t, "launch", one.name, "--print", "--listen", address, "--", "it's")
			require.Zero(t, code, stderr)
			assert.Contains(t, out, "http://"+at, one.name)
			assert.NotContains(t, out, key)
			assert.Contains(t, out, "PILOTFISH_API_KEY", one.name)
			assert.NotRegexp(t, `\{(url|base|model|context|key)\}`, out)
			if one.name != "llama.vscode" && one.name != "sdk" {
				assert.Contains(t, out, "fish")
			}
			assert.Equal(t, one.command != "", strings.HasSuffix(out, ` 'it'\''s'`+"\n"), out)
		}
	}
	code, _, stderr := clitest.Call(t, "launch", "nobody")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "claude, codex")
}

// TestStart: an agent gets its settings and the user's arguments after its own, and its failure is one of launch. One
// that is not installed, and a server without the key, are named.
func TestStart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("ANTHROPIC_BASE_URL", "https://elsewhere.example.org")
	out := filepath.Join(dir, "out")
	for _, one := range knownAgents() {
		if one.command == "" {
			continue
		}
		_, _, stderr := clitest.Call(t, "launch", one.name, "--listen", listing(t, ""))
		assert.Contains(t, stderr, one.command+" is not installed: "+one.get)
		script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >" + out + "\nenv >>" + out + "\nexit 7\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, one.command), []byte(script), 0o755))
		at := listing(t, "")
		code, _, stderr := clitest.Call(t, "launch", one.name, "--listen", at, "--", "--own", "a b")
		assert.Equal(t, cli.ExitFailed, code)
		assert.Contains(t, stderr, "exit status 7")
		b, err := os.ReadFile(out)
		require.NoError(t, err)
		s := server{"http://" + at + "/v1", "fish", "7777", "none"}
		var want []string
		for _, arg := range one.args {
			want = append(want, s.fillTemplate(arg))
		}
		assert.True(t, strings.HasPrefix(string(b), strings.Join(append(want, "--own", "a b"), "\n")+"\n"), string(b))
		for _, e := range one.env {
			assert.Contains(t, string(b), s.fillTemplate(e)+"\n")
		}
	}
	_, _, stderr := clitest.Call(t, "launch", "codex", "--listen", listing(t, "needed"))
	assert.Contains(t, stderr, "set PILOTFISH_API_KEY")
	_, _, stderr = clitest.Call(t, "launch", "codex", "--listen", clitest.ClosedPort)
	assert.Contains(t, stderr, "start pilotfish serve")
}
