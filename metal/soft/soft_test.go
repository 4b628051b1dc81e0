package soft

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// open makes a device for a test, or skips the test without a compiler.
func open(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open(o)
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// floats makes a buffer of float32.
func floats(t testing.TB, d *Device, x ...float32) metal.Buffer {
	t.Helper()
	b, err := d.NewBuffer(4 * len(x))
	require.NoError(t, err)
	for i, v := range x {
		binary.NativeEndian.PutUint32(b.Bytes()[4*i:], math.Float32bits(v))
	}
	t.Cleanup(b.Close)
	return b
}

// values reads a buffer of float32.
func values(b metal.Buffer) []float32 {
	x := make([]float32, len(b.Bytes())/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.NativeEndian.Uint32(b.Bytes()[4*i:]))
	}
	return x
}

// rig is a device with the pipelines of a library.
type rig struct {
	*Device
	t       testing.TB
	library metal.Library
}

func newRig(t testing.TB, source string, o Options) *rig {
	t.Helper()
	d := open(t, o)
	l, err := d.NewLibrary(source)
	require.NoError(t, err)
	return &rig{d, t, l}
}

func (r *rig) pipeline(name string, c ...metal.Constant) metal.Pipeline {
	r.t.Helper()
	p, err := r.library.NewPipeline(name, c...)
	require.NoError(r.t, err, name)
	return p
}

func (r *rig) buffer(n int) metal.Buffer {
	r.t.Helper()
	b, err := r.NewBuffer(n)
	require.NoError(r.t, err)
	r.t.Cleanup(b.Close)
	return b
}

func (r *rig) commands() metal.Commands {
	r.t.Helper()
	c, err := r.NewCommands()
	require.NoError(r.t, err)
	return c
}

// encode adds a dispatch of a kernel on buffers.
func encode(c metal.Commands, p metal.Pipeline, groups, threads metal.Size, buffers ...metal.Buffer) {
	c.SetPipeline(p)
	for i, b := range buffers {
		set(c, i, b, 0)
	}
	c.Dispatch(groups, threads)
}

// finish runs the commands, and returns their error.
func finish(c metal.Commands) error {
	c.Commit()
	_, err := c.Wait()
	return err
}
