package block

import "math"

// The K formats leave the choice of scales to the writer. Here each group tries several roundings of its elements to
// integers. For each rounding, least squares gives the scale (and the minimum); the rounding with the smallest squared
// error wins. After that the scales are rounded to the integers of the block, and the elements are rounded once more
// with the rounded scales. Conversions around products prevent their fusion with a sum, which some machines do and
// others do not.

const fitSteps = 10 // roundings tried on either side of the obvious one

func quantQ4K(b []byte, x *[256]float32) bool {
	var scale, min [8]float32
	var topScale, topMin float32
	for j := range 8 {
		scale[j], min[j] = fitScaleMin((*[32]float32)(x[32*j:]))
		topScale, topMin = max(topScale, scale[j]), max(topMin, min[j])
	}
	if !putHalf(b, topScale/63) || !putHalf(b[2:], topMin/63) {
		return false
	}
	d, m, packed := readHalf(b), readHalf(b[2:]), (*[12]byte)(b[4:])
	*packed = [12]byte{}
	for j := range 8 {
		s, lo := roundIn(float32(scale[j]*inverseOrZero(d)), 0, 63), roundIn(float32(min[j]*inverseOrZero(m)), 0, 63)
		putScaleMinK(packed, j, byte(s), byte(lo))
		ds, ms := d*float32(s), float32(m*float32(lo))
		inv, shift := inverseOrZero(ds), j%2*4
		out, in := (*[32]byte)(b[16+j/2*32:]), (*[32]float32)(x[32*j:])
		for l, v := range in {
			out[l] = out[l]&(0xf0>>shift) | byte(roundIn(float32((v+ms)*inv), 0, 15))<<shift
		}
	}
	return true
}

// putScaleMinK adds scale and minimum of group j to bytes that were zero: the inverse of scaleMinK.
func putScaleMinK(b *[12]byte, j int, scale, min byte) {
	if j < 4 {
		b[j] |= scale
		b[j+4] |= min
		return
	}
	b[j+4] = scale&15 | min<<4
	b[j-4] |= scale >> 4 << 6
	b[j] |= min >> 4 << 6
}

// fitScaleMin returns scale and min, neither negative, such that scale·q - min with q of 0 to 15 is near x.
func fitScaleMin(x *[32]float32) (scale, min float32) {
	lo, hi := minMax(x)
	if lo > 0 {
		lo = 0
	}
	scale, min = (hi-lo)/15, -lo
	if !(hi > lo) {
		return 0, min
	}
	var sx, sxx float64
	for _, v := range x {
		sx += float64(v)
		sxx += float64(v) * float64(v)
	}
	best := math.Inf(1)
	for step := -fitSteps; step <= fitSteps; step++ {
		inv := (15 + float32(0.1*float32(step))) / (hi - lo)
		var q1, q2 int32 // Σq, Σq²
		var xq float32   // Σxq
		for _, v := range x {
			q := roundIn(float32((v-lo)*inv), 0, 15)
			q1 += q
			q2 += q * q
			xq += float32(v * float32(q))
		}
		if s, o, e := solveLine(sx, sxx, float64(xq), float64(q1), float64(q2)); e < best {
			best, scale, min = e, float32(s), float32(-o)
		}
	}
	return scale, min
}

// solveLine returns the scale, the offset of at most 0, and the squared error of the line scale·q + offset of least
// squared error through 32 points (q, x), from the sums Σx, Σx², Σxq, Σq, Σq².
func solveLine(sx, sxx, xq, q1, q2 float64) (scale, offset, e float64) {
	const n = 32
	det := n*q2 - q1*q1 // integers: exact
	if det <= 0 {       // all q are equal
		return 0, 0, math.Inf(1)
	}
	scale, offset = (n*xq-float64(sx*q1))/det, (float64(q2*sx)-float64(q1*xq))/det
	if offset > 0 {
		scale, offset = xq/q2, 0
	}
	if scale < 0 {
		return 0, 0, math.Inf(1)
	}
	e = sxx + float64(scale*(float64(scale*q2)-2*xq)) + float64(offset*(float64(n*offset)-2*sx)) +
		float64(2*scale*offset*q1)
	return scale, offset, e
}

func quantQ6K(b []byte, x *[256]float32) bool {
	var scale [16]float32
	var top float32 // scale farthest from zero
	for i := range scale {
		scale[i] = fitScale((*[16]float32)(x[16*i:]))
		if math.Abs(float64(scale[i])) > math.Abs(float64(top)) {
			top = scale[i]
		}
	}
	if !putHalf(b[208:], top/-128) {
		return false
	}
	d := readHalf(b[208:])
	clear(b[:192])
	for i, s := range scale {
		n, k, l0 := i/8, i%8/2, i%2*16 // as in dequantQ6K
		low := (*[16]byte)(b[64*n+k%2*32+l0:])
		high := (*[16]byte)(b[128+32*n+l0:])
		is := roundIn(float32(s*inverseOrZero(d)), -128, 127)
		b[192+i] = byte(is)
		inv := inverseOrZero(d * float32(is))
		for l, v := range (*[16]float32)(x[16*i:]) {
			q := byte(roundIn(float32(v*inv), -32, 31) + 32)
			low[l] |= q & 15 << (k / 2 * 4)
			high[l] |= q >> 4 << (2 * k)
		}
	}
	return true
}

// fitScale returns the scale, of either sign, such that scale·q with q of -32 to 31 is near x. For a given q the best
// scale is Σxq/Σq², and it reduces the squared error by (Σxq)²/Σq².
func fitScale(x *[16]float32) (scale float32) {
	var extreme float32
	for _, v := range x {
		if math.Abs(float64(v)) > math.Abs(float64(extreme)) {
			extreme = v
		}
	}
	if extreme == 0 {
		return 0
	}
	scale = extreme / -32
	best := -1.0
	for step := -fitSteps; step <= fitSteps; step++ {
		inv := (32 + float32(0.1*float32(step))) / -extreme
		var q2 int32
		var xq float32
		for _, v := range x {
			q := roundIn(float32(v*inv), -32, 31)
			q2 += q * q
			xq += float32(v * float32(q))
		}
		if gain := float64(xq) * float64(xq) / float64(q2); q2 > 0 && gain > best {
			best, scale = gain, xq/float32(q2)
		}
	}
	return scale
}

// roundIn returns v rounded to an integer and limited to lo and hi, which lie within ±128. A NaN gives lo.
func roundIn(v float32, lo, hi int32) int32 {
	if !(v > float32(lo)) {
		return lo
	}
	if v >= float32(hi) {
		return hi
	}
	return int32(v+128.5) - 128
}
