package vector

import (
	"encoding/binary"
	"math"
)

// WeightedSum sets dst[i] = Σⱼ p[j]·v[j·stride+i], in ascending order of j.
func WeightedSum(dst, p, v []float32, stride int) {
	clear(dst)
	AddWeightedSum(dst, p, v, stride)
}

// AddWeightedSum adds Σⱼ p[j]·v[j·stride+i] to acc[i], in ascending order of j. acc must not overlap v.
func AddWeightedSum(acc, p, v []float32, stride int) {
	if len(p) == 0 || len(acc) == 0 {
		return
	}
	if stride < 0 || (len(p)-1)*stride+len(acc) > len(v) {
		panic("vector: rows reach beyond the slice")
	}
	inUse().axpyF32(acc, p, bytesOf(v), 4*stride)
}

// ProductSum sets dst[i] = Σⱼ a[j·strideA+i]·b[j·strideB+i], in ascending order of j < n, for n > 0.
func ProductSum(dst, a, b []float32, strideA, strideB, n int) {
	if len(dst) == 0 {
		return
	}
	if n <= 0 || strideA < 0 || strideB < 0 || (n-1)*strideA+len(dst) > len(a) || (n-1)*strideB+len(dst) > len(b) {
		panic("vector: rows reach beyond a slice")
	}
	inUse().productSum(dst, a, b, strideA, strideB, n)
}

// Scale sets dst[i] = a·x[i]. dst may be x.
func Scale(dst, x []float32, a float32) {
	if len(x) > 0 {
		inUse().scale(dst[:len(x)], x, a)
	}
}

// axpyF32Generic adds Σⱼ p[j]·v[j,i] to acc[i], j ascending, where the len(p) rows of v begin stride bytes apart.
func axpyF32Generic(acc, p []float32, v []byte, stride int) {
	for j, p := range p {
		row := v[j*stride:]
		for i := range acc {
			acc[i] += p * math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))
		}
	}
}

func productSumGeneric(dst, a, b []float32, strideA, strideB, n int) {
	clear(dst)
	for j := range n {
		x, y := a[j*strideA:][:len(dst)], b[j*strideB:][:len(dst)]
		for i := range dst {
			dst[i] += float32(x[i] * y[i])
		}
	}
}

func scaleGeneric(dst, x []float32, a float32) {
	for i, v := range x {
		dst[i] = a * v
	}
}
