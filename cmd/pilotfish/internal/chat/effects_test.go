package chat

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestChatEffects: each flag sets what it is for in the model, the answers, and the route to the cloud.
func TestChatEffects(t *testing.T) {
	clitest.OwnFolders(t)
	token, net := filepath.Join(t.TempDir(), "token"), clitest.DemoFile("router.gguf")
	require.NoError(t, os.WriteFile(token, []byte("sesame\n"), 0o600))
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	elsewhere := clitest.Numbers() + " model large system load local think"
	clitest.Effects(t, "--model m --cloud h:1", elsewhere, clitest.WithCloud(token, net, map[string]string{
		"": "Answer.MaxTokens=1024; Answer.RepeatPenalty=1; Answer.TopP=1; " +
			"Dial.TicketFolder=" + filepath.Join(cache, "pilotfish", "tickets") +
			"; Dial.Timeout=10s; Model.Backend=cpu; Route.Branches=-1; Router.Budget=0.07; " +
			"Router.Policy=verify; address=h:1; answers=m",

		"--threads 3":      "Model.Threads=3",
		"--ctx 70":         "Model.Context=70",
		"--kv f32":         "Model.KV=f32",
		"--backend soft":   "Model.Backend=soft",
		"--huge-pages off": "Model.HugePages=off",

		"--max-tokens 9":        "Answer.MaxTokens=9",
		"--temp 2 --seed 4":     "Answer.Seed=4; Answer.Temperature=2",
		"--stop a --stop b":     "Answer.Stop=[a b]",
		"--logit-bias 3=-1":     "Answer.LogitBias=map[3:-1]",
		`--json-schema {"a":1}`: "Answer.Complete=true; Answer.Schema=[123 34 97 34 58 49 125]",
	}), func(c *cobra.Command, parse func()) any {
		f, a := new(chatFlags), &cli.App{}
		f.registerFlags(c)
		parse()
		model, err := f.model.Public()
		require.NoError(t, err)
		route, err := f.route.Routed()
		require.NoError(t, err)
		require.NotNil(t, route.Router)
		route.Router = nil
		by, err := f.route.Router(nil)
		require.NoError(t, err)
		by.Net, by.Calibration = nil, nil
		require.NoError(t, f.answer.Parse(f.set))
		dial, err := f.dialOptions(a, f.gateway.Pin)
		require.NoError(t, err)
		require.NotZero(t, dial.Device)
		dial.Device = [len(dial.Device)]byte{}
		return struct {
			Model            pilotfish.Options
			Answer           terms.Settings
			Route            pilotfish.Route
			Router           router.Options
			Dial             pilotfish.DialOptions
			answers, address string
		}{model, f.answer.Settings, route, by, dial, f.model.Answers(), f.gateway.Address}
	})
}
