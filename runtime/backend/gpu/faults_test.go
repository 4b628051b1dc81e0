package gpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// faulty is a device on which some command buffers fail. Like Metal it then ignores those that were begun before all
// failed ones were waited for.
type faulty struct {
	metal.Device
	fails map[int]bool // by number, from 0 on
	made  int
	open  int  // command buffers that are not waited for
	dead  bool // one has failed since there was none

	args   map[metal.Buffer]int // with arguments, by the command buffer that uses them
	shared bool                 // by two command buffers
}

type faultyCommands struct {
	metal.Commands
	d      *faulty
	number int
}

func (d *faulty) NewCommands() (metal.Commands, error) {
	c, err := d.Device.NewCommands()
	d.dead = d.dead && d.open > 0
	d.made++
	d.open++
	return &faultyCommands{c, d, d.made - 1}, err
}

// SetBuffers implements [metal.Commands]. The last one has the arguments.
func (c *faultyCommands) SetBuffers(first int, bindings []metal.Binding) {
	args := bindings[len(bindings)-1].Buffer
	if c.d.args == nil {
		c.d.args = map[metal.Buffer]int{}
	}
	if by, ok := c.d.args[args]; ok && by != c.number {
		c.d.shared = true
	}
	c.d.args[args] = c.number
	c.Commands.SetBuffers(first, bindings)
}

func (c *faultyCommands) Discard() {
	c.d.open--
	c.Commands.Discard()
}

// Wait implements [metal.Commands]. A command buffer runs for a second, from its number on.
func (c *faultyCommands) Wait() (metal.Timing, error) {
	c.d.open--
	_, err := c.Commands.Wait()
	if c.d.dead = c.d.dead || c.d.fails[c.number]; c.d.dead {
		err = fmt.Errorf("%w: planted", metal.ErrFault)
	}
	start := time.Duration(c.number) * time.Second
	return metal.Timing{Start: start, End: start + time.Second}, err
}

// TestCutPasses: a long pass goes to the device in several command buffers, with the same results. With a limit of one
// multiplication each level has its own.
func TestCutPasses(t *testing.T) {
	ids := randomTokens(rand.New(rand.NewPCG(4, 4)), 45, 512)
	f := file(t, "q8_0", nil)
	dev := &faulty{Device: gpu.OpenMetal(t, soft.Options{Seed: 1})}
	m, d := load(t, f, dev, gpu.Options{})
	for _, piece := range []int{1, 5, 45} {
		d.SetMaxWork(1 << 40)
		dev.made = 0
		want := run(t, m, ids, gguf.F16, piece)
		assert.Equal(t, len(ids)/piece, dev.made)
		d.SetMaxWork(1)
		dev.made = 0
		assert.Equal(t, want, run(t, m, ids, gguf.F16, piece))
		assert.Greater(t, dev.made, 10*len(ids)/piece)
		assert.Zero(t, dev.open)
	}
}

// TestParts: a pass in a few command buffers of about the same size took from the begin of the first one to the end of
// the last one. None of them reads arguments from a buffer that is written for a later one.
func TestParts(t *testing.T) {
	dev := &faulty{Device: gpu.OpenMetal(t, soft.Options{Seed: 1})}
	m, d := load(t, file(t, "q8_0", nil), dev, gpu.Options{})
	c, err := m.NewCache(45, gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend(randomTokens(rand.New(rand.NewPCG(4, 4)), 45, 512))
	require.NoError(t, err)
	weights := 2 * (2*256*256 + 2*128*256 + 3*512*256) // of both layers
	d.SetMaxWork(len(rows) * weights / 3)
	var ran []backend.Op
	ctx := backend.Watch(t.Context(), &backend.Watcher{Tell: func(op backend.Op) { ran = append(ran, op) }})
	dev.made, dev.args = 0, nil
	require.NoError(t, m.Forward(ctx, c.KV(), rows, make([]backend.Output, 1), backend.Want{Rows: []int{44}, K: 1}))
	assert.InDelta(t, 3, dev.made, 1)
	require.Len(t, ran, 1)
	assert.Zero(t, ran[0].DeviceBegin)
	assert.Equal(t, time.Duration(dev.made)*time.Second, ran[0].DeviceEnd)
	assert.False(t, dev.shared)
}

// TestFaultInFlight: after a flight in which the device has failed, the next pass waits for those behind it, which the
// device ignores, and is right.
func TestFaultInFlight(t *testing.T) {
	dev := &faulty{Device: gpu.OpenMetal(t, soft.Options{Seed: 1})}
	m, _ := load(t, file(t, "q8_0", nil), dev, gpu.Options{})
	ids := []int32{7}
	want := run(t, m, ids, gguf.F16, 1)
	c, err := m.NewCache(40, gguf.F16)
	require.NoError(t, err)
	row := backend.Row{Token: 1, Slot: 38, See: []backend.Span{{From: 38, To: 39}}}
	var behind *transformer.Flight
	for _, fails := range []map[int]bool{nil, {0: true}} { // once for buffers that are large enough
		dev.made, dev.fails = 0, fails
		first, err := m.Start(c.KV(), row, backend.Want{K: 1}, nil)
		require.NoError(t, err)
		behind, err = m.Start(c.KV(), transformer.Child(row, 39), backend.Want{K: 1}, first)
		require.NoError(t, err)
		if _, err = first.Wait(t.Context()); fails == nil {
			require.NoError(t, err)
			_, err = behind.Wait(t.Context())
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, backend.ErrFault)
	}
	assert.Equal(t, want, feed(t, m, c, ids, 1))
	assert.Equal(t, 3, dev.made, "the pass was not repeated")
	_, err = behind.Wait(t.Context())
	assert.ErrorIs(t, err, backend.ErrFault)
}

// TestFaults: a pass in which the device fails is repeated once, whichever of its command buffers failed, and gives the
// same results. If it fails again, that is the error, and the next pass works.
func TestFaults(t *testing.T) {
	ids := randomTokens(rand.New(rand.NewPCG(4, 4)), 45, 512)
	dev := &faulty{Device: gpu.OpenMetal(t, soft.Options{Seed: 1})}
	m, d := load(t, file(t, "q8_0", nil), dev, gpu.Options{})
	want := run(t, m, ids, gguf.F16, 45)
	for _, work := range []int{1 << 40, 1e5} {
		d.SetMaxWork(work)
		dev.made, dev.fails = 0, nil
		run(t, m, ids, gguf.F16, 45)
		parts := dev.made
		for _, fails := range []int{0, parts / 2, parts - 1} {
			dev.made, dev.fails = 0, map[int]bool{fails: true}
			assert.Equal(t, want, run(t, m, ids, gguf.F16, 45))
			assert.Equal(t, 2*parts, dev.made)
		}
		dev.made, dev.fails = 0, map[int]bool{0: true, parts: true}
		c, err := m.NewCache(len(ids), gguf.F16)
		require.NoError(t, err)
		rows, err := c.Extend(ids)
		require.NoError(t, err)
		err = m.Forward(t.Context(), c.KV(), rows, make([]backend.Output, 1), backend.Want{Rows: []int{44}, K: 1})
		require.ErrorIs(t, err, backend.ErrFault)
		assert.ErrorContains(t, err, "the device failed: the GPU failed: planted")
		dev.fails = nil
		assert.Equal(t, want, run(t, m, ids, gguf.F16, 45))
		assert.Zero(t, dev.open)
	}
}
