package soft

import (
	_ "embed"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
)

//go:embed testdata/bench.metal
var benchSource string

// bench is a device with the pipelines of testdata/bench.metal.
type bench struct {
	*Device
	t         testing.TB
	pipelines map[string]metal.Pipeline
}

func newBench(t testing.TB, o Options) *bench {
	d := open(t, o)
	l, err := d.NewLibrary(benchSource)
	require.NoError(t, err)
	b := &bench{d, t, map[string]metal.Pipeline{}}
	for _, n := range []string{"matvec4", "barriers", "sums", "nothing", "matmul"} {
		b.pipelines[n], err = l.NewPipeline(n)
		require.NoError(t, err)
	}
	return b
}

func (b *bench) buffer(n int) metal.Buffer {
	m, err := b.NewBuffer(n)
	require.NoError(b.t, err)
	b.t.Cleanup(m.Close)
	return m
}

// words makes a buffer of numbers.
func words(t testing.TB, d *Device, v ...uint32) metal.Buffer {
	t.Helper()
	b, err := d.NewBuffer(4 * len(v))
	require.NoError(t, err)
	for i, x := range v {
		binary.NativeEndian.PutUint32(b.Bytes()[4*i:], x)
	}
	t.Cleanup(b.Close)
	return b
}

// BenchmarkToken runs a mat-vec of each shape of Qwen2.5-0.5B, as often as for a token: 494 million weights.
func BenchmarkToken(b *testing.B) {
	k := newBench(b, Options{})
	w, x, y := k.buffer(151936*28*34), k.buffer(4864*4), k.buffer(151936*4)
	shapes := []struct{ rows, columns, times uint32 }{
		{896, 896, 48}, {128, 896, 48}, {4864, 896, 48}, {896, 4864, 24}, {151936, 896, 1},
	}
	macs := 0
	var sizes []metal.Buffer
	for _, s := range shapes {
		sizes = append(sizes, words(b, k.Device, s.rows, s.columns))
	}
	for b.Loop() {
		c, err := k.NewCommands()
		require.NoError(b, err)
		c.SetPipeline(k.pipelines["matvec4"])
		c.SetBuffer(0, w, 0)
		c.SetBuffer(1, x, 0)
		c.SetBuffer(2, y, 0)
		for i, s := range shapes {
			c.SetBuffer(3, sizes[i], 0)
			for range s.times {
				c.Dispatch(metal.Size{X: int(s.rows) / 16, Y: 1, Z: 1}, metal.Size{X: 128, Y: 1, Z: 1})
				c.Barrier()
				macs += int(s.rows * s.columns)
			}
		}
		c.Commit()
		_, err = c.Wait()
		require.NoError(b, err)
	}
	b.ReportMetric(float64(macs)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}

func BenchmarkSmall(b *testing.B) {
	for _, name := range []string{"barriers", "sums", "nothing"} {
		b.Run(name, func(b *testing.B) {
			k := newBench(b, Options{Threads: 1})
			out := k.buffer(1 << 20)
			times, groups := uint32(1000), 4
			if name == "nothing" {
				times, groups = 1<<30, 1000
			}
			n := words(b, k.Device, times)
			for b.Loop() {
				c, err := k.NewCommands()
				require.NoError(b, err)
				c.SetPipeline(k.pipelines[name])
				c.SetBuffer(0, out, 0)
				c.SetBuffer(1, n, 0)
				c.Dispatch(metal.Size{X: groups, Y: 1, Z: 1}, metal.Size{X: 128, Y: 1, Z: 1})
				c.Commit()
				_, err = c.Wait()
				require.NoError(b, err)
			}
			each := 128 * groups
			if name != "nothing" {
				each *= int(times)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(each), "ns/thread")
		})
	}
}

func BenchmarkMatmul(b *testing.B) {
	k := newBench(b, Options{})
	x, y, z := k.buffer(128*896*2), k.buffer(896*896*2), k.buffer(128*896*4)
	sizes := words(b, k.Device, 128, 896, 896)
	for b.Loop() {
		c, err := k.NewCommands()
		require.NoError(b, err)
		c.SetPipeline(k.pipelines["matmul"])
		c.SetBuffer(0, x, 0)
		c.SetBuffer(1, y, 0)
		c.SetBuffer(2, z, 0)
		c.SetBuffer(3, sizes, 0)
		c.Dispatch(metal.Size{X: 28, Y: 4, Z: 1}, metal.Size{X: 128, Y: 1, Z: 1})
		c.Commit()
		_, err = c.Wait()
		require.NoError(b, err)
	}
	b.ReportMetric(128*896*896*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
