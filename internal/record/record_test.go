package record

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
)

// aRun returns a run with a value in every field.
func aRun() Run {
	return Run{
		Measurement: "bench engine", Version: "v1", Go: "go1.26", Command: `x "<&>"`,
		Flags: map[string]string{"rtt": "1s"}, Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Machine: ThisMachine(), Large: &Model{Name: "far"},
		Model: &Model{Name: "small", Hash: "ab", Types: map[string]int64{"F32": 4}, Bytes: 5},
	}
}

// TestLine: a line is one object: the fields of the value, then the run, unchanged. It can be read back.
func TestLine(t *testing.T) {
	run := aRun()
	for _, v := range []any{
		struct{}{}, map[string]int{}, map[string]any{"text": "<b>\n\u2028&", "n": 1},
		struct {
			A int     `json:"a"`
			B []int64 `json:"b,omitempty"`
		}{7, []int64{1, 2}},
	} {
		line, err := Line(v, run)
		require.NoError(t, err)
		assert.Equal(t, 1, bytes.Count(line, []byte("\n")))
		assert.True(t, bytes.HasSuffix(line, []byte("}}\n")))
		var back struct{ Run Run }
		require.NoError(t, json.Unmarshal(line, &back))
		assert.Equal(t, run, back.Run)
		var got, want map[string]any
		require.NoError(t, json.Unmarshal(line, &got))
		b, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &want))
		delete(got, "run")
		assert.Equal(t, want, got)
	}
	line, err := Line(map[string]string{"a": "<&>"}, Run{})
	require.NoError(t, err)
	assert.Contains(t, string(line), `{"a":"<&>","run":{"measurement":""`, "no HTML escapes")
	for _, v := range []any{1, "text", []int{1}, nil} {
		_, err := Line(v, run)
		assert.ErrorContains(t, err, "is not an object in JSON", "%T", v)
	}
	for _, v := range []any{func() {}, map[string]any{"a": func() {}}, map[string]float64{"a": math.Inf(1)}} {
		_, err := Line(v, run)
		assert.ErrorContains(t, err, "json: unsupported", "%T", v)
	}
	run.Machine.Load = math.NaN()
	_, err = Line(struct{}{}, run)
	assert.ErrorContains(t, err, "json: unsupported")
}

func TestThisMachine(t *testing.T) {
	m := ThisMachine()
	want := m
	want.Cores, want.System, want.Kernels = runtime.GOMAXPROCS(0), runtime.GOOS+"/"+runtime.GOARCH, cpu.Features()
	assert.Equal(t, want, m)
	if runtime.GOOS == "linux" {
		assert.Greater(t, m.Memory, int64(64<<20), "bytes")
	}
	assert.Zero(t, m.Bandwidth, "measuring it takes time")
}

func TestOfFile(t *testing.T) {
	m, err := OfFile("../../bench/demo/small.gguf")
	require.NoError(t, err)
	assert.Equal(t, "pilotfish-demo-small", m.Name)
	f, err := gguf.Open("../../bench/demo/small.gguf")
	require.NoError(t, err)
	defer f.Close()
	hash, err := f.Fingerprint()
	require.NoError(t, err)
	assert.Equal(t, hash, m.Hash)
	info, err := os.Stat("../../bench/demo/small.gguf")
	require.NoError(t, err)
	assert.Equal(t, info.Size(), m.Bytes)
	types := map[string]int64{}
	for _, x := range f.Tensors() {
		types[x.Type.String()] += int64(len(x.Data))
	}
	assert.Equal(t, types, m.Types)
	held.Same(t, func() {
		_, err := OfFile("../../bench/demo/small.gguf")
		assert.NoError(t, err)
		_, err = OfFile("/nowhere")
		assert.Error(t, err)
	})
}

// TestFarMemory: memory for measuring bandwidth is twice as large as the caches, within limits, and each of its pages
// is written.
func TestFarMemory(t *testing.T) {
	for cache, want := range map[int64]int{0: 256, 128 << 20: 256, 150 << 20: 300, 1 << 30: 512} {
		assert.Equal(t, want<<20, farBytesFor(cache))
	}
	assert.Equal(t, farBytesFor(CacheBytes()), FarBytes())
	b := Touched(make([]byte, 3*4096+1))
	for page := range 4 {
		assert.NotZero(t, b[page*4096])
	}
	assert.Len(t, b, 3*4096+1)
}

// TestBandwidth: the bandwidth is the better of two passes over as many threads as there are cores, in 1e9 bytes per
// second.
func TestBandwidth(t *testing.T) {
	passes := 0.
	got := measureBandwidth(func(threads int, memory ...[]byte) float64 {
		assert.Equal(t, runtime.GOMAXPROCS(0), threads)
		assert.Len(t, memory[0], FarBytes())
		passes++
		return passes * 1e10
	})
	assert.Equal(t, 20., got)
	assert.Equal(t, 2., passes)
}
