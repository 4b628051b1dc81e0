package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

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

// BenchmarkDecode multiplies one token with weights from memory: compare its MB/s with BenchmarkRead.
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
	for _, k := range variants() {
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

// BenchmarkFew multiplies 1, 2, 4 and 8 tokens, one after the other, with weights from memory, on one thread and on
// two: lower quartiles of the time of one token, and the relative time of several. It needs -benchtime 60x or more.
func BenchmarkFew(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, typ := range benchTypes {
			for _, s := range [][2]int{{4864, 1024}, {1024, 4864}} {
				b.Run(fmt.Sprintf("%d/%v/%dx%d", threads, typ, s[1], s[0]), func(b *testing.B) {
					in := newInputs(b, 1, 0)
					benchFew(b, in, far(in.matrix(typ, s[0], s[1])), threads)
				})
			}
		}
	}
}

func benchFew(b *testing.B, in *inputs, all []Matrix, threads int) {
	workers := pool.New(threads)
	defer workers.Close()
	batches := []int{1, 2, 4, 8}
	took := make([][]float64, len(batches))
	x := make([]*Acts, len(batches))
	for i, n := range batches {
		x[i] = in.input(n, all[0].Cols)
	}
	dst := make([]float32, 8*all[0].Rows)
	scratch := make([]Scratch, threads)
	workers.Begin()
	defer workers.End()
	for round := 0; b.Loop(); round++ {
		for i := range batches {
			m := all[(round*len(batches)+i)%len(all)]
			start := time.Now()
			workers.Run(m.Rows, 32, func(w, lo, hi int) { MatMul(dst, m.Rows, m, lo, hi, x[i], false, &scratch[w]) })
			took[i] = append(took[i], float64(time.Since(start).Microseconds()))
		}
	}
	for i, n := range batches {
		slices.Sort(took[i])
		took[i][0] = took[i][len(took[i])/4]
		b.ReportMetric(took[i][0]/took[0][0], fmt.Sprintf("x%d", n))
	}
	b.ReportMetric(took[0][0], "µs/token")
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

// BenchmarkRead measures the bound of BenchmarkDecode.
func BenchmarkRead(b *testing.B) {
	p := make([]byte, 512<<20)
	for i := range p {
		p[i] = byte(i)
	}
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			best := 0.0
			for b.Loop() {
				best = max(best, ReadBandwidth(threads, p))
			}
			b.ReportMetric(best/1e9, "GB/s")
		})
	}
}

// BenchmarkRound rounds the activations of one token.
func BenchmarkRound(b *testing.B) {
	for _, k := range variants() {
		a := newInputs(b, 1, 0).input(1, 4864)
		b.Run(k.name, func(b *testing.B) {
			for b.Loop() {
				callRound(k.round, a.Q, a.D, a.S, a.H, a.F)
			}
		})
	}
}

// BenchmarkPeak measures the bound of BenchmarkTokens.
func BenchmarkPeak(b *testing.B) {
	for _, k := range variants() {
		for name, p := range map[string]peak{"bytes": k.peakBytes, "floats": k.peakFloats} {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					p.run(1 << 12)
				}
				b.ReportMetric(float64(p.macs)*(1<<12)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}
