package gpu

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// recorder is a device that records which kernels run on it, as kernelRun names them.
type recorder struct {
	metal.Device
	ran map[string]bool
}

// kernelRun names a kernel with the constant that it is made with, and the form of its source.
func kernelRun(name string, kvF32, equal bool) string {
	if kvF32 {
		name += " for keys in F32"
	}
	if equal {
		name += " with equal operands"
	}
	return name
}

func (r *recorder) NewLibrary(source string) (metal.Library, error) {
	l, err := r.Device.NewLibrary(source)
	return recordedLibrary{l, strings.Contains(source, "#define EQUAL_OPERANDS\n")}, err
}

func (r *recorder) NewCommands() (metal.Commands, error) {
	c, err := r.Device.NewCommands()
	return &recordedCommands{Commands: c, of: r}, err
}

type recordedLibrary struct {
	metal.Library
	equal bool
}

func (l recordedLibrary) NewPipeline(name string, constants ...metal.Constant) (metal.Pipeline, error) {
	p, err := l.Library.NewPipeline(name, constants...)
	return recordedPipeline{p, kernelRun(name, constants[0].Value.(bool), l.equal)}, err
}

type recordedPipeline struct {
	metal.Pipeline
	run string
}

type recordedCommands struct {
	metal.Commands
	of  *recorder
	now string
}

func (c *recordedCommands) SetPipeline(p metal.Pipeline) {
	own := p.(recordedPipeline)
	c.now = own.run
	c.Commands.SetPipeline(own.Pipeline)
}

func (c *recordedCommands) Dispatch(groups, threads metal.Size) {
	c.of.ran[c.now] = true
	c.Commands.Dispatch(groups, threads)
}

// sourceRuns returns all kernels of the source, of every type of weights and for both types of keys, as kernelRun names
// them. Only those of long passes multiply matrices, whose operands may have to be of one type.
func sourceRuns(t *testing.T, equal bool) (all []string) {
	t.Helper()
	compiler, err := translate.NewCompiler(translate.Options{})
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	for _, weight := range append([]string{""}, kernels.Types()...) {
		source, err := compiler.OpenCL(kernels.Source(weight, equal))
		require.NoError(t, err)
		for _, k := range source.Kernels {
			if equal && !strings.Contains(k.Name, "_wide") {
				continue
			}
			all = append(all, kernelRun(k.Name, false, equal))
			if len(k.Constants) > 0 {
				require.Equal(t, []string{"kv_f32"}, k.Constants)
				all = append(all, kernelRun(k.Name, true, equal))
			}
		}
	}
	return all
}

// TestEveryKernel: every kernel of the source runs, those that read weights for each of their types, those that touch
// keys and values for both of theirs, and agrees with its formula. There is no exception: each can be said in OpenCL,
// with which make opencl runs this.
func TestEveryKernel(t *testing.T) {
	racing.Spare(t)
	var r *recorder
	wrap := func(d metal.Device) metal.Device {
		r = &recorder{d, map[string]bool{}}
		return r
	}
	eachOn(t, wrap, func(x *fixture) {
		rows := append(slices.Clone(buckets), maxNarrow+1)
		if x.equal {
			rows = rows[len(buckets):]
		}
		for _, k := range kinds()[:len(kernels.Types())] {
			x.onNewDevice(func() { // the pages around all buffers of one would be too many
				x.embed(k)
				for _, n := range rows {
					x.feedForward(k, n)
					x.attendOf(k.t, n, 2, 16)
					x.head(anyHead{vocab: 300, rows: 2*n - 1, k: 3, kind: k.t}) // every second row is wanted
					x.recurrent(k.t, n)
				}
			})
		}
		for _, group := range []int{1, 2, 4, 8} {
			for _, size := range []int{64, 128, maxHead} {
				x.attendOf(gguf.Q8_0, 2, group, size)
				x.attendOf(gguf.Q8_0, maxNarrow+1, group, size)
			}
		}
		for _, run := range sourceRuns(x.t, x.equal) {
			assert.True(x.t, r.ran[run], "this test does not run %s", run)
		}
	})
}

// onNewDevice calls f with another device on the same Metal device.
func (x *fixture) onNewDevice(f func()) {
	before := x.d
	d, err := New(before.metal, Options{})
	require.NoError(x.t, err)
	x.d = d
	f()
	require.NoError(x.t, d.Close())
	x.d = before
}

// attendOf compares attention over the n rows of a pass, for both types of keys. Weights that are numbers by themselves
// are large here: norms of the heads keep scores from the range where an exponential amplifies errors.
func (x *fixture) attendOf(kind gguf.Type, n, group, size int) {
	elements, _ := kind.Block()
	for _, keys := range []gguf.Type{gguf.F16, gguf.F32} {
		tolerance := 5e-6
		if keys == gguf.F16 {
			tolerance = 1e-3
		}
		s := x.kv(backend.KVConfig{Slots: n, Heads: group, KVHeads: 1, HeadSize: size, Type: keys})
		x.attend(s, kind, rowsAt(n), tolerance, elements == 1)
	}
}
