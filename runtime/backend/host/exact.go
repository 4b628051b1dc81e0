package host

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
)

// ops are the operations of a pass with two implementations: a fast one, and the reference.
type ops struct {
	matmul func(dst []float32, stride int, m cpu.Matrix, lo, hi int, x *cpu.Acts, add bool, sc *cpu.Scratch)
	swiGLU func(dst, gate, up []float32)
	gate   func(dst, x, gate []float32)
	sumExp func(x []float32, top float32) (sum, sumX float64)
	delta  deltaRule
}

func fastOps() ops {
	return ops{
		matmul: cpu.MatMul, swiGLU: vector.SwiGLU, gate: vector.Gate, sumExp: vector.SumExp, delta: fastDeltaRule(),
	}
}

// exactOps are plain Go in float64, rounded to float32 where results are stored.
func exactOps() ops {
	return ops{matmul: cpu.MatMulExact, swiGLU: swiGLU, gate: gate, sumExp: sumExp, delta: exactDeltaRule()}
}

// swiGLU sets dst[i] = g/(1+exp(-g))·up[i] for g = gate[i].
func swiGLU(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = float32(float64(g) / (1 + math.Exp(-float64(g))) * float64(up[i]))
	}
}

// gate sets dst[i] = x[i]/(1+exp(-g)) for g = gate[i].
func gate(dst, x, gate []float32) {
	for i, g := range gate[:len(dst)] {
		dst[i] = float32(float64(x[i]) / (1 + math.Exp(-float64(g))))
	}
}

// sumExp returns Σ e and Σ e·x for e = exp(x[i]-top).
func sumExp(x []float32, top float32) (sum, sumX float64) {
	for _, v := range x {
		e := math.Exp(float64(v) - float64(top))
		sum += e
		sumX += e * float64(v)
	}
	return sum, sumX
}
