package routing

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// recordingOf returns a recording of serial and verified answers that was made with these flags.
func recordingOf(flags map[string]string) *replay.Player {
	return &replay.Player{Recording: &replay.Recording{
		Header: replay.Header{Modes: []string{"serial", "paper", "verified"}, Calibration: []float32{1},
			RowCost: 0.25, Run: record.Run{Flags: flags}},
		Answers: []*replay.Answer{{Mode: "verified"}, {Mode: "serial"}},
	}}
}

// TestReplayEffects: a flag of a replay changes its own option. What is not on the command line is as recorded.
func TestReplayEffects(t *testing.T) {
	dir := t.TempDir()
	up, net := filepath.Join(dir, "a.up"), filepath.Join(dir, "net.gguf")
	require.NoError(t, os.WriteFile(up, []byte("1\n2\n"), 0o600))
	require.NoError(t, os.WriteFile(net, demo.Router(), 0o600))
	const elsewhere = "json timeline record replay raw max-tokens repeat parallel"
	const link = "Link.AnswerTime=15ms; Link.Loss=0.25; Link.RTT="
	clitest.Effects(t, "", elsewhere, map[string]string{
		"": "Draft.Ahead=3; Draft.Audit=true; Draft.Branches=5; Draft.Deadline=-1ns; Draft.InFlight=6; " +
			"Draft.Lookup=2; Draft.VerifyEvery=7; Draft.Warm=-1; Draft.Window=9; Router.Budget=0.2; " +
			"Router.Policy=entropy; modes=serial verified",

		"--modes verified,serial --questions 3"://
		"Questions=3; modes=verified serial",
		"--rtt 7ms --loss 0.25 --seed 9 --trace " + up: link + "7ms; Link.Seed=9; Link.Traces=[" + up + "]",
		"--cloud-ms 3 --edge-tps 50":                   "CloudPace=3ms; EdgeTPS=50; RowCost=0.25",
		"--cloud-ms 0":                                 "CloudPace=0s",
		"--edge-tps 50 --edge-row-cost 0.5":            "EdgeTPS=50; RowCost=0.5",
		"--policy margin":                              "Router.Budget=; Router.Policy=margin",
		"--policy learned":                             "Router.Budget=; Router.Calibration=[1]; Router.Policy=learned",
		"--threshold 0.3":                              "Router.Budget=; Router.Policy=margin; Router.Threshold=0.3",
		"--budget 0.1":                                 "Router.Budget=0.1; Router.Policy=margin",
		"--router " + net:                              "Router.Budget=; Router.Policy=learned; net=true",
		"--branches 2 --window 3 --inflight 4 --deadline 5s --ahead 6 --verify-every 8 --lookup off --no-audit " +
			"--no-warm=false": "Draft.Ahead=6; Draft.Audit=; Draft.Branches=2; Draft.Deadline=5s; Draft.InFlight=4; " +
			"Draft.Lookup=-1; Draft.VerifyEvery=8; Draft.Warm=; Draft.Window=3",
	}, func(c *cobra.Command, parse func()) any {
		f := new(routingFlags)
		f.registerFlags(c)
		f.registerSweepFlags(c)
		f.recording.registerFlags(c)
		parse()
		r, s, err := f.replayOptions(recordingOf(map[string]string{"policy": "entropy", "budget": "0.2",
			"window": "9", "branches": "5", "deadline": "off", "ahead": "3", "verify-every": "7", "no-warm": "true",
			"no-audit": "false", "lookup": "2", "inflight": "6", "rtt": "70ms", "edge-tps": "40"}))
		require.NoError(t, err)
		r = f.replayCellOptions(f.cellCombinations()[0], r, s)
		net, modes := r.Router.Net != nil, ""
		for _, m := range r.Modes {
			modes += m.Name + " "
		}
		r.Player, r.Modes, r.Router.Net = nil, nil, nil
		return struct {
			routing.ReplayOptions
			net   bool
			modes string
		}{r, net, strings.TrimSpace(modes)}
	})
}

// TestReplayBudget: a recorded budget is used again, also the usual one; 0 says that there was none.
func TestReplayBudget(t *testing.T) {
	for recorded, want := range map[string]float64{"0.07": 0.07, "0.2": 0.2, "0": 0} {
		var f routingFlags
		c := &cobra.Command{Use: "routing"}
		f.registerFlags(c)
		f.recording.registerFlags(c)
		r, _, err := f.replayOptions(recordingOf(map[string]string{"budget": recorded}))
		require.NoError(t, err)
		assert.Equal(t, want, r.Router.Budget)
	}
}

// TestReplayRun: a replay is described by the machine, the date and the flags of its recording, except for other links
// and paces.
func TestReplayRun(t *testing.T) {
	recorded := record.Run{Date: time.Unix(9, 0), Machine: record.Machine{CPU: "another"},
		Model: &record.Model{Name: "small"}, Large: &record.Model{Name: "large"}, Flags: map[string]string{
			"rtt": "70ms", "loss": "0.5", "cloud-ms": "9", "questions": "6", "ahead": "3"}}
	for line, want := range map[string]string{"": "70ms 0.5 9 6 auto",
		"--rtt 7ms": "7ms 0 9 6 auto", "--cloud-ms 3 --questions 2": "70ms 0.5 3 2 auto"} {
		var f routingFlags
		c := &cobra.Command{Use: "routing"}
		f.registerFlags(c)
		f.registerSweepFlags(c)
		require.NoError(t, c.ParseFlags(strings.Fields(line)))
		got := f.describeReplay(&cli.App{Command: c}, recorded)
		assert.Equal(t, recorded.Date, got.Date)
		assert.Equal(t, recorded.Machine, got.Machine)
		assert.Equal(t, recorded.Model, got.Model)
		assert.Equal(t, recorded.Large, got.Large)
		var flags []string
		for _, name := range []string{"rtt", "loss", "cloud-ms", "questions", "ahead"} {
			flags = append(flags, got.Flags[name])
		}
		assert.Equal(t, want, strings.Join(flags, " "), line)
	}
}

// TestPrintAssumed: each figure stands where its name does; a mode whose values were all recorded has no line.
func TestPrintAssumed(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, printAssumed(&cli.App{Stdout: &stdout}, []outcome.Report{
		{Mode: "serial", Assumed: &replay.Assumed{}},
		{Mode: "verified", Assumed: &replay.Assumed{Heads: 1, Answers: 2, Text: 3}},
	}))
	assert.Equal(t, "verified: the recording lacks 1 heads and 2 answers; 3 shown tokens rest on these\n",
		stdout.String())
}
