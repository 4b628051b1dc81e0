package soft

import (
	_ "embed"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
)

//go:embed testdata/counts.metal
var countSource string

// TestCounts: the counts of kernels with known accesses are exact: by binding, by buffer, and lines of 128 bytes.
func TestCounts(t *testing.T) {
	d := newRig(t, countSource, Options{Variant: Check})
	dispatch := func(name string, groups, threads int, buffers ...metal.Buffer) {
		t.Helper()
		c := d.commands()
		encode(c, d.pipeline(name), size(groups, 1, 1), size(threads, 1, 1), buffers...)
		require.NoError(t, finish(c))
	}
	w, x, y := d.buffer(8*256), d.buffer(8192), d.buffer(2048)

	// 2 threadgroups of 2 simdgroups: each loads 32 times 16 bytes, which lie in 4 lines
	dispatch("copy4", 2, 64, x, y)
	c := d.Counts()
	assert.Equal(t, 1, c.Dispatches)
	assert.Equal(t, Count{Dispatches: 1, Read: 2048, ReadUnique: 2048, Fetched: 2048, Lines: 16, Ideal: 16},
		c.Bindings[Binding{"copy4", 0}])
	assert.Equal(t, Count{Dispatches: 1, Written: 2048, WrittenUnique: 2048}, c.Bindings[Binding{"copy4", 1}])
	assert.Equal(t, Count{Dispatches: 1, Read: 2048, ReadUnique: 2048, Fetched: 2048, Lines: 16, Ideal: 16},
		c.Buffers[x])

	// each lane in a different line; and all lanes the same four bytes
	require.NoError(t, d.ResetCounts())
	assert.Empty(t, d.Counts().Buffers)
	dispatch("spread", 1, 32, x, y)
	assert.Equal(t, Count{Dispatches: 1, Read: 256, ReadUnique: 128, Fetched: 132, Lines: 33, Ideal: 2},
		d.Counts().Bindings[Binding{"spread", 0}])

	// each weight once; x once for each of 8 rows; twice the dispatch, once the unique bytes of a buffer
	require.NoError(t, d.ResetCounts())
	dispatch("rows", 8, 32, w, x, y)
	dispatch("rows", 8, 32, w, x, y)
	c = d.Counts()
	assert.Equal(t, 2, c.Dispatches)
	assert.Equal(t, Count{Dispatches: 2, Read: 4096, ReadUnique: 4096, Fetched: 4096,
		Lines: 2 * 8 * 8, Ideal: 2 * 8 * 8},
		c.Bindings[Binding{"rows", 0}])
	assert.Equal(t, Count{Dispatches: 2, Read: 4096, ReadUnique: 2048, Fetched: 4096,
		Lines: 2 * 8 * 8, Ideal: 2 * 8 * 8},
		c.Buffers[w])
	assert.Equal(t, Count{Dispatches: 2, Read: 2 * 8 * 1024, ReadUnique: 2 * 1024, Fetched: 2 * 8 * 1024,
		Lines: 2 * 8 * 8, Ideal: 2 * 8 * 8},
		c.Bindings[Binding{"rows", 1}])
	assert.Equal(t, Count{Dispatches: 2, Written: 64, WrittenUnique: 32}, c.Buffers[y])

	require.NoError(t, d.ResetCounts())
	dispatch("half_used", 1, 64, x, y)
	assert.Equal(t, Count{Dispatches: 1, Read: 128, ReadUnique: 128, Fetched: 128, Lines: 2, Ideal: 2},
		d.Counts().Bindings[Binding{"half_used", 0}])

	// in each row, 8 threads load a second time: 4 rows of 128 bytes and 32 bytes, without divergence
	require.NoError(t, d.ResetCounts())
	dispatch("ragged", 1, 32, x, y)
	assert.Equal(t, Count{Dispatches: 1, Read: 640, ReadUnique: 640, Fetched: 640, Lines: 8, Ideal: 8},
		d.Counts().Bindings[Binding{"ragged", 0}])

	// more loads than are buffered
	require.NoError(t, d.ResetCounts())
	dispatch("again", 1, 32, x, y)
	assert.Equal(t, Count{Dispatches: 1, Read: 50000 * 128, ReadUnique: 6400, Fetched: 50000 * 128,
		Lines: 50000, Ideal: 50000},
		d.Counts().Bindings[Binding{"again", 0}])

	fast := open(t, Options{})
	assert.Zero(t, fast.Counts().Dispatches)
	require.NoError(t, fast.ResetCounts())
}

// TestCountsByOffset: a buffer bound at several offsets counts for each of them, and an access before the first one is
// a fault.
func TestCountsByOffset(t *testing.T) {
	d := newRig(t, countSource, Options{Variant: Check})
	all, c := d.buffer(16384), d.commands()
	c.SetPipeline(d.pipeline("rows"))
	set(c, 0, all, 1024)
	set(c, 1, all, 8192)
	set(c, 2, all, 4096)
	c.Dispatch(size(8, 1, 1), size(32, 1, 1))
	require.NoError(t, finish(c))
	n := d.Counts()
	assert.Equal(t, int64(2048), n.Bindings[Binding{"rows", 0}].Read)
	assert.Equal(t, int64(8192), n.Bindings[Binding{"rows", 1}].Read)
	assert.Equal(t, int64(32), n.Bindings[Binding{"rows", 2}].Written)
	assert.Equal(t, Count{Dispatches: 1, Read: 10240, ReadUnique: 2048 + 1024, Written: 32, WrittenUnique: 32,
		Fetched: 10240, Lines: 128, Ideal: 128}, n.Buffers[all])
}
