package block

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Dequantize sets dst to the elements that src stores in blocks of t: len(dst) is a multiple of the elements of a
// block, and src is exactly the bytes of those blocks. Each product is rounded to float32 before it is added to
// another, on every machine, so that the result is the same everywhere. Other lengths and unknown types panic.
func (t Type) Dequantize(dst []float32, src []byte) {
	t.checkLengths(len(dst), len(src))
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case Q4_0:
		eachBlock32(dst, src, 18, dequantQ4_0)
	case Q4_1:
		eachBlock32(dst, src, 20, dequantQ4_1)
	case Q5_0:
		eachBlock32(dst, src, 22, dequantQ5_0)
	case Q5_1:
		eachBlock32(dst, src, 24, dequantQ5_1)
	case Q8_0:
		eachBlock32(dst, src, 34, dequantQ8_0)
	case IQ4_NL:
		eachBlock32(dst, src, 18, dequantIQ4NL)
	case Q2_K:
		eachBlock256(dst, src, 84, dequantQ2K)
	case Q3_K:
		eachBlock256(dst, src, 110, dequantQ3K)
	case Q4_K:
		eachBlock256(dst, src, 144, dequantQ4K)
	case Q5_K:
		eachBlock256(dst, src, 176, dequantQ5K)
	case Q6_K:
		eachBlock256(dst, src, 210, dequantQ6K)
	case IQ4_XS:
		eachBlock256(dst, src, 136, dequantIQ4XS)
	}
}

// checkLengths panics unless elems elements of t take exactly bytes bytes.
func (t Type) checkLengths(elems, bytes int) {
	e, b := t.Block()
	if e == 0 || elems%e != 0 || elems/e*b != bytes {
		panic(fmt.Sprintf("block: %d elements and %d bytes do not match as %s", elems, bytes, t))
	}
}

func eachBlock32(dst []float32, src []byte, bytes int, block func(y *[32]float32, b []byte)) {
	for ; len(dst) > 0; dst, src = dst[32:], src[bytes:] {
		block((*[32]float32)(dst), src[:bytes])
	}
}

func eachBlock256(dst []float32, src []byte, bytes int, block func(y *[256]float32, b []byte)) {
	for ; len(dst) > 0; dst, src = dst[256:], src[bytes:] {
		block((*[256]float32)(dst), src[:bytes])
	}
}

func readHalf(b []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(b)) }
