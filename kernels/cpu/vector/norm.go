package vector

import "math"

// normPad is the number of elements of which the assembly takes a multiple; other lengths are computed in plain Go.
const normPad = 16

// RMSNorm sets dst[i] = g[i]·x[i]/√(Σx²/n + eps), summing in float64. All have length n. dst may be x.
func RMSNorm(dst, x, g []float32, eps float32) {
	dst, g = dst[:len(x)], g[:len(x)]
	if len(x) == 0 || len(x)%normPad != 0 {
		rmsNormGeneric(dst, x, g, eps)
		return
	}
	inUse().rmsNorm(dst, x, g, eps)
}

func rmsNormGeneric(dst, x, g []float32, eps float32) {
	scale := float32(1 / math.Sqrt(Dot64(x, x)/float64(len(x))+float64(eps)))
	for i, v := range x {
		dst[i] = v * scale * g[i]
	}
}

// Dot64 returns Σ w[i]·x[i], summed in float64, in four sums that are added at the end. Both have the same length.
func Dot64(w, x []float32) float64 {
	var a, b, c, d float64
	x = x[:len(w)]
	i := 0
	for ; i+4 <= len(w); i += 4 {
		a += float64(w[i]) * float64(x[i])
		b += float64(w[i+1]) * float64(x[i+1])
		c += float64(w[i+2]) * float64(x[i+2])
		d += float64(w[i+3]) * float64(x[i+3])
	}
	for ; i < len(w); i++ {
		a += float64(w[i]) * float64(x[i])
	}
	return (a + b) + (c + d)
}
