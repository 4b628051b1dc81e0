package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestProfile: each kind of profile has its own file name in this folder, and no other file is left there.
func TestProfile(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	t.Chdir(t.TempDir())
	for _, kind := range []string{"cpu", "mem", "block", "mutex", "trace"} {
		code, _, stderr := clitest.Call(t, "run", "-m", m, "--tokens", "1", "-n", "2", "--profile", kind)
		require.Equal(t, cli.ExitDone, code, stderr)
	}
	var names []string
	all, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range all {
		info, err := f.Info()
		require.NoError(t, err)
		assert.Positive(t, info.Size(), f.Name())
		names = append(names, f.Name())
	}
	assert.Equal(t, []string{"block.pprof", "cpu.pprof", "mem.pprof", "mutex.pprof", "trace.out"}, names)
}

// TestProfilePath: a profile is written to the given path, and never over an existing file, which is an error before
// the work begins.
func TestProfilePath(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	dir := t.TempDir()
	run := []string{"run", "-m", m, "--tokens", "1", "-n", "2", "--profile"}
	for _, c := range []struct{ path, file string }{
		{filepath.Join(dir, "mine"), "mine"}, {dir, "mem.pprof"}, {dir + string(filepath.Separator), ""},
		{filepath.Join(dir, "mine"), ""},
	} {
		before, err := os.ReadDir(dir)
		require.NoError(t, err)
		code, stdout, stderr := clitest.Call(t, append(run, "mem:"+c.path)...)
		after, err := os.ReadDir(dir)
		require.NoError(t, err)
		if c.file == "" {
			assert.Equal(t, cli.ExitFailed, code)
			assert.Empty(t, stdout, "an error before the work begins")
			assert.Contains(t, stderr, "exists already: name another file, such as --profile cpu:FILE")
			assert.Equal(t, len(before), len(after))
			continue
		}
		assert.Equal(t, cli.ExitDone, code, stderr)
		assert.Len(t, after, len(before)+1)
		info, err := os.Stat(filepath.Join(dir, c.file))
		require.NoError(t, err)
		assert.Positive(t, info.Size())
	}
	code, _, stderr := clitest.Call(t, append(run, "mem:"+filepath.Join(dir, "none", "mine"))...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "--profile: open")
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, wrong := range []string{"--top-k=-1", "--mode=x"} { // found before the command begins, and by the command
		code, _, stderr = clitest.Call(t, "run", "-m", m, wrong, "--profile", "mem:"+filepath.Join(dir, "wrong"), "x")
		assert.Equal(t, cli.ExitUsage, code, stderr)
	}
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Equal(t, before, after, "no profile of an invalid call")
	code, _, stderr = clitest.Call(t, "run", "-m", filepath.Join(dir, "none.gguf"), "--profile",
		"mem:"+filepath.Join(dir, "failed"), "x")
	assert.Equal(t, cli.ExitFailed, code, stderr)
	assert.FileExists(t, filepath.Join(dir, "failed"), "the profile of the work before the failure")
}

// TestProfiledCommands: every command that runs for long has --profile, and writes it.
func TestProfiledCommands(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	dir := t.TempDir()
	lines := map[string]string{
		"run": "-m M --tokens 1 -n 2", "demo": "--questions 1 --modes local --edge-tps 0",
		"cloud": "-m M --listen 127.0.0.1:0",
		"eval":  "demo --questions 1 --policy never", "bench engine": "-m M -p 2 -n 0 -r 1",
		"bench routing":  "--questions 1 --modes local",
		"bench link":     "--tokens 0 --connects 0 --outages 0 --with loopback=1ms",
		"bench gateway":  "--devices 1 --seconds 0.1 --sessions 0",
		"bench capacity": "-m M --prompt 4 --tokens 1 --answers 0",
		"router train":   "/nowhere/traces -o NEW",
		"router collect": "--data demo -o NEW --questions 1", "router calibrate": "-o NEW --questions 20",
	}
	for _, command := range cli.ProfiledCommands() {
		line, ok := lines[command]
		require.True(t, ok, command)
		name := strings.ReplaceAll(command, " ", "-")
		line = strings.NewReplacer("NEW", filepath.Join(dir, name+".new"), "M", m).Replace(line)
		args := append(strings.Fields(command+" "+line), "--profile", "mutex:"+filepath.Join(dir, name))
		ctx, stop := context.WithCancel(t.Context())
		if command == "cloud" || command == "router calibrate" {
			stop() // a gateway serves until it is stopped; calibration is slow
		}
		var out, errs bytes.Buffer
		code := clitest.Run(ctx, args, strings.NewReader(""), &out, &errs)
		stop()
		assert.NotEqual(t, cli.ExitUsage, code, "%s: %s", command, &errs)
		assert.FileExists(t, filepath.Join(dir, name), command)
	}
}

// TestProfileLabels: the samples of a CPU profile have phase labels, also those of the workers.
func TestProfileLabels(t *testing.T) {
	racing.Spare(t)
	m := clitest.TinyModel(t, "q8_0")
	path := filepath.Join(t.TempDir(), "p")
	code, _, stderr := clitest.Call(t, "bench", "engine", "-m", m, "-p", "500", "-n", "490", "-r", "8", "-t", "2",
		"--profile", "cpu:"+path)
	require.Equal(t, cli.ExitDone, code, stderr)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	p, err := profile.Parse(f)
	require.NoError(t, err)
	samples := map[string]int64{}
	workers := int64(0)
	for _, s := range p.Sample {
		of := strings.Join(s.Label["phase"], " ")
		samples[of] += s.Value[0]
		for _, l := range s.Location {
			for _, line := range l.Line {
				if of != "" && strings.HasSuffix(line.Function.Name, "(*Pool).work") {
					workers += s.Value[0]
				}
			}
		}
	}
	assert.Positive(t, samples["prompt"], samples)
	assert.Positive(t, samples["draft"], samples)
	assert.Positive(t, workers, "of %v", samples)
}
