package cpu

import "math"

// Exp sets dst[i] = exp(x[i]), relative error below 2e-7. dst may be x, or must not overlap it.
func Exp(dst, x []float32) {
	if len(x) > 0 {
		kernelsInUse().exp(dst[:len(x)], x, 0)
	}
}

// RMSNorm sets dst[i] = g[i]·x[i]/√(Σx²/n + eps), summing in float64. All have length n. dst may be x.
func RMSNorm(dst, x, g []float32, eps float32) {
	dst, g = dst[:len(x)], g[:len(x)]
	scale := float32(1 / math.Sqrt(dotExact(x, x)/float64(len(x))+float64(eps)))
	for i, v := range x {
		dst[i] = v * scale * g[i]
	}
}

// SwiGLU sets dst[i] = silu(gate[i])·up[i], where silu(g) = g/(1+exp(-g)). dst may be gate or up.
func SwiGLU(dst, gate, up []float32) {
	if len(gate) > 0 {
		kernelsInUse().swiGLU(dst[:len(gate)], gate, up[:len(gate)])
	}
}

// Rope turns one head in place: each pair (x[i], x[i+Dh/2]) by the angle whose cosine and sine are cos[i] and sin[i]. x is [Dh], cos and
// sin are [Dh/2].
func Rope(x []float32, cos, sin []float32) {
	h := len(x) / 2
	a, b := x[:h], x[h:2*h]
	cos, sin = cos[:h], sin[:h]
	for i := range a {
		u, v := a[i], b[i]
		a[i] = float32(u*cos[i]) - float32(v*sin[i])
		b[i] = float32(v*cos[i]) + float32(u*sin[i])
	}
}

// DotF32 returns Σ x[i]·k[i], of any length, summed in float32.
func DotF32(x, k []float32) float32 {
	var dst [1]float32
	DotsF32(dst[:], x, k, len(x))
	return dst[0]
}

// DotF16 returns Σ x[i]·k[i] for k in half precision, of any length, summed in float32.
func DotF16(x []float32, k []uint16) float32 {
	var dst [1]float32
	DotsF16(dst[:], x, k, len(x))
	return dst[0]
}

// DotsF32 sets dst[j] = Σᵢ x[i]·k[j·stride+i] for every j: the scores of a query against len(dst) keys that lie stride elements apart.
// Each is what [DotF32] returns. dst must not overlap x or k.
func DotsF32(dst, x, k []float32, stride int) {
	if len(dst) > 0 && fits(len(k), len(dst), stride, len(x)) {
		kernelsInUse().rowsF32(dst, bytesOf(k), 4*stride, x)
	} else {
		clear(dst)
	}
}

// DotsF16 is [DotsF32] for keys in half precision.
func DotsF16(dst, x []float32, k []uint16, stride int) {
	if len(dst) > 0 && fits(len(k), len(dst), stride, len(x)) {
		kernelsInUse().rowsF16(dst, halfBytes(k), 2*stride, x)
	} else {
		clear(dst)
	}
}

// AxpyF32 sets acc[i] += p·v[i]. acc must not overlap v.
func AxpyF32(acc []float32, p float32, v []float32) {
	ps := [1]float32{p}
	AxpysF32(acc, ps[:], v, len(acc))
}

// AxpyF16 sets acc[i] += p·v[i] for v in half precision.
func AxpyF16(acc []float32, p float32, v []uint16) {
	ps := [1]float32{p}
	AxpysF16(acc, ps[:], v, len(acc))
}

// AxpysF32 sets acc[i] += Σⱼ p[j]·v[j·stride+i], j ascending: the weighted sum of len(p) values that lie stride elements apart. It
// gives what len(p) calls of [AxpyF32] give. acc must not overlap p or v.
func AxpysF32(acc, p, v []float32, stride int) {
	if len(p) > 0 && fits(len(v), len(p), stride, len(acc)) {
		kernelsInUse().axpyF32(acc, p, bytesOf(v), 4*stride)
	}
}

// AxpysF16 is [AxpysF32] for values in half precision.
func AxpysF16(acc, p []float32, v []uint16, stride int) {
	if len(p) > 0 && fits(len(v), len(p), stride, len(acc)) {
		kernelsInUse().axpyF16(acc, p, halfBytes(v), 2*stride)
	}
}

// fits reports whether there is anything to read in rows of width elements, and panics if they reach beyond have elements.
func fits(have, rows, stride, width int) bool {
	if stride < 0 || (rows-1)*stride+width > have {
		panic("cpu: rows reach beyond the slice")
	}
	return width > 0
}

// ToF16 sets dst[i] to src[i] in half precision, rounded to nearest even.
func ToF16(dst []uint16, src []float32) {
	if len(src) > 0 {
		kernelsInUse().toF16(dst[:len(src)], src)
	}
}

// Softmax sets x[i] = exp(x[i]-max x)/Σⱼ exp(x[j]-max x) in place. An entry of -Inf gives 0.
func Softmax(x []float32) {
	if len(x) == 0 {
		return
	}
	kernelsInUse().exp(x, x, Max(x))
	var a, b, c, d float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a += float64(x[i])
		b += float64(x[i+1])
		c += float64(x[i+2])
		d += float64(x[i+3])
	}
	for ; i < len(x); i++ {
		a += float64(x[i])
	}
	inv := float32(1 / ((a + b) + (c + d)))
	for i := range x {
		x[i] *= inv
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
