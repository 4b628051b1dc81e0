package block

import (
	"encoding/binary"
	"math"
)

// The types of 32 elements are quantised by the formulas of ggml, so that the same weights give the same bytes.

// extremeElement returns the first element of x with the absolute value amax, with its sign.
func extremeElement(x *[32]float32, amax float32) float32 {
	bits := math.Float32bits(amax)
	for _, v := range x {
		if math.Float32bits(v)&^(1<<31) == bits {
			return v
		}
	}
	return 0
}

func minMax(x *[32]float32) (lo, hi float32) {
	lo, hi = x[0], x[0]
	for _, v := range x[1:] {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	return lo, hi
}

// quantQ4_0: the element farthest from zero becomes -8, the others round(x/d)+8.
func quantQ4_0(b []byte, x *[32]float32, amax float32) bool {
	d := extremeElement(x, amax) / -8
	inv, q := inverseOrZero(d), (*[16]byte)(b[2:])
	for j := range q {
		lo := min(int32(float32(x[j]*inv)+8.5), 15)
		hi := min(int32(float32(x[j+16]*inv)+8.5), 15)
		q[j] = byte(lo) | byte(hi)<<4
	}
	return putHalf(b, d)
}

// quantQ4_1: 0 is the least element, 15 the largest.
func quantQ4_1(b []byte, x *[32]float32, _ float32) bool {
	lo, hi := minMax(x)
	d := (hi - lo) / 15
	inv, q := inverseOrZero(d), (*[16]byte)(b[4:])
	for j := range q {
		l := min(int32(float32((x[j]-lo)*inv)+0.5), 15)
		h := min(int32(float32((x[j+16]-lo)*inv)+0.5), 15)
		q[j] = byte(l) | byte(h)<<4
	}
	return putHalf(b, d) && putHalf(b[2:], lo)
}

// quantQ5_0: as Q4_0 with -16.
func quantQ5_0(b []byte, x *[32]float32, amax float32) bool {
	d := extremeElement(x, amax) / -16
	inv, q := inverseOrZero(d), (*[16]byte)(b[6:])
	var fifth uint32
	for j := range q {
		lo := uint32(min(int32(float32(x[j]*inv)+16.5), 31))
		hi := uint32(min(int32(float32(x[j+16]*inv)+16.5), 31))
		q[j] = byte(lo&15 | hi<<4)
		fifth |= lo>>4<<j | hi>>4<<(j+16)
	}
	binary.LittleEndian.PutUint32(b[2:], fifth)
	return putHalf(b, d)
}

// quantQ5_1: as Q4_1 with 31.
func quantQ5_1(b []byte, x *[32]float32, _ float32) bool {
	lo, hi := minMax(x)
	d := (hi - lo) / 31
	inv, q := inverseOrZero(d), (*[16]byte)(b[8:])
	var fifth uint32
	for j := range q {
		l := uint32(min(int32(float32((x[j]-lo)*inv)+0.5), 31))
		h := uint32(min(int32(float32((x[j+16]-lo)*inv)+0.5), 31))
		q[j] = byte(l&15 | h<<4)
		fifth |= l>>4<<j | h>>4<<(j+16)
	}
	binary.LittleEndian.PutUint32(b[4:], fifth)
	return putHalf(b, d) && putHalf(b[2:], lo)
}

// quantQ8_0: the element farthest from zero becomes ±127.
func quantQ8_0(b []byte, x *[32]float32, amax float32) bool {
	d := amax / 127
	inv, q := inverseOrZero(d), (*[32]byte)(b[2:])
	for j, v := range x {
		q[j] = byte(roundAway(float32(v * inv))) // rounded before, where the CPU has an fma too
	}
	return putHalf(b, d)
}

// roundAway rounds to the nearest integer, halves away from zero. |v| must fit an int32.
func roundAway(v float32) int32 {
	n := int32(v)
	return n + int32(2*(v-float32(n))) // what was cut off, doubled, is ±1 from one half on
}
