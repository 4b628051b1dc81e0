package bench

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/capacity"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// capacities returns the reports that a call prints, by mode.
func capacities(t *testing.T, args ...string) map[capacity.Mode]*capacity.Report {
	t.Helper()
	code, stdout, stderr := clitest.Call(t, append([]string{"bench", "capacity", "--json"}, args...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	all := map[capacity.Mode]*capacity.Report{}
	for _, r := range clitest.Lines[*capacity.Report](t, stdout) {
		all[r.Mode] = r
	}
	require.Len(t, all, 3)
	return all
}

// TestCapacityFlags: each flag of the simulation has its effect.
func TestCapacityFlags(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	costs := clitest.CostsFile(t)
	with := func(more string) map[capacity.Mode]*capacity.Report {
		args := "--costs " + costs + " --tokens 8 --prompt 60 --with bound=3s --with think=10s --budget 0.2 " + more
		return capacities(t, strings.Fields(args)...)
	}
	usual := with("")
	for mode, r := range usual {
		assert.Greater(t, r.Devices, 5, mode)
		assert.InDelta(t, float64(r.Devices)/2, r.PerCore, 1e-9)
		assert.Equal(t, 3000., r.BoundMS)
		assert.Empty(t, r.Measured)
	}
	assert.Equal(t, usual, with("--seed 0"), "the same each time")
	assert.NotEqual(t, usual, with("--seed 1"))
	all, asked := capacity.Modes(), []capacity.Mode{capacity.Routed, capacity.Verified}
	for _, c := range []struct {
		flag  string
		modes []capacity.Mode
		more  bool // more devices than usual
	}{
		{"--prompt 20", all, true}, {"--tokens 30", all, false}, {"--with think=30s", all, true},
		{"--rtt 900ms", asked, false},
		{"--edge-tps 8", asked, false}, {"--budget 0.7", asked[:1], false}, {"--with turned=0.9", asked[1:], false},
		{"--with bound=4s", all, true}, {"--with gateways=2", all, true},
	} {
		got := with(c.flag)
		for _, mode := range c.modes {
			assert.Equal(t, c.more, got[mode].Devices > usual[mode].Devices, "%s: %s: %d, not %d", mode, c.flag,
				got[mode].Devices, usual[mode].Devices)
			assert.NotEqual(t, usual[mode].Devices, got[mode].Devices, "%s: %s", mode, c.flag)
		}
	}
	got := with("--devices 4,60")
	for _, r := range got {
		require.Len(t, r.Points, 2)
		assert.Equal(t, []int{4, 60}, []int{r.Points[0].Devices, r.Points[1].Devices})
		assert.Less(t, r.Points[0].P95, r.Points[1].P95)
	}
	code, stdout, stderr := clitest.Call(t, "bench", "capacity", "--costs", costs, "--tokens", "8", "--prompt", "60",
		"--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, recorded := range []string{`"cpu":"another"`, `"date":"2026-01-02T03:04:05Z"`,
		`"large":{"name":"measured"`} {
		assert.Equal(t, 3, strings.Count(stdout, recorded), "%s: that of the measured costs", recorded)
	}
}

// TestCapacityText: the table has a row for each mode, the reason if there is no result, and an explanation of the
// figures.
func TestCapacityText(t *testing.T) {
	clitest.OwnFolders(t)
	costs := clitest.CostsFile(t)
	code, stdout, stderr := clitest.Call(t, "bench", "capacity", "--costs", costs, "--tokens", "4", "--devices", "3")
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, want := range []string{"\ncloud ", "\nrouted ", "\nverified ", "2 threads", "128 rows 404.0 ms",
		capacityTerms} {
		assert.Contains(t, stdout, want)
	}
	assert.Equal(t, 2, strings.Count(stdout, "\nrouted   "+"  "), "at the capacity, and for 3 devices: %s", stdout)
	code, stdout, stderr = clitest.Call(t, "bench", "capacity", "--costs", costs, "--with", "bound=1ms", "--tokens",
		"4")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, 3, strings.Count(stdout, " 0       0.0 the 95th percentile of one device alone is"), stdout)
}

// TestCapacityFigures: each figure is printed in its place.
func TestCapacityFigures(t *testing.T) {
	at := capacity.Point{Devices: 40, P50: 1000, P95: 2000, P99: 3000, Utilisation: 0.5, PerSecond: 6.25,
		TokensTPS: 70.5, AsksPS: 8.75, RowsPerPass: 9.5}
	real := capacity.Point{Devices: 38, Answers: 90, P50: 1100, P95: 2200, BytesUp: 300, BytesDown: 60}
	var out strings.Builder
	require.NoError(t, printCapacity(&out, []*capacity.Report{
		{Mode: capacity.Cloud, Devices: 40, PerCore: 6.5, AtLeast: true, Gateways: 3, Threads: 2, At: &at,
			Points: []capacity.Point{at}, Measured: []capacity.Trial{{Measured: real, Simulated: at, Within: true,
				RatioP50: 1.1, RatioP95: 1.2}, {}}},
		{Mode: capacity.Verified, WhyNone: "one alone takes longer"},
	}))
	const figures = "     1000     2000     3000   50%       6.25      70.5    8.75        9.5\n"
	for _, want := range []string{
		capacityHead + "cloud         ≥ 40       6.5" + figures + "verified         0       0.0 one alone takes longer",
		capacityHead + "cloud           40       6.7" + figures,
		"cloud           38       90      1100      1000      2200      2000   1.10   1.20  within, 300 bytes up",
		" up and 60 down per answer\ncloud            0        0         0         0         0         0   0.00   0.00",
	} {
		assert.Contains(t, out.String(), want)
	}
}

// TestCapacityRefused: invalid values and files are refused with the reason.
func TestCapacityRefused(t *testing.T) {
	clitest.OwnFolders(t)
	costs, m := clitest.CostsFile(t), clitest.TinyModel(t, "q8_0")
	for _, c := range []struct{ args, said string }{
		{"", "give the large model with -m"},
		{"-m M --costs C", "--costs and -m"}, {"--costs C --threads 2", "--threads has no effect"},
		{"--costs C --answers 2", "--answers has no effect"}, {"--costs C --devices 0", "--devices 0"},
		{"--costs C --devices 100001", "--devices 100001"}, {"--costs C --with gateways=0", "--with gateways=0"},
		{"--costs C --prompt 0", "--prompt 0"}, {"--costs C --tokens 40000", "--tokens 40000"},
		{"--costs C --with think=0s", "--with think=0s"}, {"--costs C --rtt 11s", "--rtt 11s"},
		{"--costs C --edge-tps NaN", "--edge-tps NaN"}, {"--costs C --budget 1.5", "--budget 1.5"},
		{"--costs C --with turned=-0.1", "--with turned=-0.1"}, {"--costs C --with bound=0s", "--with bound=0s"},
		{"-m M --prompt 30000 --tokens 30000", "longer than the context of the model"},
	} {
		args := strings.Fields(strings.NewReplacer("C", costs, "M", m).Replace(c.args))
		code, stdout, stderr := clitest.Call(t, append([]string{"bench", "capacity"}, args...)...)
		assert.Equal(t, cli.ExitUsage, code, c.args)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, c.said, c.args)
	}
	for _, file := range []string{"none", m} {
		code, _, stderr := clitest.Call(t, "bench", "capacity", "--costs", file)
		assert.Equal(t, cli.ExitFailed, code)
		assert.Contains(t, stderr, "--costs: ")
		assert.Contains(t, stderr, file)
	}
}

// TestCapacityMeasured: with a model its costs are measured, and real devices are compared with simulated ones; the
// printed costs can be simulated again.
func TestCapacityMeasured(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	t.Chdir(t.TempDir())
	m := clitest.TinyModel(t, "q8_0")
	workload := strings.Fields(
		"--prompt 100 --tokens 6 --with think=20ms --rtt 4ms --edge-tps 1000 --with bound=100ms " +
			"--budget 0.5")
	args := append([]string{"bench", "capacity", "--json", "--model", m, "--threads", "1", "--answers", "20"},
		workload...)
	code, stdout, stderr := clitest.Call(t, args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^routed: \d+ devices by simulation; now real ones, 20 answers for each number$`, stderr)
	require.NoError(t, os.WriteFile("costs", []byte(stdout), 0o644))
	again := capacities(t, append(workload, "--costs", "costs")...)
	for _, r := range clitest.Lines[*capacity.Report](t, stdout) {
		assert.Equal(t, 1, r.Costs.Threads)
		assert.Len(t, r.Costs.Passes, 8)
		assert.Equal(t, 100, r.Costs.Depth, "the prompt")
		assert.Positive(t, r.Costs.AskMS, "the link has the round trip")
		assert.Equal(t, r.Devices > 0, len(r.Measured) > 0, "a busy machine may serve none: %s", r.WhyNone)
		for _, trial := range r.Measured {
			assert.Positive(t, trial.Measured.Answers)
			assert.Positive(t, trial.RatioP95)
			assert.Equal(t, r.Mode != capacity.Cloud, trial.Measured.BytesUp > 0)
		}
		r.Measured, r.MeasuredDevices = nil, 0
		assert.Equal(t, again[r.Mode], r)
	}
	args[8] = "0"
	require.Equal(t, "--answers", args[7])
	code, stdout, stderr = clitest.Call(t, args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.NotContains(t, stdout, "measured")
}

// TestMeasureAsk: the cost of an ask is without the round trip of the link.
func TestMeasureAsk(t *testing.T) {
	racing.Spare(t)
	e, err := engine.Open(clitest.TinyModel(t, "q8_0"), engine.Options{})
	require.NoError(t, err)
	defer e.Close()
	var f benchCapacityFlags
	f.o.Workload.RTT = 80 * time.Millisecond
	stage, err := remote.NewStage(e, e, remote.StageOptions{RTT: f.o.Workload.RTT})
	require.NoError(t, err)
	defer stage.Close()
	require.NoError(t, f.measureAsk(t.Context(), stage))
	assert.Positive(t, f.o.Costs.AskMS)
	assert.Less(t, f.o.Costs.AskMS, 80.)
}
