package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/serve"
)

// serveEffects has lines of flags, and what each changes. keys is a file with two API keys.
func serveEffects(t *testing.T, keys string) map[string]string {
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	return map[string]string{
		"": "Dial.TicketFolder=" + filepath.Join(cache, "pilotfish", "tickets") + "; Model.Backend=cpu; " +
			"Names=[m]; Route.Branches=-1; Router.Budget=0.07; Router.Policy=verify; " +
			"Server.Hosts=[localhost 127.0.0.1 ::1 127.0.0.1]; " +
			"Server.Page=true; Server.Parallel=4; Server.Temperature=1; Server.Timeout=10m0s; " +
			"address=h:1; folderBytes=4294967296; listen=127.0.0.1:8080",

		"--threads 3":         "Model.Threads=3",
		"--ctx 70":            "Model.Context=70",
		"--kv f32":            "Model.KV=f32",
		"--backend soft":      "Model.Backend=soft",
		"--huge-pages off":    "Model.HugePages=off",
		"--alias a --alias b": "Names=[a b m]",
		"--temp 0.5":          "Server.Temperature=0.5",
		"--parallel 3":        "Server.Parallel=3",
		"--kv-folder kv":      "folder=kv",
		"--limit kv-folder-bytes=9 --kv-folder kv": "folder=kv; folderBytes=9",
		"--limit sessions=7":                       "Server.Sessions=7",
		"--limit request-timeout=9s":               "Server.Timeout=9s",
		"--listen [::1]:9":                         "Server.Hosts=[localhost 127.0.0.1 ::1 ::1]; listen=[::1]:9",
		"--listen 0.0.0.0:9 --open":                "Server.Hosts=; listen=0.0.0.0:9",
		"--api-key-file " + keys:                   "Server.Keys=[0123456789abcdef fedcba9876543210]",
		"--cors-origin https://a.b"://
		"Server.Hosts=[localhost 127.0.0.1 ::1 127.0.0.1 a.b]; Server.Origins=[https://a.b]",
	}
}

// TestServeEffects: each flag sets what it is for in the model, the server and the route to the cloud.
func TestServeEffects(t *testing.T) {
	clitest.OwnFolders(t)
	dir := t.TempDir()
	keys, token, net := filepath.Join(dir, "keys"), filepath.Join(dir, "token"), clitest.DemoFile("router.gguf")
	require.NoError(t, os.WriteFile(keys, []byte("0123456789abcdef\nfedcba9876543210\n"), 0o600))
	require.NoError(t, os.WriteFile(token, []byte("sesame\n"), 0o600))
	const usual, elsewhere = "--model m.gguf --cloud h:1", "model large local cert key log log-level"
	lines := clitest.WithCloud(token, net, serveEffects(t, keys))
	clitest.Effects(t, usual, elsewhere, lines, func(c *cobra.Command, parse func()) any {
		f, a := new(serveFlags), &cli.App{}
		f.registerFlags(c)
		parse()
		o, err := f.serverOptions()
		require.NoError(t, err)
		o.Keys, o.Origins, _, err = f.access.allowedClients(f.listen)
		require.NoError(t, err)
		o.Hosts = f.access.allowedHosts(f.listen)
		model, err := f.model.Public()
		require.NoError(t, err)
		dial, err := f.via.parseDialOptions(a)
		require.NoError(t, err)
		require.NotZero(t, dial.Device)
		dial.Device = [len(dial.Device)]byte{}
		route, err := f.via.route.Routed()
		require.NoError(t, err)
		require.NotNil(t, route.Router)
		route.Router = nil
		by, err := f.via.route.Router(nil)
		require.NoError(t, err)
		by.Net, by.Calibration = nil, nil
		return struct {
			Server         serve.Options
			Names          []string
			Model          pilotfish.Options
			Dial           pilotfish.DialOptions
			Route          pilotfish.Route
			Router         router.Options
			folder, listen string
			folderBytes    int64
			address        string
		}{Server: o, Names: f.modelNames(), Model: model, Dial: dial, Route: route, Router: by, folder: f.limits.folder,
			folderBytes: f.limits.folderBytes, listen: f.listen, address: f.via.gateway.Address}
	})
}

// TestFingerprint: the fingerprint of answers differs for another model file, backend and type of keys and values.
func TestFingerprint(t *testing.T) {
	of := func(kind, backend, kv string) string {
		m, err := pilotfish.Open(clitest.TinyModel(t, kind), pilotfish.Options{})
		require.NoError(t, err)
		defer m.Close()
		var f serveFlags
		f.model.Backend, f.model.Kv = backend, kv
		name, err := f.systemFingerprint(m)
		require.NoError(t, err)
		return name
	}
	usual := of("q8_0", "cpu", "auto")
	assert.Equal(t, usual, of("q8_0", "cpu", "auto"))
	for _, other := range []string{of("f16", "cpu", "auto"), of("q8_0", "metal", "auto"), of("q8_0", "cpu", "f32")} {
		assert.NotEqual(t, usual, other)
	}
	assert.Contains(t, usual, fmt.Sprintf("_cpu_%.20s", strings.ReplaceAll(cli.BuildVersion(), "+", "-")))
}
