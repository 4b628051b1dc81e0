package cpu

import "math"

// Lengths that the leaves of [RMSNorm] (x) and [Rope] (half a head) take are multiples of these; others go through plain Go.
const (
	normPad = 16
	ropePad = 8
)

// Exp sets dst[i] = exp(x[i]), relative error below 2e-7. dst may be x, or must not overlap it.
func Exp(dst, x []float32) {
	if len(x) > 0 {
		kernelsInUse().exp(dst[:len(x)], x, 0)
	}
}

// RMSNorm sets dst[i] = g[i]·x[i]/√(Σx²/n + eps), summing in float64. All have length n. dst may be x.
func RMSNorm(dst, x, g []float32, eps float32) {
	dst, g = dst[:len(x)], g[:len(x)]
	if len(x) == 0 || len(x)%normPad != 0 {
		rmsNormGeneric(dst, x, g, eps)
		return
	}
	kernelsInUse().rmsNorm(dst, x, g, eps)
}

// SwiGLU sets dst[i] = silu(gate[i])·up[i], where silu(g) = g/(1+exp(-g)). dst may be gate or up.
func SwiGLU(dst, gate, up []float32) {
	if len(gate) > 0 {
		kernelsInUse().swiGLU(dst[:len(gate)], gate, up[:len(gate)])
	}
}

// Rope turns heads in place: in each, the pairs (x[i], x[i+Dh/2]) by the angle whose cosine and sine are cos[i] and sin[i]. x is [heads, Dh],
// cos and sin are [Dh/2].
func Rope(x, cos, sin []float32) {
	half := len(cos)
	sin = sin[:half]
	switch {
	case half == 0 || len(x)%(2*half) != 0:
		panic("cpu: Rope of a part of a head")
	case len(x) == 0:
	case half%ropePad != 0:
		ropeGeneric(x, cos, sin)
	default:
		kernelsInUse().rope(x, cos, sin)
	}
}

// Above returns the place of the first of x that is larger than bar, len(x) if there is none. NaN is not larger.
func Above(x []float32, bar float32) int {
	if len(x) == 0 {
		return 0
	}
	return kernelsInUse().above(x, bar)
}

// ToF16 sets dst[i] to src[i] in half precision, rounded to nearest even.
func ToF16(dst []uint16, src []float32) {
	if len(src) > 0 {
		kernelsInUse().toF16(dst[:len(src)], src)
	}
}

// Max returns the largest of x, -Inf if there is none, NaN if one is NaN.
func Max(x []float32) float32 {
	a := float32(math.Inf(-1))
	b, c, d := a, a, a
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = max(a, x[0]), max(b, x[1]), max(c, x[2]), max(d, x[3])
	}
	for _, v := range x {
		a = max(a, v)
	}
	return max(max(a, b), max(c, d))
}

// SumExp returns Σ e and Σ e·x for e = exp(x[i] - top), summed in float64, where top is usually the largest of all logits. From the
// sums over the parts of a vocabulary: log Σ exp(x) = top + log(sum), and the entropy is that minus sumX/sum. Every x is finite
// or sum and sumX are NaN or infinite.
func SumExp(x []float32, top float32) (sum, sumX float64) {
	if len(x) == 0 {
		return 0, 0
	}
	return kernelsInUse().sumExp(x, top)
}

// rmsNormGeneric is RMSNorm.
func rmsNormGeneric(dst, x, g []float32, eps float32) {
	scale := float32(1 / math.Sqrt(dotExact(x, x)/float64(len(x))+float64(eps)))
	for i, v := range x {
		dst[i] = v * scale * g[i]
	}
}

// ropeGeneric is Rope.
func ropeGeneric(x, cos, sin []float32) {
	for half := len(cos); len(x) > 0; x = x[2*half:] {
		a, b := x[:half], x[half:2*half]
		for i := range a {
			u, v := a[i], b[i]
			a[i] = float32(u*cos[i]) - float32(v*sin[i])
			b[i] = float32(v*cos[i]) + float32(u*sin[i])
		}
	}
}

// aboveGeneric is Above.
func aboveGeneric(x []float32, bar float32) int {
	for i, v := range x {
		if v > bar {
			return i
		}
	}
	return len(x)
}
