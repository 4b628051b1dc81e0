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

func words(v ...uint32) (b []byte) {
	for _, x := range v {
		b = binary.NativeEndian.AppendUint32(b, x)
	}
	return b
}

// A mat-vec of each shape of Qwen2.5-0.5B, as often as a token needs it: 494 million weights.
func BenchmarkToken(b *testing.B) {
	k := newBench(b, Options{})
	w, x, y := k.buffer(151936*28*34), k.buffer(4864*4), k.buffer(151936*4)
	shapes := []struct{ rows, columns, times uint32 }{
		{896, 896, 48}, {128, 896, 48}, {4864, 896, 48}, {896, 4864, 24}, {151936, 896, 1},
	}
	macs := 0
	for b.Loop() {
		c, err := k.NewCommands()
		require.NoError(b, err)
		c.SetPipeline(k.pipelines["matvec4"])
		c.SetBuffer(0, w, 0)
		c.SetBuffer(1, x, 0)
		c.SetBuffer(2, y, 0)
		for _, s := range shapes {
			c.SetBytes(3, words(s.rows, s.columns))
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
	for _, n := range []string{"barriers", "sums", "nothing"} {
		b.Run(n, func(b *testing.B) {
			k := newBench(b, Options{Threads: 1})
			out := k.buffer(1 << 20)
			times, groups := uint32(1000), 4
			if n == "nothing" {
				times, groups = 1<<30, 1000
			}
			for b.Loop() {
				c, err := k.NewCommands()
				require.NoError(b, err)
				c.SetPipeline(k.pipelines[n])
				c.SetBuffer(0, out, 0)
				c.SetBytes(1, words(times))
				c.Dispatch(metal.Size{X: groups, Y: 1, Z: 1}, metal.Size{X: 128, Y: 1, Z: 1})
				c.Commit()
				_, err = c.Wait()
				require.NoError(b, err)
			}
			each := 128 * groups
			if n != "nothing" {
				each *= int(times)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(each), "ns/thread")
		})
	}
}

func BenchmarkMatmul(b *testing.B) {
	k := newBench(b, Options{})
	x, y, z := k.buffer(128*896*2), k.buffer(896*896*2), k.buffer(128*896*4)
	for b.Loop() {
		c, err := k.NewCommands()
		require.NoError(b, err)
		c.SetPipeline(k.pipelines["matmul"])
		c.SetBuffer(0, x, 0)
		c.SetBuffer(1, y, 0)
		c.SetBuffer(2, z, 0)
		c.SetBytes(3, words(128, 896, 896))
		c.Dispatch(metal.Size{X: 28, Y: 4, Z: 1}, metal.Size{X: 128, Y: 1, Z: 1})
		c.Commit()
		_, err = c.Wait()
		require.NoError(b, err)
	}
	b.ReportMetric(128*896*896*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
