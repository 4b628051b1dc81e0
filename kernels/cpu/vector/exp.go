package vector

import "math"

// The exponential of every variant: with n = round(x/ln 2) and r = x - n·ln 2 in [-ln 2/2, ln 2/2], eˣ = 2ⁿ·(1 + r +
// r²·p(r)). p has degree 4 and is the minimax fit of (eʳ-1-r)/r² in the relative error of eʳ, found by Remez' exchange:
// 3.8e-9 with the coefficients in float32, so that rounding dominates. Relative error below 2e-7; results below 1.2e-38
// are subnormal and within 1.5e-45; infinities and NaN give the correct results.
const (
	expLog2e = 0x1.715476p+0 // 1/ln 2
	expLn2Hi = 0x1.62e4p-1   // the first 15 bits of ln 2: n·expLn2Hi is exact
	expLn2Lo = 0x1.7f7d1cp-20
	expP0    = 0x1.fffffcp-2
	expP1    = 0x1.555492p-3
	expP2    = 0x1.5558f2p-5
	expP3    = 0x1.1239f2p-7
	expP4    = 0x1.6a241ap-10
	expMin   = -105 // below: zero
	expMax   = 89   // above: infinity
)

// Exp sets dst[i] = exp(x[i]), relative error below 2e-7. dst may be x, or must not overlap it.
func Exp(dst, x []float32) {
	if len(x) > 0 {
		inUse().exp(dst[:len(x)], x, 0)
	}
}

// SwiGLU sets dst[i] = silu(gate[i])·up[i], where silu(g) = g/(1+exp(-g)). dst may be gate or up.
func SwiGLU(dst, gate, up []float32) {
	if len(gate) > 0 {
		inUse().swiGLU(dst[:len(gate)], gate, up[:len(gate)])
	}
}

// Gate sets dst[i] = x[i]·sigmoid(gate[i]), where sigmoid(g) = 1/(1+exp(-g)). dst may be x or gate.
func Gate(dst, x, gate []float32) {
	if len(x) > 0 {
		inUse().gate(dst[:len(x)], x, gate[:len(x)])
	}
}

// SumExp returns Σ e and Σ e·x for e = exp(x[i] - top), summed in float64, where top is usually the largest of all
// logits. From the sums over the parts of a vocabulary: log Σ exp(x) = top + log(sum), and the entropy is that minus
// sumX/sum. If an x is not finite, sum and sumX are NaN or infinite.
func SumExp(x []float32, top float32) (sum, sumX float64) {
	if len(x) == 0 {
		return 0, 0
	}
	return inUse().sumExp(x, top)
}

func exp32(x float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, expMin), expMax)
	n := float32(math.RoundToEven(float64(float32(x * expLog2e))))
	r := float32(x-float32(n*expLn2Hi)) - float32(n*expLn2Lo)
	p := float32(expP4)
	p = float32(p*r) + expP3
	p = float32(p*r) + expP2
	p = float32(p*r) + expP1
	p = float32(p*r) + expP0
	p = float32(float32(p*r)*r) + r + 1
	half := int32(n) >> 1 // 2ⁿ in two factors, as n reaches beyond the exponents of float32
	return p * power2(half) * power2(int32(n)-half)
}

// power2 returns 2ⁿ for -126 ≤ n ≤ 127.
func power2(n int32) float32 { return math.Float32frombits(uint32(n+127) << 23) }

// expGeneric sets dst[i] = exp(x[i] - bias). dst may be x.
func expGeneric(dst, x []float32, bias float32) {
	for i, v := range x {
		dst[i] = exp32(v - bias)
	}
}

// swiGLUGeneric sets dst[i] = gate[i]/(1+exp(-gate[i]))·up[i]. dst may be gate or up.
func swiGLUGeneric(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = g / (1 + exp32(-g)) * up[i]
	}
}

// gateGeneric sets dst[i] = x[i]/(1+exp(-gate[i])). dst may be x or gate.
func gateGeneric(dst, x, gate []float32) {
	for i, g := range gate {
		dst[i] = x[i] / (1 + exp32(-g))
	}
}

// sumExpGeneric returns Σ e and Σ e·x for e = exp(x[i] - top), in float64.
func sumExpGeneric(x []float32, top float32) (sum, sumX float64) {
	for _, v := range x {
		e := float64(exp32(v - top))
		sum += e
		sumX += e * float64(v)
	}
	return sum, sumX
}
