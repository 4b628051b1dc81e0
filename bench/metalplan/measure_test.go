package metalplan

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/mtl"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
)

// timed is a device that runs the dispatches of a command buffer by their kinds: those of one kind, which differ in
// their weights, one after the other with a barrier after each, rounds times. The results are wrong; the work of each
// is the same, and weights come from where they come from in a token.
type timed struct {
	metal.Device
	rounds int
	times  map[Work]float64 // of one dispatch in µs; kernel, threadgroups and threads identify kinds
}

// encoded is a dispatch.
type encoded struct {
	pipeline        metal.Pipeline
	buffers         []metal.Binding
	memory          map[int]int
	groups, threads metal.Size
}

type timedCommands struct {
	d     *timed
	now   encoded
	kinds map[Work][]encoded
}

func (d *timed) NewCommands() (metal.Commands, error) {
	return &timedCommands{d: d, kinds: map[Work][]encoded{}}, nil
}

func (c *timedCommands) SetPipeline(p metal.Pipeline) {
	c.now = encoded{pipeline: p, memory: map[int]int{}}
}
func (c *timedCommands) SetBuffers(_ int, b []metal.Binding) {
	c.now.buffers = slices.Clone(b) // a pass sets all from the first on
}
func (c *timedCommands) SetBuffer(int, metal.Buffer, int)  { panic("a pass sets all buffers at once") }
func (c *timedCommands) SetThreadgroupMemory(index, n int) { c.now.memory[index] = n }
func (c *timedCommands) Barrier()                          {}
func (c *timedCommands) Commit()                           {}
func (c *timedCommands) Discard()                          {}

func (c *timedCommands) Dispatch(groups, threads metal.Size) {
	c.now.groups, c.now.threads = groups, threads
	kind := Work{Kernel: c.now.pipeline.Name(), Groups: groups.X * groups.Y * groups.Z, Threads: threads.X}
	c.kinds[kind] = append(c.kinds[kind], c.now)
}

func (c *timedCommands) Wait() (whole metal.Timing, err error) {
	for kind, all := range c.kinds {
		run, err := c.d.Device.NewCommands()
		if err != nil {
			return whole, err
		}
		for range c.d.rounds {
			for _, e := range all {
				run.SetPipeline(e.pipeline)
				run.SetBuffers(0, e.buffers)
				for i, n := range e.memory {
					run.SetThreadgroupMemory(i, n)
				}
				run.Dispatch(e.groups, e.threads)
				run.Barrier()
			}
		}
		run.Commit()
		took, err := run.Wait()
		if err != nil {
			return whole, err
		}
		c.d.times[kind] = float64(took.End-took.Start) / float64(time.Microsecond) / float64(c.d.rounds*len(all))
	}
	return whole, nil
}

// TestMeasured runs the dispatches of a token and writes a line of JSON for each kind, with its predicted and its
// measured time, to the file that PILOTFISH_MEASURED names. On the GPU of a Mac it has the shape of
// Qwen2.5-0.5B. Elsewhere the software device shows that every prediction meets a measurement.
func TestMeasured(t *testing.T) {
	path := os.Getenv("PILOTFISH_MEASURED")
	if runtime.GOOS == "darwin" && path == "" {
		t.Skip("PILOTFISH_MEASURED names no file for the times: make measured")
	}
	q4, err := synth.ParseRecipe("q4_0")
	require.NoError(t, err)
	shape, g, n := synth.Tiny(q4, 1), GPUs()[0], 9
	d := &timed{rounds: 1, times: map[Work]float64{}}
	if runtime.GOOS == "darwin" {
		d.Device, err = mtl.Open(mtl.Options{})
		shape, n, d.rounds = synth.Half(q4, 1), 100, 20
	} else {
		d.Device, err = soft.Open(soft.Options{})
	}
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	for _, one := range GPUs() { // of two with this name and different numbers of cores, the larger one
		if d.Name() == "Apple "+one.Chip {
			g = one
		}
	}
	plan, err := Predict(t.Context(), g, shape, n)
	require.NoError(t, err)
	blank, err := shape.Blank()
	require.NoError(t, err)
	f, err := gguf.Parse(blank)
	require.NoError(t, err)
	require.NoError(t, evaluateText(t.Context(), d, f, nil, n, func() { clear(d.times) }))
	require.NoError(t, d.Device.Close())

	var lines bytes.Buffer
	for _, w := range plan.Dispatches {
		took := d.times[Work{Kernel: w.Kernel, Groups: w.Groups, Threads: w.Threads}]
		assert.Positive(t, took, "%+v", w)
		require.NoError(t, json.NewEncoder(&lines).Encode(map[string]any{
			"gpu": d.Name(), "predicted_for": g.Chip, "predicted": w, "measured_us": took,
		}))
	}
	if path != "" {
		require.NoError(t, os.WriteFile(path, lines.Bytes(), 0o644))
	}
}
