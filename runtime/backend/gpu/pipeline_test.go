package gpu

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// slow is a device that takes a second for each pipeline, and fails for those called bad.
type slow struct {
	*record.Device
	bad     string
	open    atomic.Int64 // pipelines that are not closed
	buffers int          // that were made
}

type slowLibrary struct {
	metal.Library
	d *slow
}

type slowPipeline struct {
	metal.Pipeline
	d *slow
}

var errBad = errors.New("a bad kernel")

func (d *slow) NewLibrary(source string) (metal.Library, error) {
	l, err := d.Device.NewLibrary(source)
	return slowLibrary{l, d}, err
}

func (l slowLibrary) NewPipeline(function string, constants ...metal.Constant) (metal.Pipeline, error) {
	time.Sleep(time.Second)
	if function == l.d.bad {
		return nil, errBad
	}
	l.d.open.Add(1)
	p, err := l.Library.NewPipeline(function, constants...)
	return slowPipeline{p, l.d}, err
}

func (p slowPipeline) Close() { p.d.open.Add(-1) }

func (d *slow) NewBuffer(length int) (metal.Buffer, error) {
	d.buffers++
	return d.Device.NewBuffer(length)
}

// poor is a device without memory. It counts the libraries that are not closed.
type poor struct {
	*record.Device
	libraries int
}

type poorLibrary struct {
	metal.Library
	d *poor
}

func (d *poor) NewLibrary(source string) (metal.Library, error) {
	l, err := d.Device.NewLibrary(source)
	d.libraries++
	return poorLibrary{l, d}, err
}

func (l poorLibrary) Close() { l.d.libraries-- }

func (*poor) NewBuffer(int) (metal.Buffer, error) { return nil, errBad }

// TestNewWithoutMemory: a device that cannot be made keeps nothing of the one below it.
func TestNewWithoutMemory(t *testing.T) {
	under := &poor{Device: record.Open()}
	_, err := New(under, Options{})
	require.ErrorIs(t, err, errBad)
	assert.Zero(t, under.libraries)
}

// TestPipelinesAtOnce: each pipeline is made once, as many concurrently as there are processors. If one fails, loading
// fails, and the others are closed with the device.
func TestPipelinesAtOnce(t *testing.T) {
	for _, bad := range []string{"", "add_q8_0_2"} {
		bubble.Test(t, func(t *testing.T) {
			under := &slow{Device: record.Open(), bad: bad}
			d, err := New(under, Options{})
			require.NoError(t, err)
			for _, weight := range []string{"Q8_0", "Q4_0"} {
				_, err := d.kernelLibrary(weight)
				require.NoError(t, err)
			}
			d.stores[storeKey{false, 8, 64}], d.stores[storeKey{true, 8, 64}] = true, true
			begin := time.Now()
			err = d.preparePipelines()
			// Plain ones, attention for two stores; for each type, five for each store and the rest.
			const all = 2 + 2*2 + 2*(2*5+3+3*4)
			want := all
			if bad == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errBad)
				want--
			}
			assert.EqualValues(t, want, under.open.Load())
			turns := runtime.GOMAXPROCS(0)
			assert.Equal(t, time.Duration(ceilDiv(all, turns))*time.Second, time.Since(begin))
			begin = time.Now()
			if bad == "" {
				require.NoError(t, d.preparePipelines())
				assert.Zero(t, time.Since(begin), "all pipelines exist")
			}
			require.NoError(t, d.Close())
			assert.Zero(t, under.open.Load())
		})
	}
}

// TestStoreWithoutKernels: a KV store with kernels that cannot be compiled takes no memory.
func TestStoreWithoutKernels(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		under := &slow{Device: record.Open(), bad: attendWideKernel(64)}
		d, err := New(under, Options{})
		require.NoError(t, err)
		before := under.buffers
		_, err = d.NewKV(backend.KVConfig{Layers: 2, Slots: 4, Heads: 2, KVHeads: 1, HeadSize: 64, Type: gguf.F16})
		require.ErrorIs(t, err, errBad)
		assert.Equal(t, before, under.buffers)
		require.NoError(t, d.Close())
	})
}
