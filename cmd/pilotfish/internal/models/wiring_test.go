package models

import (
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// logitsOf returns the output of `pilotfish logits` with these flags.
func logitsOf(t *testing.T, m string, flags ...string) []float32 {
	t.Helper()
	code, stdout, stderr := clitest.Call(t, append([]string{"logits", "-m", m, "--tokens", "1,2,3", "--json"},
		flags...)...)
	require.Equal(t, cli.ExitDone, code, stderr)
	return clitest.Lines[logitsResult](t, stdout)[0].Logits
}

// TestModelFlags: each flag of a model changes its own option of the engine, and no other.
func TestModelFlags(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0") // with a context of 512 tokens
	type model struct {
		path, device   string
		threads, slots int
		kvBytes        int64
	}
	open := func(args string) model {
		f, c := group.ModelFlags{}, new(cobra.Command)
		f.Register(c)
		require.NoError(t, c.ParseFlags(strings.Fields(args)), args)
		e, err := f.Open()
		require.NoError(t, err, args)
		defer e.Close()
		s, err := e.NewSession()
		require.NoError(t, err)
		device, _, _ := strings.Cut(e.Device(), ", threads")
		return model{f.Path, device, e.Threads(), e.Context(), s.KVLimit()}
	}
	usual := open("-t 2 -m " + m)
	assert.Equal(t, model{m, usual.device, 2, 512, 512 * 512 * 2}, usual)
	for args, change := range map[string]func(*model){
		"--threads 3":   func(m *model) { m.threads = 3 },
		"-t 3 --ctx 50": func(m *model) { m.threads, m.slots, m.kvBytes = 3, 50, m.kvBytes/512*50 },
		"-c 50":         func(m *model) { m.slots, m.kvBytes = 50, m.kvBytes/512*50 },
		"--kv f32":      func(m *model) { m.kvBytes *= 2 },
		"--kv f16":      func(*model) {},
		"--exact":       func(m *model) { m.device, m.kvBytes = "cpu (exact", m.kvBytes*2 },
		"--backend cpu": func(*model) {},
	} {
		want := usual
		change(&want)
		assert.Equal(t, want, open("-t 2 -m "+m+" "+args), args)
	}
}

// TestLogitsFlags: the flags of a model reach the engine that computes its logits.
func TestLogitsFlags(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	usualLogits := logitsOf(t, m)
	assert.NotEqual(t, usualLogits, logitsOf(t, m, "--kv", "f32"))
	assert.NotEqual(t, usualLogits, logitsOf(t, m, "--exact"))
	assert.Equal(t, logitsOf(t, m, "--exact"), logitsOf(t, m, "--exact", "--kv", "f32"))
	assert.NotEqual(t, usualLogits, logitsOf(t, clitest.TinyModel(t, "q5_0")), "--model")
}

// TestModelFlagsRefused: every command that runs a model refuses invalid flags of it.
func TestModelFlagsRefused(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	for _, command := range [][]string{
		{"run", "-m", m, "--tokens", "1", "-n", "1"}, {"logits", "-m", m, "--tokens", "1"},
		{"cloud", "-m", m, "--listen", "127.0.0.1:0"},
	} {
		for _, flags := range []string{"--threads 5000", "--kv f64", "--exact --backend soft", "--backend cuda"} {
			code, _, stderr := clitest.Call(t, append(command, strings.Fields(flags)...)...)
			assert.Equal(t, cli.ExitUsage, code, "%v %s", command, flags)
			assert.Contains(t, stderr, strings.Fields(flags)[0])
		}
		if runtime.GOOS != "darwin" {
			code, _, stderr := clitest.Call(t, append(command, "--backend", "metal")...)
			assert.Equal(t, cli.ExitFailed, code, command)
			assert.Contains(t, stderr, "backend metal")
		}
	}
}

func TestParseBackend(t *testing.T) {
	for name, want := range map[string]engine.Backend{
		"cpu": engine.CPU, "soft": engine.Soft, "soft:check": "soft:check", "metal": engine.Metal,
	} {
		got, err := group.ParseBackend(name)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}
