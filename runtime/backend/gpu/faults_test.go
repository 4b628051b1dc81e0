package gpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
)

// faulty is a device on which some command buffers fail. Like Metal it then ignores those that were begun before all
// failed ones were waited for.
type faulty struct {
	metal.Device
	fails map[int]bool // by number, from 0 on
	made  int
	open  int  // command buffers that are not waited for
	dead  bool // one has failed since there was none
}

type faultyCommands struct {
	metal.Commands
	d    *faulty
	fail bool
}

func (d *faulty) NewCommands() (metal.Commands, error) {
	c, err := d.Device.NewCommands()
	d.dead = d.dead && d.open > 0
	d.made++
	d.open++
	return &faultyCommands{c, d, d.fails[d.made-1]}, err
}

func (c *faultyCommands) Discard() {
	c.d.open--
	c.Commands.Discard()
}

func (c *faultyCommands) Wait() (metal.Timing, error) {
	c.d.open--
	timing, err := c.Commands.Wait()
	if c.d.dead = c.d.dead || c.fail; c.d.dead {
		return timing, fmt.Errorf("%w: planted", metal.ErrFault)
	}
	return timing, err
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
