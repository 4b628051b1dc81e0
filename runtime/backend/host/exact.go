package host

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// ops are the operations of a pass that exist twice: fast, and as the reference.
type ops struct {
	matmul  func(dst []float32, stride int, m cpu.Matrix, lo, hi int, x *cpu.Acts, add bool, sc *cpu.Scratch)
	swiGLU  func(dst, gate, up []float32)
	softmax func(x []float32)
	sumExp  func(x []float32, top float32) (sum, sumX float64)
}

func fastOps() ops {
	return ops{matmul: cpu.MatMul, swiGLU: cpu.SwiGLU, softmax: cpu.Softmax, sumExp: cpu.SumExp}
}

// exactOps are plain Go in float64, rounded to float32 where results are stored.
func exactOps() ops {
	return ops{matmul: cpu.MatMulExact, swiGLU: swiGLU, softmax: softmax, sumExp: sumExp}
}

// swiGLU sets dst[i] = g/(1+exp(-g))·up[i] for g = gate[i].
func swiGLU(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = float32(float64(g) / (1 + math.Exp(-float64(g))) * float64(up[i]))
	}
}

// softmax sets x[i] = exp(x[i]-max)/Σ exp(x[j]-max).
func softmax(x []float32) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v)-top) / sum)
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

// exactRows is the float32 layer with both products in plain Go and float64.
type exactRows struct{ *rows[float32] }

func (r exactRows) scores(dst, q []float32, off int, see []backend.Span) {
	i := 0
	for _, s := range see {
		for slot := s.From; slot < s.To; slot++ {
			lo, _ := r.at(slot)
			sum := 0.0
			for j, x := range q {
				sum += float64(x) * float64(r.k[lo+off+j])
			}
			dst[i] = float32(sum)
			i++
		}
	}
}

func (r exactRows) mix(a, p []float32, off int, see []backend.Span) {
	for j := range a {
		i, sum := 0, 0.0
		for _, s := range see {
			for slot := s.From; slot < s.To; slot++ {
				lo, _ := r.at(slot)
				sum += float64(p[i]) * float64(r.v[lo+off+j])
				i++
			}
		}
		a[j] = float32(sum)
	}
}
