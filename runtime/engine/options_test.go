package engine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestContextOption: the context is the requested one, limited by the model; the default is 4096.
func TestContextOption(t *testing.T) {
	for _, c := range []struct{ model, asked, want int }{
		{64, 0, 64}, {4095, 0, 4095}, {4096, 0, 4096}, {5000, 0, 4096}, {5000, 5000, 5000}, {64, 64, 64}, {64, 1, 1},
		{64, 65, 0}, {64, -1, 0},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.asked, c.model), func(t *testing.T) {
			file := smallest(t, func(s *synth.Spec) { s.Context = c.model })
			e, err := New(file, "small", Options{Context: c.asked, Threads: 1})
			if c.want == 0 {
				assert.EqualError(t, err, fmt.Sprintf(
					"load small: a context of %d tokens is not possible: the model allows 1 to 64", c.asked))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, e.Context())
			s := session(t, e)
			assert.Equal(t, c.want, s.cache.Slots())
			assert.NoError(t, e.Close())
		})
	}
}

// TestKVOption: keys and values have the requested type. The default is float16, or float32 if float16 would be the
// only rounding of the model. Sessions and services use the same type.
func TestKVOption(t *testing.T) {
	f32 := func(s *synth.Spec) {
		var err error
		s.Recipe, err = synth.ParseRecipe("f32")
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		o    Options
		edit func(*synth.Spec)
		want gguf.Type
	}{
		"rounded weights":         {Options{}, nil, gguf.F16},
		"as float32":              {Options{KV: KVF32}, nil, gguf.F32},
		"as float16":              {Options{KV: KVF16}, nil, gguf.F16},
		"exact":                   {Options{Exact: true}, nil, gguf.F32},
		"exact, whatever is said": {Options{Exact: true, KV: KVF16}, nil, gguf.F32},
		"float32 throughout":      {Options{}, f32, gguf.F32},
		"float32, but not these":  {Options{KV: KVF16}, f32, gguf.F16},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Context = 10
			e := small(t, c.o, c.edit)
			s := session(t, e)
			assert.Equal(t, c.want, s.cache.KV().Config().Type)
			size := int64(2 * 2 * 10 * 32) // keys and values of two layers: ten slots of one head of 32
			if c.want == gguf.F32 {
				size *= 2
			}
			assert.Equal(t, 2*size, s.KVLimit())
			assert.Zero(t, s.KVBytes())
			service, err := e.Serve(ServeOptions{Slots: 30})
			require.NoError(t, err)
			assert.Equal(t, c.want, service.kv.Type)
			assert.Equal(t, 3*2*size, service.KVBytes())
			service.Close()
		})
	}
	_, err := New(smallest(t, nil), "small", Options{KV: "f64"})
	assert.EqualError(t, err, `load small: keys and values cannot be kept as "f64": choose f16 or f32`)
}

// TestThreadsOption: the number of workers is the requested one; the default is that of the Go runtime.
func TestThreadsOption(t *testing.T) {
	e := small(t, Options{Threads: 3}, nil)
	assert.Equal(t, 3, e.Threads())
	assert.Contains(t, e.Device(), "threads 3")
	assert.Equal(t, e.device.Name(), e.Device())
	e, err := New(smallest(t, nil), "small", Options{})
	require.NoError(t, err)
	defer e.Close()
	assert.Equal(t, e.device.(interface{ Threads() int }).Threads(), e.Threads())
	other, _ := troubled(t, Options{Threads: 3}, false)
	assert.Equal(t, runtime.GOMAXPROCS(0), other.Threads(), "with a GPU")
	_, ok := e.LastEncoded()
	assert.False(t, ok, "no GPU")
}

// TestBackendOption: an unknown or unavailable backend is refused by name.
func TestBackendOption(t *testing.T) {
	open := func(o Options) error {
		e, err := New(smallest(t, nil), "small", o)
		if err == nil {
			assert.NoError(t, e.Close())
		}
		return err
	}
	assert.NoError(t, open(Options{Backend: CPU}))
	assert.ErrorContains(t, open(Options{Backend: "abacus"}), `load small: "abacus" is not a backend`)
	for _, b := range []Backend{Soft, Metal} {
		assert.ErrorContains(t, open(Options{Backend: b, Exact: true}), "only possible on the backend cpu")
	}
	if runtime.GOOS != "darwin" {
		assert.ErrorContains(t, open(Options{Backend: Metal}), "load small: backend metal: ")
	}
	assert.ErrorContains(t, open(Options{Threads: -1}), "load small: ")
	assert.Equal(t, gguf.Q8_0, KernelType(gguf.Q8_0))
}

// TestNewClosesTheFile: the file is closed if it cannot be loaded, and when the engine is closed.
func TestNewClosesTheFile(t *testing.T) {
	f := smallest(t, nil)
	_, err := New(f, "small", Options{Context: 65})
	require.Error(t, err)
	_, err = f.String("general.name")
	assert.ErrorIs(t, err, gguf.ErrClosed)
	f = smallest(t, nil)
	e, err := New(f, "small", Options{})
	require.NoError(t, err)
	assert.Same(t, f, e.File())
	assert.Same(t, e.model, e.Model())
	require.NoError(t, e.Close())
	_, err = f.String("general.name")
	assert.ErrorIs(t, err, gguf.ErrClosed)
	assert.ErrorIs(t, e.model.Forward(t.Context(), nil, nil, nil, backend.Want{}), gguf.ErrClosed)
}

// TestOpenNames: errors about a file on disk contain its name, also later ones.
func TestOpenNames(t *testing.T) {
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	s := synth.Tiny(recipe, 1)
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	path := filepath.Join(t.TempDir(), "a.gguf")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	e, err := Open(path, Options{Context: 8})
	require.NoError(t, err)
	_, _, err = e.Logits(t.Context(), make([]int32, 600), 1)
	assert.ErrorContains(t, err, path+": ")
	require.NoError(t, e.Close())
	_, err = e.NewSession()
	assert.EqualError(t, err, path+": "+ErrClosed.Error())
}

// TestLogits returns the logits after the last token, with the requested number of best tokens.
func TestLogits(t *testing.T) {
	e := small(t, Options{Context: 8}, nil)
	logits, top, err := e.Logits(t.Context(), []int32{1, 2, 3}, 4)
	require.NoError(t, err)
	require.Len(t, logits, 300)
	require.Len(t, top, 4)
	for i, c := range top {
		assert.Equal(t, logits[c.ID], c.Logit)
		if i > 0 {
			assert.LessOrEqual(t, c.Logit, top[i-1].Logit)
		}
	}
	all, _, err := e.Logits(t.Context(), make([]int32, 64), 1)
	require.NoError(t, err, "the limit is that of the model, not of sessions")
	require.Len(t, all, 300)
	_, _, err = e.Logits(t.Context(), []int32{1, 2, 3}, 0)
	assert.Error(t, err)
}
