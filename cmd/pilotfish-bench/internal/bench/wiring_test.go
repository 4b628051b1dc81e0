package bench

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestBenchEngineFlags: each flag of `engine` sets its own option, and no other; default lengths are limited by
// the context of the model.
func TestBenchEngineFlags(t *testing.T) {
	var flags *pflag.FlagSet
	parse := func(args string, limit int) speed.Matrix {
		f, c := new(benchEngineFlags), &cobra.Command{RunE: func(*cobra.Command, []string) error { return nil }}
		f.registerFlags(c)
		flags = c.Flags()
		require.NoError(t, c.ParseFlags(strings.Fields("-m m "+args)), args)
		require.NoError(t, f.checkEngineFlags(), args)
		require.NoError(t, f.fitContext(limit), args)
		return f.m
	}
	const long = 100_000
	usual := speed.Matrix{Model: "m", Prompts: []int{512}, Decodes: []int{64}, Depths: []int{0},
		Engine: engine.Options{Backend: engine.CPU}, Repeat: 3}
	assert.Equal(t, usual, parse("", long))
	lines := map[string]func(*speed.Matrix){
		"--prompt 7":           func(o *speed.Matrix) { o.Prompts = []int{7} },
		"-p 0,16,99999":        func(o *speed.Matrix) { o.Prompts = []int{0, 16, 99_999} },
		"--generate 7,9":       func(o *speed.Matrix) { o.Decodes = []int{7, 9} },
		"-n 0":                 func(o *speed.Matrix) { o.Decodes = []int{0} },
		"--depth 9":            func(o *speed.Matrix) { o.Depths = []int{9} },
		"-d 0,8,32000":         func(o *speed.Matrix) { o.Depths = []int{0, 8, 32_000} },
		"--threads 5":          func(o *speed.Matrix) { o.Engine.Threads = 5 },
		"--repeat 9":           func(o *speed.Matrix) { o.Repeat = 9 },
		"-r 1":                 func(o *speed.Matrix) { o.Repeat = 1 },
		"--rows 8,2":           func(o *speed.Matrix) { o.Rows = []int{8, 2} },
		"--kv f16":             func(o *speed.Matrix) { o.Engine.KV = engine.KVF16 },
		"--backend soft:check": func(o *speed.Matrix) { o.Engine.Backend = "soft:check" },
		"--huge-pages off":     func(o *speed.Matrix) { o.Engine.HugePages = engine.HugeOff },
		"--huge-pages auto":    func(*speed.Matrix) {},
	}
	for args, change := range lines {
		want := usual
		change(&want)
		assert.Equal(t, want, parse(args, long), args)
	}
	clitest.Covers(t, flags, slices.Collect(maps.Keys(lines)), "model json")
	type sizes struct{ prompt, generated, depth int }
	for args, want := range map[string]sizes{ // for a model with a context of 100
		"":                 {99, 64, 0},
		"-p 99 -n 91":      {99, 91, 0},
		"-d 40":            {59, 59, 40},
		"-d 40 -n 59":      {59, 59, 40},
		"-d 92 --rows 8":   {7, 7, 92},
		"-d 98":            {1, 1, 98},
		"-p 3 -n 10 -d 20": {3, 10, 20},
	} {
		o := parse(args, 100)
		assert.Equal(t, want, sizes{o.Prompts[0], o.Decodes[0], o.Depths[0]}, args)
	}
	o := parse("", 5)
	assert.Equal(t, []int{4, 0}, append(o.Prompts, o.Decodes...), "less than the default prompt of a generation")
}

// TestSynthFlags: --shape and --type select what is written.
func TestSynthFlags(t *testing.T) {
	write := func(args ...string) *gguf.File {
		path := filepath.Join(t.TempDir(), "m.gguf")
		code, _, stderr := clitest.Call(t, append([]string{"synth", path}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		assert.Contains(t, stderr, "weights: 1313024 of 1313024")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		f, err := gguf.Parse(b)
		require.NoError(t, err)
		return f
	}
	for kind, want := range map[string]gguf.Type{"f16": gguf.F16, "q5_1": gguf.Q5_1} {
		f := write("--shape", "tiny", "--type", kind)
		width, err := f.Int("qwen2.embedding_length")
		require.NoError(t, err)
		assert.EqualValues(t, 256, width)
		gate, ok := f.Tensor("blk.0.ffn_gate.weight")
		require.True(t, ok)
		assert.Equal(t, want, gate.Type)
	}
	c := newBenchSynthCommand(&cli.App{})
	for name, def := range map[string]string{"shape": "0.5b", "type": "q8_0", "seed": "1"} {
		assert.Equal(t, def, c.Flags().Lookup(name).DefValue)
	}
	incomplete := filepath.Join(t.TempDir(), "m.gguf")
	err := writeModel(&cli.App{Stderr: io.Discard}, synth.Spec{}, incomplete)
	assert.ErrorContains(t, err, "write "+incomplete+": ")
	assert.NoFileExists(t, incomplete)
	file := filepath.Join(t.TempDir(), "absent", "m.gguf")
	code, _, stderr := clitest.Call(t, "synth", "--shape", "tiny", file)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, file)
}
