package gpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels"
)

// shape holds the sizes of the matrices in a layer of a Qwen2.5 model.
type shape struct {
	name        string
	dim, ffn    int
	heads, kv   int // query heads, and KV heads
	vocab, head int // size of a head
	norms       bool
}

func qwens() []shape {
	return []shape{
		{"0.5B", 896, 4864, 14, 2, 151936, 64, false}, {"1.5B", 1536, 8960, 12, 2, 151936, 128, false},
		{"3B", 2048, 11008, 16, 2, 151936, 128, false}, {"7B", 3584, 18944, 28, 4, 152064, 128, false},
		{"0.6B", 1024, 3072, 16, 8, 151936, 128, true}, {"1.7B", 2048, 6144, 16, 8, 151936, 128, true},
		{"4B", 2560, 9728, 32, 8, 151936, 128, true},
	}
}

// op is a mat-vec of a layer, or the head.
type op struct {
	name       string
	outs, cols int
	c          division
}

func (s shape) ops() []op {
	matrix := func(name string, outs, cols int) op { return op{name, outs, cols, divideMatrix(outs, cols)} }
	qkv := matrix("qkv", (s.heads+2*s.kv)*s.head, s.dim)
	if s.norms {
		qkv.c = divideColumns(s.head, s.dim)
	}
	return []op{
		qkv, matrix("add of attention", s.dim, s.heads*s.head),
		matrix("gateup", 2*s.ffn, s.dim), matrix("add of feed-forward", s.dim, s.ffn),
		{"head", s.vocab, s.dim, divideHead(s.dim)},
	}
}

// underWay returns the bytes of weights that each of cores cores requests at a time: a simdgroup has one step of a
// tile, and a core has room for 16 simdgroups with 96 registers per thread.
func (o op) underWay(cores, rowBytes int) float64 {
	const room = 16
	simds := min(maxSIMDs, o.c.rows/kernels.TileRows*o.c.parts)
	each := float64(ceilDiv(o.outs, o.c.rows)*simds) / float64(cores)
	step := float64(min(kernels.StepColumns, o.cols)) * float64(rowBytes) / float64(o.cols)
	return min(each, room) * kernels.TileRows * step
}

// TestDivide: on GPUs of 8 to 20 cores every mat-vec has at least two threadgroups per core, on one of 40 at least one
// (with norms of heads one, and 0.8), and each core has 16 KB in flight (12 KB of the matrix of 896 × 896), or all of a
// smaller matrix. The busiest core computes for less time than memory needs for all weights, with the clock and the
// bandwidth per core of M4 Pro. The parts of the columns are a partition, of almost equal size.
func TestDivide(t *testing.T) {
	for _, s := range qwens() {
		for _, o := range s.ops() {
			c, groups := o.c, ceilDiv(o.outs, o.c.rows)
			assert.Zero(t, c.rows%(2*kernels.TileRows), "a pair of tiles")
			assert.True(t, c.rows >= minRows && c.rows <= maxRows)
			assert.Zero(t, c.share%kernels.TailColumns)
			assert.GreaterOrEqual(t, c.parts*c.share, o.cols)
			assert.Less(t, float64(c.parts*c.share-o.cols), 0.05*float64(c.parts*c.share), "%s %s", s.name, o.name)
			for _, cores := range []int{8, 10, 16, 20, 32, 40} {
				perCore := 2.0
				if cores > 20 || s.norms && o.name == "qkv" {
					perCore = 1
				}
				if cores > 32 && s.norms {
					perCore = 0.8
				}
				assert.GreaterOrEqual(t, float64(groups), perCore*float64(cores), "%s %s", s.name, o.name)
				for kind, instructions := range map[gguf.Type]float64{gguf.Q4_0: 2.8, gguf.Q8_0: 3.5} { // per weight
					elems, size := kind.Block()
					rowBytes := o.cols / elems * size
					want := min(16<<10, float64(o.outs*rowBytes)/float64(cores))
					switch {
					case cores > 20:
						want /= 2 // the plan is made for 20
					case o.outs == 896 && o.cols == 896:
						want *= 0.75
					}
					assert.GreaterOrEqual(t, o.underWay(cores, rowBytes), want,
						"%s %s, %s, %d cores", s.name, o.name, kind, cores)
					const lanes, clock, bandwidth = 128, 1.47, 0.83 * 273 / 20 // of a core: per cycle, GHz, GB/s
					busiest := float64(min(o.outs, ceilDiv(groups, cores)*o.c.rows) * o.cols)
					memory := float64(o.outs*rowBytes) / (bandwidth * float64(cores))
					assert.Less(t, busiest*instructions/(lanes*clock), memory, "%s %s, %s, %d cores: ns",
						s.name, o.name, kind, cores)
				}
			}
			t.Logf("%-4s %-19s %6d x %5d: %3d rows, %d parts, %3d threadgroups; 20 cores, Q4_0: %4.1f KB in flight",
				s.name, o.name, o.outs, o.cols, c.rows, c.parts, groups, o.underWay(20, o.cols/32*18)/1024)
		}
	}
}

// TestDivideAny: shapes of every size are divided into whole tiles, and all columns are in a part.
func TestDivideAny(t *testing.T) {
	for _, cols := range []int{4, 64, 512, 516, 2048, 4864, 18944} {
		for _, outs := range []int{1, 10, 639, 640, 896, 9728, 151936} {
			what := fmt.Sprintf("%d × %d", outs, cols)
			c := divideMatrix(outs, cols)
			assert.Contains(t, []int{16, 32, 64, 128, 256}, c.rows, what)
			assert.True(t, c.rows == minRows || ceilDiv(outs, c.rows) >= fewest, what)
			assert.GreaterOrEqual(t, c.parts*c.share, cols, what)
			assert.LessOrEqual(t, c.rows/kernels.TileRows*c.parts, max(maxSIMDs, c.rows/kernels.TileRows), what)
		}
	}
}
