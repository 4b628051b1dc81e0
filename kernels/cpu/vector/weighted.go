package vector

import (
	"encoding/binary"
	"math"
)

// WeightedSum sets dst[i] = Σⱼ p[j]·v[j·stride+i], in ascending order of j.
func WeightedSum(dst, p, v []float32, stride int) {
	clear(dst)
	if len(p) == 0 || len(dst) == 0 {
		return
	}
	if stride < 0 || (len(p)-1)*stride+len(dst) > len(v) {
		panic("vector: rows reach beyond the slice")
	}
	inUse().axpyF32(dst, p, bytesOf(v), 4*stride)
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
