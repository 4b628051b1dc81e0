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
	count := func(name string, dispatches, groups, threads int, buffers ...metal.Buffer) Counts {
		t.Helper()
		require.NoError(t, d.ResetCounts())
		assert.Empty(t, d.Counts().Buffers)
		for range dispatches {
			c := d.commands()
			encode(c, d.pipeline(name), size(groups, 1, 1), size(threads, 1, 1), buffers...)
			require.NoError(t, finish(c))
		}
		assert.Equal(t, dispatches, d.Counts().Dispatches)
		return d.Counts()
	}
	w, x, y := d.buffer(8*256), d.buffer(8192), d.buffer(2048)

	// 2 threadgroups of 2 simdgroups: each loads 32 times 16 bytes, which lie in 4 lines
	c := count("copy4", 1, 2, 64, x, y)
	read := Count{Dispatches: 1, Read: 2048, ReadUnique: 2048, Fetched: 2048, Lines: 16, Ideal: 16}
	assert.Equal(t, read, c.Bindings[Binding{"copy4", 0}])
	assert.Equal(t, Count{Dispatches: 1, Written: 2048, WrittenUnique: 2048}, c.Bindings[Binding{"copy4", 1}])
	assert.Equal(t, read, c.Buffers[x])

	// each weight once; x once for each of 8 rows; twice the dispatch, once the unique bytes of a buffer
	c = count("rows", 2, 8, 32, w, x, y)
	lines := int64(2 * 8 * 8)
	assert.Equal(t, Count{Dispatches: 2, Read: 4096, ReadUnique: 4096, Fetched: 4096, Lines: lines, Ideal: lines},
		c.Bindings[Binding{"rows", 0}])
	assert.Equal(t, Count{Dispatches: 2, Read: 4096, ReadUnique: 2048, Fetched: 4096, Lines: lines, Ideal: lines},
		c.Buffers[w])
	assert.Equal(t, Count{Dispatches: 2, Read: 2 * 8 * 1024, ReadUnique: 2 * 1024, Fetched: 2 * 8 * 1024,
		Lines: lines, Ideal: lines}, c.Bindings[Binding{"rows", 1}])
	assert.Equal(t, Count{Dispatches: 2, Written: 64, WrittenUnique: 32}, c.Buffers[y])

	for _, k := range []struct {
		kernel  string // of which the reads of buffer 0 are counted
		threads int
		want    Count
	}{
		// each lane in a different line; and all lanes the same four bytes
		{"spread", 32, Count{Read: 256, ReadUnique: 128, Fetched: 132, Lines: 33, Ideal: 2}},
		{"half_used", 64, Count{Read: 128, ReadUnique: 128, Fetched: 128, Lines: 2, Ideal: 2}},
		// in each row, 8 threads load a second time: 4 rows of 128 bytes and 32 bytes, without divergence
		{"ragged", 32, Count{Read: 640, ReadUnique: 640, Fetched: 640, Lines: 8, Ideal: 8}},
		// more loads than are buffered
		{"again", 32, Count{Read: 50000 * 128, ReadUnique: 6400, Fetched: 50000 * 128, Lines: 50000, Ideal: 50000}},
	} {
		k.want.Dispatches = 1
		assert.Equal(t, k.want, count(k.kernel, 1, 1, k.threads, x, y).Bindings[Binding{k.kernel, 0}], k.kernel)
	}
}

// TestCountsOfFast: without checks nothing is counted.
func TestCountsOfFast(t *testing.T) {
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
