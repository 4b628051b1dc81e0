package record

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// TestRecord: committed dispatches are recorded in order, with their settings; discarded ones are not.
func TestRecord(t *testing.T) {
	d := Open()
	require.Positive(t, d.Limits().PageSize)
	b, err := d.NewBuffer(64)
	require.NoError(t, err)
	for i := range b.Bytes() {
		b.Bytes()[i] = byte(i)
	}
	_, err = d.NewBuffer(0)
	require.Error(t, err)
	l, err := d.NewLibrary("anything")
	require.NoError(t, err)
	var pipelines []metal.Pipeline
	for _, name := range []string{"first", "second"} {
		p, err := l.NewPipeline(name)
		require.NoError(t, err)
		assert.Equal(t, 32, p.SIMDWidth())
		pipelines = append(pipelines, p)
	}
	one := metal.Size{X: 1, Y: 1, Z: 1}
	fill := func() metal.Commands {
		c, err := d.NewCommands()
		require.NoError(t, err)
		c.SetPipeline(pipelines[0])
		c.SetThreadgroupMemory(0, 32)
		c.SetThreadgroupMemory(3, 16)
		c.SetBuffers(0, []metal.Binding{{Buffer: b}, {Buffer: b, Offset: 8}, {Buffer: b, Offset: 60}})
		c.Dispatch(metal.Size{X: 3, Y: 2, Z: 1}, metal.Size{X: 64, Y: 1, Z: 1})
		c.Dispatch(one, one)
		c.Barrier()
		c.Barrier()
		c.SetPipeline(pipelines[1])
		c.SetBuffers(0, []metal.Binding{{Buffer: b, Offset: 56}, {Buffer: b, Offset: 62}})
		c.Dispatch(one, one)
		return c
	}
	fill().Discard()
	c := fill()
	assert.Empty(t, d.Take())
	c.Commit()
	_, err = c.Wait()
	require.NoError(t, err)
	want := []Dispatch{
		{"first", metal.Size{X: 3, Y: 2, Z: 1}, metal.Size{X: 64, Y: 1, Z: 1}, 48, []byte{60, 61, 62, 63}, 0},
		{"first", one, one, 48, []byte{60, 61, 62, 63}, 0},
		{"second", one, one, 0, []byte{62, 63}, 1},
	}
	taken := d.Take()
	assert.Equal(t, want, taken)
	assert.Empty(t, d.Take())
	next, err := d.NewCommands()
	require.NoError(t, err)
	next.SetPipeline(pipelines[1])
	next.Dispatch(one, one)
	next.Commit()
	assert.Len(t, d.Take(), 1)
	assert.Equal(t, want, taken, "later dispatches have memory of their own")
}

// TestRecordCopiesArguments: at most 256 bytes of a buffer are copied when its dispatch is committed.
func TestRecordCopiesArguments(t *testing.T) {
	d := Open()
	l, err := d.NewLibrary("anything")
	require.NoError(t, err)
	p, err := l.NewPipeline("first")
	require.NoError(t, err)
	one := metal.Size{X: 1, Y: 1, Z: 1}
	for _, n := range []int{256, 257} {
		large, err := d.NewBuffer(n)
		require.NoError(t, err)
		c, err := d.NewCommands()
		require.NoError(t, err)
		c.SetPipeline(p)
		c.SetBuffers(0, []metal.Binding{{Buffer: large}})
		c.Dispatch(one, one)
		c.Commit()
		large.Bytes()[0] = 1 // another dispatch may use the buffer
		assert.Equal(t, make([]byte, 256), d.Take()[0].Args)
	}
}
