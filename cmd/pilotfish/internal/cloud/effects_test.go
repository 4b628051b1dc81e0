package cloud

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// cloudEffects has lines of flags, and what each changes. key is a file with the key sesame.
func cloudEffects(key string) map[string]string {
	return map[string]string{
		"": "Engines.Patience=10m0s; Engines.URLs=[http://a]; " +
			"Gateway.AskTimeout=1m0s; Gateway.IdleTimeout=30s; Gateway.MaxConns=8192; " +
			"Gateway.MaxTokens=16777216; Model.Backend=cpu; " +
			"admin=127.0.0.1:9433; listen=:4433; tokenizer=t",

		"--model m":        "model=m",
		"--threads 3":      "Model.Threads=3",
		"--ctx 70":         "Model.Context=70",
		"--kv f32":         "Model.KV=f32",
		"--backend soft":   "Model.Backend=soft",
		"--huge-pages off": "Model.HugePages=off",
		"--exact":          "Model.Exact=true",
		"--slots 9":        "Service.Slots=9",

		"--listen h:1":   "listen=h:1",
		"--admin :9":     "admin=127.0.0.1:9",
		"--admin off":    "admin=",
		"--open ":        "Access.open=true",
		"--token-file f": "Access.file=f; Access.given=true",

		"--upstream http://b":      "Engines.URLs=[http://a http://b]",
		"--tokenizer u":            "tokenizer=u",
		"--engine model=n":         "Engines.Model=n",
		"--engine key-file=" + key: "Engines.Key=sesame",

		"--limit memory=7":  "Gateway.MaxTokens=7",
		"--limit devices=7": "Gateway.MaxConns=7",
		"--limit rate=7.5":  "Gateway.DeviceRate=7.5",
		"--limit idle=7s":   "Gateway.IdleTimeout=7s",
		"--limit total=7s":  "Gateway.AskTimeout=7s",
	}
}

// TestCloudEffects: each flag sets what it is for in the model, its service, the gateway and the engines.
func TestCloudEffects(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("sesame\n"), 0o600))
	const elsewhere = "cert key log router config check-config ticket-key-file log-level"
	lines := cloudEffects(key)
	clitest.Effects(t, "--upstream http://a --tokenizer t", elsewhere, lines, func(c *cobra.Command, parse func()) any {
		f := new(cloudCommandFlags)
		f.registerFlags(c)
		parse()
		f.operate.given, f.access.given = nil, c.Flags().Changed("token-file")
		model, err := f.model.Options()
		require.NoError(t, err)
		require.NoError(t, f.upstream.Check(c.Flags()))
		service, err := f.serviceOptions()
		require.NoError(t, err)
		admin, err := adminAddress(f.operate.admin)
		require.NoError(t, err)
		return struct {
			Model                           engine.Options
			Service                         engine.ServeOptions
			Gateway                         engine.GatewayOptions
			Engines                         engine.UpstreamOptions
			Access                          accessFlags
			model, tokenizer, listen, admin string
		}{model, service, f.limits.o, f.upstream.O, f.access, f.model.Path, f.upstream.Tokenizer, f.listen, admin}
	})
}
