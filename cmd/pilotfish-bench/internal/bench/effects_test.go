package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/capacity"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestLinkEffects: each flag of `link` sets its own option.
func TestLinkEffects(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "a.rtt.csv")
	require.NoError(t, os.WriteFile(trace, []byte("t_ms,rtt_ms\n0,30\n1000,30\n"), 0o600))
	clitest.Effects(t, "", "json", map[string]string{
		"": "AskRate=50; Asks=300; Connects=10; Outage=1s; Outages=3; RTT=100ms; Tokens=[8 64 512]",

		"--rtt 0":          "RTT=",
		"--loss 0.5":       "Loss=0.5",
		"--questions 30":   "Asks=30; Connects=2; Outages=1",
		"--trace " + trace: "Traces=[" + trace + "]",
		"--model-ms 2.5":   "Model=2.5ms",
		"--tokens 1,2048":  "Tokens=[1 2048]",
		"--tokens 0":       "Tokens=[]",
	}, func(c *cobra.Command, parse func()) any {
		f := new(benchLinkFlags)
		f.registerFlags(c.Flags())
		parse()
		require.NoError(t, f.completeOptions())
		return f.o
	})
}

// TestGatewayEffects: each flag of `gateway` sets its own option.
func TestGatewayEffects(t *testing.T) {
	clitest.Effects(t, "", "json", map[string]string{
		"": "Abreast=4096; Devices=1000; Duration=30s; Model=5ms; Rate=1",

		"--devices 7":    "Devices=7",
		"--rate 2.5":     "Rate=2.5",
		"--model-ms 1.5": "Model=1.5ms",
		"--seconds 0.5":  "Duration=500ms",
		"--parallel 9":   "Abreast=9",
	}, func(c *cobra.Command, parse func()) any {
		f := new(benchGatewayFlags)
		f.registerFlags(c.Flags())
		parse()
		return f.gatewayOptions()
	})
}

// TestCapacityEffects: each flag of `capacity` sets its own option.
func TestCapacityEffects(t *testing.T) {
	const limit = 1000 // tokens, of the context of the model
	clitest.Effects(t, "--model m", "json", map[string]string{
		"": "Engine.Context=640; Workload.Budget=0.07; Workload.EdgeTPS=60; Workload.Prompt=128; " +
			"Workload.RTT=100ms; Workload.Tokens=32; answers=100; devices=[1 4 16]; model=m",

		"--model n":      "model=n",
		"--threads 3":    "Engine.Threads=3",
		"--answers 0":    "answers=",
		"--prompt 200":   "Engine.Context=928; Workload.Prompt=200",
		"--prompt 3":     "Engine.Context=512; Workload.Prompt=3",
		"--generate 90":  "Engine.Context=872; Workload.Tokens=90",
		"--generate 900": "Engine.Context=1000; Workload.Tokens=900",
		"--rtt 7ms":      "Workload.RTT=7ms",
		"--budget 0.3":   "Workload.Budget=0.3",
		"--devices 4,60": "devices=[4 60]",
	}, func(c *cobra.Command, parse func()) any {
		f := new(benchCapacityFlags)
		f.registerFlags(c)
		parse()
		return struct {
			Workload capacity.Workload
			Engine   engine.Options
			model    string
			answers  int
			devices  []int
		}{f.w, f.engineOptions(limit), f.model, f.answers, f.devices.Values}
	})
}
