//go:build linux && (amd64 || arm64) && !race

package mtl

import (
	"testing"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// toNothing sends messages, and the calls of autorelease pools, to a C function that does nothing, until the test ends:
// the rest is the cost of Go and of the call.
func toNothing(t testing.TB, d *Device) {
	t.Helper()
	library, err := openDylib(buildFake(t))
	require.NoError(t, err)
	null, err := findSymbol([]uintptr{library}, "fake_null")
	require.NoError(t, err)
	o := d.objc
	for _, entry := range []*uintptr{&o.msgSend, &o.threadSelf, &o.poolPush, &o.poolPop} {
		was := *entry
		*entry = null
		t.Cleanup(func() { *entry = was })
	}
}

// dispatcher returns a function that encodes the i-th dispatch of a model: another pipeline, five other buffers, the
// dispatch and a barrier, in 8 messages.
func dispatcher(t testing.TB) func(i int) {
	b := newBench(t, newFake(t, &goGPU{}))
	pipelines := []metal.Pipeline{b.pipeline, newPipeline(t, b, "scale", "scale")}
	var buffers []metal.Buffer
	for range 5 {
		buffers = append(buffers, newBuffer(t, b, 256))
	}
	c := begin(t, b)
	t.Cleanup(c.Discard)
	toNothing(t, b.Device)
	bindings := make([]metal.Binding, 5)
	return func(i int) {
		c.SetPipeline(pipelines[i%2])
		for n := range 4 {
			bindings[n].Buffer = buffers[(i+n)%4]
			c.SetBuffers(n, bindings[n:n+1])
		}
		bindings[4] = metal.Binding{Buffer: buffers[4], Offset: i % 2 * 16}
		c.SetBuffers(4, bindings[4:])
		c.Dispatch(one(8), one(32))
		c.Barrier()
	}
}

// TestNoAllocations: encoding allocates nothing. (The race detector does, so that this file is excluded from it.)
func TestNoAllocations(t *testing.T) {
	dispatch := dispatcher(t)
	i := 0
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		dispatch(i)
		i++
	}))
}
