package routing

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/internal/timelinetest"
)

// drawnTo reads and checks the file of --timeline, and returns its run.
func drawnTo(t *testing.T, path string) (*timelinetest.File, record.Run) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := timelinetest.Read(b)
	require.NoError(t, err)
	var about struct{ Run record.Run }
	require.NoError(t, json.Unmarshal(f.About, &about))
	return f, about.Run
}

// partsOf checks that the parts of an answer add up, and returns its time, in milliseconds.
func partsOf(t *testing.T, f *timelinetest.File, process string) float64 {
	t.Helper()
	answer := f.All("X", process, "draft steps", "answer")
	require.Len(t, answer, 1)
	took := answer[0].Dur
	assert.InEpsilon(t, took, timelinetest.Sum(f.All("X", process, "draft steps", ""))-took, 0.01)
	return took / 1000
}

// TestRoutingTimeline: the answers of all modes to one question are drawn in parallel, with the same start.
func TestRoutingTimeline(t *testing.T) {
	racing.Spare(t)
	path := filepath.Join(t.TempDir(), "out.json")
	const modes = "local,paper,serial,pipelined-2,verified"
	code, stdout, stderr := clitest.Call(t, "routing", "--questions", "2", "--timeline", path,
		"--edge-tps", "400", "--modes", "cloud,"+modes, "--rtt", "20ms", "--cloud-ms", "1", "--deadline", "off",
		"--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	f, about := drawnTo(t, path)
	assert.NotNil(t, about.Large)
	assert.Empty(t, f.All("X", "cloud: device", "", ""))
	require.NotEmpty(t, stdout)
	for _, m := range strings.Split(modes, ",") {
		assert.Greater(t, partsOf(t, f, m+": device"), 20.0, "a call of 2.5 ms for each token")
		asks := f.All("X", m+": device", "asks", "ask")
		if m == "local" {
			assert.Empty(t, asks)
			continue
		}
		if m != "paper" {
			for _, e := range f.All("X", m+": gateway", "asks", "served") {
				assert.Equal(t, "measured", e.Args["clock"])
			}
		}
		arrows := len(f.All("s", m+": device", "", ""))
		const roundTrip = 20000.0 // µs
		assert.GreaterOrEqual(t, timelinetest.Sum(f.All("X", m+": network", "", "")), roundTrip*float64(arrows))
	}
}

// TestTimelineFlags: a timeline that cannot be drawn or written is refused before any work.
func TestTimelineFlags(t *testing.T) {
	folder := t.TempDir()
	for want, args := range map[string][]string{
		"there is no folder":   {"routing", "--timeline", filepath.Join(folder, "none", "out.json")},
		"a folder, not a file": {"routing", "--timeline", folder},
	} {
		code, _, stderr := clitest.Call(t, args...)
		assert.Equal(t, cli.ExitUsage, code, want)
		assert.Contains(t, stderr, want)
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestTimelineOfSweep: each cell has its own drawings, with the cell in the file name.
func TestTimelineOfSweep(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	path := filepath.Join(t.TempDir(), "out.json")
	code, _, stderr := clitest.Call(t, "routing", "--questions", "1", "--modes", "local,serial", "--rtt",
		"1ms,2ms",
		"--edge-tps", "900", "--cloud-ms", "0", "--json", "--timeline", path)
	require.Equal(t, cli.ExitDone, code, stderr)
	f, _ := drawnTo(t, path)
	assert.Len(t, f.All("X", "", "draft steps", "answer"), 4)
	for _, cell := range []string{"1 ms, 900 tokens/s", "2 ms, 900 tokens/s"} {
		for _, mode := range []string{"local", "serial"} {
			partsOf(t, f, cell+": "+mode+": device")
		}
	}
	all := outcome.Cell{RTT: 100, Loss: 0.05, EdgeTPS: 60, Trace: "train.up+train.down"}
	assert.Equal(t, "100 ms, loss 0.05, 60 tokens/s, train.up+train.down", measure.CellName(&all))
}
