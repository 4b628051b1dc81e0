package cpu

import (
	"fmt"
	"testing"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
)

// shapes are the [rows, cols] of the weights of Qwen2.5-0.5B.
var shapes = [][2]int{{896, 896}, {128, 896}, {4864, 896}, {896, 4864}, {151936, 896}}

var benchTypes = []block.Type{
	block.Q8_0, block.Q4_0, block.Q5_0, block.Q4_K, block.Q5_K, block.Q6_K, block.F16, block.F32,
}

// far returns enough copies of m that reading them in turn reads memory instead of caches.
func far(m Matrix) []Matrix {
	copies := max(1, 256<<20/len(m.Data))
	data := make([]byte, copies*len(m.Data))
	all := make([]Matrix, copies)
	for i := range all {
		all[i] = m
		all[i].Data = data[i*len(m.Data):][:len(m.Data)]
		copy(all[i].Data, m.Data)
	}
	return all
}

// BenchmarkDecode multiplies one token with weights from memory.
func BenchmarkDecode(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, typ := range benchTypes {
			for _, s := range shapes {
				if elems, _ := typ.Block(); s[1]%elems != 0 {
					continue
				}
				b.Run(fmt.Sprintf("%d/%v/%dx%d", threads, typ, s[1], s[0]), func(b *testing.B) {
					in := newInputs(b, 1, 0)
					benchMatMul(b, far(in.matrix(typ, s[0], s[1])), in.input(1, s[1]), threads)
				})
			}
		}
	}
}

// BenchmarkTokens multiplies 1 to 512 tokens with one matrix on one thread.
func BenchmarkTokens(b *testing.B) {
	for _, k := range offeredKernels() {
		for _, typ := range benchTypes {
			for _, batch := range []int{1, 2, 4, 8, 64, 512} {
				if k.name == "generic" && batch > 4 {
					continue
				}
				b.Run(fmt.Sprintf("%s/%v/%d", k.name, typ, batch), func(b *testing.B) {
					in := newInputs(b, 1, 0)
					const rows, cols = 1024, 1024
					m := in.matrix(typ, rows, cols)
					x := in.input(batch, cols)
					dst := make([]float32, batch*rows)
					var sc Scratch
					for b.Loop() {
						k.matMul(dst, rows, m, 0, rows, x, false, &sc)
					}
					macs := float64(rows * cols * batch)
					b.ReportMetric(macs*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
				})
			}
		}
	}
}

func benchMatMul(b *testing.B, all []Matrix, x *Acts, threads int) {
	m := all[0]
	workers := pool.New(threads)
	defer workers.Close()
	dst := make([]float32, x.T*m.Rows)
	scratch := make([]Scratch, threads)
	i := 0
	work := func(w, lo, hi int) { MatMul(dst, m.Rows, all[i%len(all)], lo, hi, x, false, &scratch[w]) }
	grain := max(16, 32<<10/m.RowBytes()&^15)
	b.SetBytes(int64(len(m.Data)))
	workers.Begin()
	defer workers.End()
	for b.Loop() {
		workers.Run(m.Rows, grain, work)
		i++
	}
}

// BenchmarkRound rounds the activations of one token.
func BenchmarkRound(b *testing.B) {
	for _, k := range offeredKernels() {
		a := newInputs(b, 1, 0).input(1, 4864)
		b.Run(k.name, func(b *testing.B) {
			for b.Loop() {
				callRound(k.round, a.Q, a.D, a.S, a.H, a.F)
			}
		})
	}
}
