package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// runEffects has lines of flags, and what each changes. token is a file with the token sesame, net one of a router.
func runEffects(t *testing.T, token, net string) map[string]string {
	const unbound = "; Router.Budget=; Router.Policy=never; promise="
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	return map[string]string{
		"": "Answer.MaxTokens=1024; Answer.RepeatPenalty=1; Answer.TopP=1; Dial.Lazy=true; " +
			"Dial.TicketFolder=" + filepath.Join(cache, "pilotfish", "tickets") + "; Model.Backend=cpu; " +
			"Route.Audit=true; Route.Branches=-1; Router.Budget=0.07; Router.Policy=verify; address=h:1; answers=m; " +
			"promise=balance; promised=0.07",

		"--threads 3":      "Model.Threads=3",
		"--ctx 70":         "Model.Context=70",
		"--kv f32":         "Model.KV=f32",
		"--backend soft":   "Model.Backend=soft",
		"--huge-pages off": "Model.HugePages=off",
		"--exact":          "Model.Exact=true",

		"--max-tokens 9":             "Answer.MaxTokens=9",
		"--max-tokens 0":             "Answer.MaxTokens=",
		"--ignore-eos":               "Answer.IgnoreEnd=true",
		"--temp 2 --seed 4":          "Answer.Seed=4; Answer.Temperature=2",
		"--stop a --stop b":          "Answer.Stop=[a b]",
		"--logit-bias 3=-1":          "Answer.LogitBias=map[3:-1]",
		`--json-schema {"a":1}`:      "Answer.Complete=true; Answer.Schema=[123 34 97 34 58 49 125]",
		"--logprobs 3 --json":        "Answer.Top=3",
		"--cloud i:2":                "address=i:2",
		"--pin " + clitest.OnePin(3): "Dial.Pin=" + clitest.OnePin(3),
		"--token-file " + token:      "Dial.Token=sesame",
		"--deadline 2s":              "Route.Deadline=2s",
		"--deadline off":             "Route.Deadline=-1ns",
		"--deadline 0":               "Route.Deadline=-1ns",
		"--explain":                  "Route.Explain=true",
		"--verify 0":                 "Route.Verify=true" + unbound,
		"--verify 0.5":               "Route.Margin=0.5; Route.Verify=true" + unbound,

		"--mode serial":     "Route.Serial=true",
		"--show-unverified": "Route.Preview=true",

		"--policy entropy": "Router.Policy=entropy",
		"--policy always":  "Router.Budget=; Router.Policy=always; promise=",
		"--threshold 0.25": "Router.Budget=; Router.Policy=margin; Router.Threshold=0.25; promise=",
		"--budget 0.2":     "Router.Budget=0.2; promised=0.2",
		"--router " + net:  "Router.Policy=learned",
		"--budget-state f": "state=f",
	}
}

// TestRunEffects: each flag sets what it is for in the model, the answer, the route to the cloud and its router.
func TestRunEffects(t *testing.T) {
	clitest.OwnFolders(t)
	token, net := filepath.Join(t.TempDir(), "token"), clitest.DemoFile("router.gguf")
	require.NoError(t, os.WriteFile(token, []byte("sesame\n"), 0o600))
	elsewhere := clitest.Numbers() + " model large require-cloud system think raw tokens local stats quiet"
	lines := runEffects(t, token, net)
	clitest.Effects(t, "--model m --cloud h:1", elsewhere, lines, func(c *cobra.Command, parse func()) any {
		f, a := new(runFlags), &cli.App{}
		f.registerFlags(c)
		parse()
		model, err := f.model.Public()
		require.NoError(t, err)
		route, dial, p, err := f.parseRouting(a)
		require.NoError(t, err)
		require.NoError(t, f.gateway.Remember(a, &dial))
		require.NotZero(t, dial.Device)
		dial.Device = [len(dial.Device)]byte{}
		p.options.Net, p.options.Calibration = nil, nil
		return struct {
			Model                            pilotfish.Options
			Answer                           terms.Settings
			Route                            pilotfish.Route
			Dial                             pilotfish.DialOptions
			Router                           router.Options
			answers, address, promise, state string
			promised                         float64
		}{model, f.answer.Settings, route, dial, p.options, f.model.Answers(),
			f.gateway.Address, p.kind, f.state, p.budget}
	})
}

func TestNumberFlags(t *testing.T) {
	clitest.NumbersReach(t, func(args []string) (terms.Settings, error) {
		f := parsedRun(t, strings.Join(args, " "))
		if err := cli.CheckFlags(f.set); err != nil {
			return terms.Settings{}, err
		}
		_, _, _, err := f.parseRouting(&cli.App{})
		return f.answer.Settings, err
	})
}
