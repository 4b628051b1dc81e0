package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBenchGateway: each flag has its effect on the measurement.
func TestBenchGateway(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	t.Chdir(t.TempDir())
	measure := func(args string) *wire.GatewayReport {
		code, stdout, stderr := clitest.Call(t, append([]string{"bench", "gateway", "--json"},
			strings.Fields(args)...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		return clitest.Lines[*wire.GatewayReport](t, stdout)[0]
	}
	r := measure("--devices 3 --rate 10 --model-ms 30 --seconds 0.5")
	assert.Equal(t, 15, r.Answers)
	assert.GreaterOrEqual(t, r.Latency.P50, 29.9)
	code, stdout, stderr := clitest.Call(t, strings.Fields(
		"bench gateway --devices 1 --rate 50 --seconds 0.2")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^answered           10 of 10, [1-5]?\d\.\d a second$`, stdout)
	r = measure("--devices 3 --rate 40 --model-ms 20 --seconds 0.5 --parallel 1")
	assert.Equal(t, 60, r.Asks)
	assert.GreaterOrEqual(t, r.Latency.Max, 200., "more asks are due than can be served one at a time")
}

// TestGatewayReport: each figure is printed in its place.
func TestGatewayReport(t *testing.T) {
	var out strings.Builder
	printGatewayReport(&cli.App{Stdout: &out},
		&wire.GatewayReport{Devices: 7, Rate: 2.5, ModelMS: 5, Seconds: 30, Cores: 2, Asks: 100, Answers: 90,
			Refusals: map[string]int{"too fast": 6, "busy": 3}, Errors: 1,
			Latency:   result.Latency{P50: 6, P90: 7, P99: 8, P999: 9, Max: 10},
			InGateway: result.Latency{P50: 1, P90: 2, P99: 3, P999: 4, Max: 5},
			ConnectMS: 812, CPUPerAsk: 361, BytesUp: 41, BytesDown: 12, PerConnection: 126976,
			PerSecond: 3,
			Fairness: &wire.Fairness{AnswersJain: 0.9, AnswersLeast: 0.5, AnswersMost: 0.75, P99Jain: 0.8,
				P99Least: 11, P99Most: 12}}, false)
	assert.Equal(t, `7 devices, 2.5 questions/s each, a model of 5 ms, 30 s, devices and gateway on 2 cores
answered           90 of 100, 3.0 a second; 3 refused: busy; 6 refused: too fast; 1 failed
from due         6.00 ms median, 7.00 at 90%, 8.00 at 99%, 9.00 at 99.9%, 10.00 the longest
in gateway       1.00 ms median, 2.00 at 90%, 3.00 at 99%, 4.00 at 99.9%, 5.00 the longest
fairness       0.9000 of answers, each device had 50.0% to 75.0% of its own; 0.8000 of times at 99%, 11.00 to 12.00 ms
per question      361 µs of CPU, 41.0 bytes up, 12.0 down
connected         812 ms, all devices; 124 KiB of memory each, both sides
`, out.String())
}

// TestGatewayElsewhere: --cloud measures a remote gateway, with --model, --pin and --token-file.
func TestGatewayElsewhere(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("a-secret-of-thirty-two-characters"), 0o600))
	address, pin, stop := clitest.StartCloud(t, "-m", m, "--token-file", token)
	defer stop()
	args := []string{"bench", "gateway", "--devices", "2", "--rate", "20", "--seconds", "0.5", "--cloud", address}
	code, stdout, stderr := clitest.Call(t, append(args, "--pin", pin, "--token-file", token, "--model", m,
		"--json")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	r := clitest.Lines[*wire.GatewayReport](t, stdout)[0]
	assert.Equal(t, []int{20, 20}, []int{r.Asks, r.Answers})
	assert.Zero(t, r.ModelMS)
	assert.NotContains(t, stdout, "in_gateway_ms")
	assert.Contains(t, stdout, `"remote":"`+address)
	for _, w := range []struct{ args, said string }{
		{"-m M", "--pin"}, {"--pin PIN", "give a model of its family with -m"}, {"-m M --pin PIN", "--token-file"},
		{"-m M --pin zz", "--pin"},
	} {
		more := strings.Fields(strings.NewReplacer("PIN", pin, "M", m).Replace(w.args))
		code, stdout, stderr := clitest.Call(t, append(args, more...)...)
		assert.NotEqual(t, cli.ExitDone, code, w.args)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, w.said, w.args)
	}
}
