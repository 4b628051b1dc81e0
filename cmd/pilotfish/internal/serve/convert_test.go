package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/serve"
)

// TestServedCloud: what a server says of its gateway, and for which tokens it is asked. A token that the large model
// changed has the small model's own one.
func TestServedCloud(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.DemoFile("small.gguf")
	address, pin, stop := clitest.StartCloud(t, "-m", clitest.DemoFile("large.gguf"))
	for flags, want := range map[string]string{"": `"policy":"verify","budget":0.07,"verify":true}`,
		"--policy margin":                             `"policy":"margin","budget":0.07,`,
		"--budget 0.2 --policy entropy":               `"policy":"entropy","budget":0.2,`,
		"--threshold 0.3":                             `"policy":"margin","threshold":0.3,`,
		"--policy always":                             `"policy":"always",`,
		"--router " + clitest.DemoFile("router.gguf"): `"policy":"learned","budget":0.07,`,
		"--router " + clitest.CertifiedRouter(t, nil): `"policy":"learned","threshold":0.625,`,
	} {
		args := []string{"-m", m, "--cloud", address, "--pin", pin}
		s := clitest.StartServe(t, append(args, strings.Fields(flags)...)...)
		_, models := s.Ask(t, "/v1/models", "")
		assert.Contains(t, models, fmt.Sprintf(`"pilotfish":{"cloud":{"to":%q,"model":`, address))
		if flags != "" {
			want += `"verify":false}`
		}
		assert.Contains(t, models, `"connected":true,`+want, flags)
		_, answer := s.Ask(t, askChat, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":9,"temperature":0,`+
			`"pilotfish":{"provenance":true}}`)
		assert.True(t, flags != "--policy always" || strings.Contains(answer, `"origin":"cloud","edge_text":"`), answer)
		s.Stop()
	}
	stop()
	_, models := clitest.StartServe(t, "-m", m).Ask(t, "/v1/models", "")
	assert.NotContains(t, models, "cloud")
}

// TestExtent: which tokens the large model is asked for, in words.
func TestExtent(t *testing.T) {
	for want, c := range map[string]serve.Cloud{
		"which verifies every token":                                 {Verify: true, Policy: "never"},
		"which verifies every token and replaces at most 7% of them": {Verify: true, Budget: 0.07, Policy: "verify"},
		"asked for at most 7% of the tokens":                         {Budget: 0.07, Policy: "margin"},
		"asked where the confidence is below 0":                      {Threshold: new(float64), Policy: "margin"},
		"asked by the policy always":                                 {Policy: "always"},
	} {
		assert.Equal(t, want, extentText(c))
	}
}

// otherModel writes a tiny model with other metadata, which put writes, and returns its path.
func otherModel(t *testing.T, put func(w *gguf.Writer)) string {
	t.Helper()
	f, err := gguf.Open(clitest.TinyModel(t, "q8_0"))
	require.NoError(t, err)
	defer f.Close()
	path := filepath.Join(t.TempDir(), "other.gguf")
	file, err := os.Create(path)
	require.NoError(t, err)
	w := gguf.NewWriter(file)
	put(w)
	for key, v := range f.Metadata() {
		if key != "tokenizer.chat_template" {
			w.PutValue(key, v)
		}
	}
	for _, x := range f.Tensors() {
		w.Declare(x.Name, x.Type, x.Shape...)
	}
	for _, x := range f.Tensors() {
		_, err := w.Write(x.Data)
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(w.Close(), file.Close()))
	return path
}

// TestKeyFile: keys are in lines, with blanks around them and comments between them.
func TestKeyFile(t *testing.T) {
	const first, second = "first-key-0123456789", "second-key-0123456789"
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("# of the lab\r\n\r\n "+first+"\t\r\n#"+second+"\n"+second), 0o600))
	var s serveAccess
	var p pflag.FlagSet
	s.registerFlags(&p)
	t.Setenv(cli.ApiKeyVariable, " "+second+"\n")
	keys, from, err := s.readAPIKeys()
	require.NoError(t, err)
	assert.Equal(t, []string{second}, keys)
	assert.Equal(t, cli.ApiKeyVariable, from)
	require.NoError(t, p.Parse([]string{"--api-key-file", path}))
	keys, from, err = s.readAPIKeys()
	require.NoError(t, err)
	assert.Equal(t, []string{first, second}, keys, "the flag is stronger")
	assert.Equal(t, "--api-key-file "+path, from)
}

// TestWhoMayAsk: without keys, only an address that other machines cannot reach is served. The clients are named.
func TestWhoMayAsk(t *testing.T) {
	const local, key = "open to programs on this machine, as it listens on loopback only", "key-of-the-environment"
	for listen, loopback := range map[string]bool{"localhost:1": true, "127.0.0.1:1": true, "127.9.8.7:1": true,
		"[::1]:1": true, ":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "[fe80::1]:1": false,
		"localhost.example:1": false, "128.0.0.1:1": false, "127.0.0.1.example:1": false} {
		s := serveAccess{set: new(pflag.FlagSet), origins: []string{"https://a.b"}}
		_, origins, say, err := s.allowedClients(listen)
		assert.Equal(t, loopback, err == nil, listen)
		if loopback {
			assert.Equal(t, s.origins, origins, listen)
			assert.Equal(t, local, say, listen)
		}
		s.open = true
		keys, origins, say, err := s.allowedClients(listen)
		require.NoError(t, err)
		assert.Empty(t, keys, listen)
		assert.Equal(t, s.origins, origins, listen)
		assert.Equal(t, "open to every program that can reach it (--open)", say, listen)
		s.open = false
		t.Setenv(cli.ApiKeyVariable, key)
		keys, origins, say, err = s.allowedClients(listen)
		require.NoError(t, err)
		assert.Equal(t, []string{key}, keys, listen)
		assert.Equal(t, s.origins, origins, listen)
		assert.Equal(t, "to programs with an API key of "+cli.ApiKeyVariable, say, listen)
		require.NoError(t, os.Unsetenv(cli.ApiKeyVariable))
	}
}

// TestHosts: on loopback, names of this machine and of allowed origins are allowed.
func TestHosts(t *testing.T) {
	for listen, want := range map[string][]string{
		"127.0.0.2:80": {"localhost", "127.0.0.1", "::1", "127.0.0.2", "chat.example"}, "0.0.0.0:80": nil, ":80": nil,
	} {
		assert.Equal(t, want, (&serveAccess{origins: []string{"https://chat.example:8443"}}).allowedHosts(listen))
		assert.Nil(t, (&serveAccess{origins: []string{"*"}}).allowedHosts(listen),
			"any origin is allowed: so is any host")
	}
}

// TestKeyCharacters: an API key has characters that a header can carry, and is long enough.
func TestKeyCharacters(t *testing.T) {
	const rest = "123456789012345"
	for first, ok := range map[string]bool{"!": true, "~": true, " ": false, "\x7f": false, "\x1f": false, "é": false,
		"": false} {
		assert.Equal(t, ok, checkAPIKey(first+rest) == nil, "%q", first)
	}
}
