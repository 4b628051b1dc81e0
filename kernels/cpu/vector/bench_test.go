package vector

import (
	"testing"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
)

// BenchmarkVector measures the work besides the products, at the sizes of one row.
func BenchmarkVector(b *testing.B) {
	for _, k := range all() {
		in := kerneltest.NewInputs(b, 1, 0)
		x, up, dst := in.Floats(4864), in.Floats(4864), make([]float32, 4864)
		const blocks = 256 / KeyBlock
		logits := in.Floats(151936)
		keys := make([]uint16, 256*128) // of two heads of 64
		scores, sums := make([]float32, Queries*256), make([]float32, Queries*64)
		for name, f := range map[string]func(){
			"swiGLU":  func() { k.swiGLU(dst, x, up) },
			"sumExp":  func() { k.sumExp(logits, 5) },
			"scores":  func() { k.scoresF16(scores, 256, x[:Queries*64], halfBytes(keys), 2*KeyBlock*128, blocks) },
			"mix":     func() { k.mixF16(sums, scores, 256, 256, halfBytes(keys), 2*128) },
			"softmax": func() { k.softmax(scores) },
			"above":   func() { k.above(logits, 1e9) },
			"rmsNorm": func() { k.rmsNorm(dst[:896], x[:896], up[:896], 1e-6) },
			"rope":    func() { k.rope(dst[:1024], up[:32], up[32:64]) },
		} {
			b.Run(k.set+"/"+name, func(b *testing.B) {
				for b.Loop() {
					f()
				}
			})
		}
	}
}
