package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// shapes are the [rows, cols] of the weights of Qwen2.5-0.5B.
var shapes = [][2]int{{896, 896}, {128, 896}, {4864, 896}, {896, 4864}, {151936, 896}}

var benchTypes = []gguf.Type{gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.F16, gguf.F32}

// far returns enough copies of m that going through them reads memory and not caches.
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

// BenchmarkDecode is one row of activations through weights from memory: MB/s against BenchmarkRead.
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

// BenchmarkRows is 1 to 512 rows of activations through one matrix on one thread: ns/row.
func BenchmarkRows(b *testing.B) {
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

// BenchmarkFew is 1, 2, 4 and 8 rows of activations in turn through weights from memory, on one thread and on two: lower quartiles of
// the time of one row, and of what several cost in terms of that. It wants -benchtime 60x or more.
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
	pool := NewPool(threads)
	defer pool.Close()
	batches := []int{1, 2, 4, 8}
	took := make([][]float64, len(batches))
	x := make([]*Acts, len(batches))
	for i, n := range batches {
		x[i] = in.input(n, all[0].Cols)
	}
	dst := make([]float32, 8*all[0].Rows)
	scratch := make([]Scratch, threads)
	pool.Begin()
	defer pool.End()
	for turn := 0; b.Loop(); turn++ {
		for i := range batches {
			m := all[(turn*len(batches)+i)%len(all)]
			start := time.Now()
			pool.Run(m.Rows, 32, func(w, lo, hi int) { MatMul(dst, m.Rows, m, lo, hi, x[i], false, &scratch[w]) })
			took[i] = append(took[i], float64(time.Since(start).Microseconds()))
		}
	}
	for i, n := range batches {
		slices.Sort(took[i])
		took[i][0] = took[i][len(took[i])/4]
		b.ReportMetric(took[i][0]/took[0][0], fmt.Sprintf("x%d", n))
	}
	b.ReportMetric(took[0][0], "µs/row")
}

func benchMatMul(b *testing.B, all []Matrix, x *Acts, threads int) {
	m := all[0]
	pool := NewPool(threads)
	defer pool.Close()
	dst := make([]float32, x.T*m.Rows)
	scratch := make([]Scratch, threads)
	i := 0
	work := func(w, lo, hi int) { MatMul(dst, m.Rows, all[i%len(all)], lo, hi, x, false, &scratch[w]) }
	grain := max(16, 32<<10/m.RowBytes()&^15)
	b.SetBytes(int64(len(m.Data)))
	pool.Begin()
	defer pool.End()
	for b.Loop() {
		pool.Run(m.Rows, grain, work)
		i++
	}
}

// BenchmarkRead is the bound of BenchmarkDecode.
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

// BenchmarkVector is the work beside the products, at the sizes of one row.
func BenchmarkVector(b *testing.B) {
	for _, k := range variants() {
		in := newInputs(b, 1, 0)
		x, up, dst := in.floats(4864), in.floats(4864), make([]float32, 4864)
		logits := in.floats(151936)
		a := in.input(1, 4864)
		keys := make([]uint16, 256*128) // of two heads of 64
		scores, sums := make([]float32, Queries*256), make([]float32, Queries*64)
		for name, f := range map[string]func(){
			"swiGLU":  func() { k.swiGLU(dst, x, up) },
			"round":   func() { k.round(a.Q, a.D, a.S, a.H, a.F) },
			"sumExp":  func() { k.sumExp(logits, 5) },
			"scores":  func() { k.scoresF16(scores, 256, x[:Queries*64], halfBytes(keys), 2*KeyBlock*128, 256/KeyBlock) },
			"mix":     func() { k.mixF16(sums, scores, 256, 256, halfBytes(keys), 2*128) },
			"softmax": func() { k.softmax(scores) },
			"above":   func() { k.above(logits, 1e9) },
			"rmsNorm": func() { k.rmsNorm(dst[:896], x[:896], up[:896], 1e-6) },
			"rope":    func() { k.rope(dst[:1024], up[:32], up[32:64]) },
		} {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					f()
				}
			})
		}
	}
}

// BenchmarkRun is the cost of a loop that does nothing.
func BenchmarkRun(b *testing.B) {
	for _, pass := range []bool{true, false} {
		b.Run(fmt.Sprintf("pass=%v", pass), func(b *testing.B) {
			p := NewPool(2)
			defer p.Close()
			if pass {
				p.Begin()
				defer p.End()
			}
			f := func(_, _, _ int) {}
			b.ReportAllocs()
			for b.Loop() {
				p.Run(2, 1, f)
			}
		})
	}
}

// BenchmarkPeak is the bound of BenchmarkRows.
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
