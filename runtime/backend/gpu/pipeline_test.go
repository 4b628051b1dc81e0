package gpu

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/record"
)

// slow is a device that takes a second for each pipeline, and fails for those called bad.
type slow struct {
	*record.Device
	bad  string
	open atomic.Int64 // pipelines that are not closed
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

// newSlow makes a device that has kernels for two types of weights and two stores to compile in the background.
func newSlow(t *testing.T, bad string, notice func(string)) (*slow, *Device) {
	under := &slow{Device: record.Open(), bad: bad}
	d, err := New(under, Options{Notice: notice})
	require.NoError(t, err)
	for _, weight := range []string{"Q8_0", "Q4_0"} {
		_, err := d.kernelLibrary(weight)
		require.NoError(t, err)
	}
	d.stores[storeKey{false, 8, 64}], d.stores[storeKey{true, 8, 64}] = true, true
	d.preparePipelines()
	return under, d
}

// slowPipelines is the number of pipelines of newSlow: plain ones, attention for two stores; for each type, five for
// each store and the rest. One of them was made with the device.
const slowPipelines = 2 + 2*2 + 2*(2*5+3+3*4)

// TestPipelinesAtOnce: each pipeline is made once, in the background, as many concurrently as there are processors. If
// one fails, that is known at the end, and the others are closed with the device.
func TestPipelinesAtOnce(t *testing.T) {
	for _, bad := range []string{"", "add_q8_0_2"} {
		bubble.Test(t, func(t *testing.T) {
			under, d := newSlow(t, bad, nil)
			begin := time.Now()
			want := slowPipelines
			if err := d.CompileKernels(); bad == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errBad)
				want--
			}
			assert.EqualValues(t, want, under.open.Load())
			turns := runtime.GOMAXPROCS(0)
			assert.Equal(t, time.Duration(ceilDiv(slowPipelines-1, turns))*time.Second, time.Since(begin))
			begin = time.Now()
			d.preparePipelines()
			_ = d.CompileKernels()
			assert.Zero(t, time.Since(begin), "all pipelines exist")
			_, err := d.findPipeline(pipelineKey{"Q8_0", "add_q8_0_2", false})
			assert.Equal(t, bad != "", errors.Is(err, errBad))
			require.NoError(t, d.Close())
			assert.Zero(t, under.open.Load())
		})
	}
}

// TestPipelineNeeded: a pass that needs a pipeline waits for that one only, and the user is told once. A prompt's are
// made first. Closing the device waits for what is being compiled, and for no more.
func TestPipelineNeeded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var told atomic.Int64
		under, d := newSlow(t, "", func(string) { told.Add(1) })
		begin := time.Now()
		for _, last := range []string{"head_q8_0_8", "head_q8_0_4"} {
			_, err := d.findPipeline(pipelineKey{"Q8_0", last, false})
			require.NoError(t, err)
		}
		assert.Equal(t, 2*time.Second, time.Since(begin))
		assert.EqualValues(t, 1, told.Load())
		time.Sleep(time.Duration(ceilDiv(2*(2+2*2)+2, runtime.GOMAXPROCS(0)))*time.Second - time.Since(begin))
		synctest.Wait()
		begin = time.Now()
		for _, prompt := range []pipelineKey{
			{"Q8_0", "embed_q8_0", false}, {"Q4_0", "qkv_wide_q4_0", true}, {"", "attend_wide_64", true},
		} {
			_, err := d.findPipeline(prompt)
			require.NoError(t, err)
		}
		assert.Zero(t, time.Since(begin), "they are compiled first")
		require.NoError(t, d.Close())
		assert.LessOrEqual(t, time.Since(begin), time.Second)
		assert.Zero(t, under.open.Load())
		assert.EqualValues(t, 1, told.Load())
	})
}

// TestNoKernel: a pass with kernels that cannot be compiled fails, and names them.
func TestNoKernel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, d := newSlow(t, attendWideKernel(128), nil)
		_, err := d.findPipeline(pipelineKey{"", attendWideKernel(128), false})
		assert.ErrorIs(t, err, errBad)
		_, err = d.findPipeline(pipelineKey{"Q5_0", "head_q5_0_1", false})
		assert.ErrorContains(t, err, "head_q5_0_1: no weight of its type was loaded")
		require.NoError(t, d.Close())
	})
}
