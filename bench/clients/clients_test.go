//go:build clients

package clients

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClients runs the program of each client against a server with a model of random weights: chats, streams, tools,
// schemas, errors, and requests that the client cancels. A client that cannot be installed is skipped with a message.
func TestClients(t *testing.T) {
	s := startServer(t, randomModel(t))
	for name, c := range map[string]struct {
		needs   string
		install func(dir string) []string
		check   func(dir string) []string
	}{
		"python": {"python3", func(dir string) []string {
			return []string{"sh", "-c", "python3 -m venv venv && venv/bin/pip install --quiet -r requirements.txt"}
		}, func(dir string) []string {
			return []string{filepath.Join(dir, "venv/bin/python"), "check.py", s.url, apiKey}
		}},
		"node": {"npm", func(string) []string {
			return []string{"npm", "install", "--silent", "--no-audit", "--no-fund"}
		}, func(string) []string { return []string{"node", "check.mjs", s.url, apiKey} }},
		"gosdk": {"go", func(string) []string { return []string{"go", "mod", "download"} },
			func(string) []string { return []string{"go", "run", ".", s.url, apiKey} }},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skipf("*** LEFT OUT: %v ***", err)
			}
			dir := copied(t, name)
			install := c.install(dir)
			if err := command(t, dir, install[0], install[1:]...); err != nil {
				t.Skipf("*** LEFT OUT: the client cannot be installed: %v ***", err)
			}
			check := c.check(dir)
			require.NoError(t, command(t, dir, check[0], check[1:]...))
		})
	}
}
