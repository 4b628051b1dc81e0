package cpu

import (
	"encoding/binary"
	"math"
	"sync"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
)

// generic returns the microkernels in plain Go: the reference of all others.
func generic() *kernels {
	k := &kernels{
		storedKernels: storedKernels{
			round:    roundGeneric,
			actsArgs: &sync.Pool{New: func() any { return new(actsArgs) }},
		},
		packedKernels: packedKernels{panelOutputs: panelGeneric, horizontalSum: horizontalSumGeneric},
		floatKernels: floatKernels{
			gemvF32: gemvF32Generic, gemvF16: gemvF16Generic, gemvBF16: gemvBF16Generic,
			gemmF32: gemmF32Generic, cacheBytes: 128 << 10,
		},
		boundKernels: boundKernels{
			read: readGeneric, peakBytes: peak{peakBytesGeneric, 4}, peakFloats: peak{peakFloatsGeneric, 4},
		},
	}
	for f := range formats {
		k.gemv[f] = func(a *gemmArgs) { gemvGeneric(f, a) }
		k.pack[f] = func(a *packArgs) { packGeneric(f, a) }
		k.tile[f] = func(a *tileArgs) { tileGeneric(f, a) }
	}
	return k
}

// activationsOf returns n activations of one token or more as slices.
func activationsOf(q *int8, d, s *float32, h *int16, n int) activations {
	return activations{
		q: unsafe.Slice(q, n), d: unsafe.Slice(d, n/32), s: unsafe.Slice(s, n/32), h: unsafe.Slice(h, n/16),
	}
}

// gemvGeneric sets dst[o] = Σᵢ w[o,i]·x[i] for all rows of w in format f and a token x.
func gemvGeneric(f format, a *gemmArgs) {
	elems, size := f.blockType().Block()
	per := elems / actBlock // activation blocks in a weight block
	w, x := unsafe.Slice(a.w, a.wBytes), activationsOf(a.q, a.d, a.s, a.h, a.n)
	dst := unsafe.Slice(a.dst, a.wBytes/(a.n/elems*size))
	for o := range dst {
		var u [256]int8
		var ds [16]float32
		var mins [8]float32
		var acc [8]float32
		for b := 0; b < len(x.d); b += per {
			unpackGeneric(f, u[:elems], ds[:], mins[:], w[:size])
			w = w[size:]
			for i := range per {
				a := &acc[(b+i)%f.accumulatorCount()]
				q := x.q[(b+i)*actBlock:][:actBlock]
				*a = addBlock(*a, u[i*actBlock:][:actBlock], [2]float32(ds[2*i:]), q, x.d[b+i])
				if f == q4_K || f == q5_K {
					*a -= float32(mins[i] * x.s[b+i])
				}
			}
		}
		sumAccumulators(dst[o:o+1], acc[:f.accumulatorCount()])
	}
}

// addBlock returns a plus the products of a block, w of scales ds for each half and q of scale d.
func addBlock(a float32, w []int8, ds [2]float32, q []int8, d float32) float32 {
	var m, n int32
	lo, hi := w[:16], w[16:32]
	for i := range 16 {
		m += int32(lo[i]) * int32(q[i])
		n += int32(hi[i]) * int32(q[i+16])
	}
	a += float32(float32(ds[0]*d) * float32(m))
	a += float32(float32(ds[1]*d) * float32(n))
	return a
}

func readF16(b []byte) float32 { return block.F16ToF32(binary.LittleEndian.Uint16(b)) }

// unpackGeneric unpacks a row of len(w) weights in format f: src[i] = ds[i/16]·w[i] - mins[i/32]. ds and w are chosen
// so that ds·w is exact in float32. mins is written only for Q4_K and Q5_K: the other formats have no minima.
func unpackGeneric(f format, w []int8, ds, mins []float32, src []byte) {
	elems, size := f.blockType().Block()
	for b := range len(w) / elems {
		unpackBlock(f, w[b*elems:][:elems], ds[b*elems/16:], mins[b*elems/32:], src[b*size:][:size])
	}
}

// unpackBlock is unpackGeneric for one block. The layouts are those of the GGUF types (package gguf).
func unpackBlock(f format, w []int8, ds, mins []float32, src []byte) {
	switch f {
	case q8_0:
		ds[0], ds[1] = readF16(src), readF16(src)
		for i := range w {
			w[i] = int8(src[2+i])
		}
	case q4_0:
		ds[0], ds[1] = readF16(src), readF16(src)
		for i, v := range src[2:18] {
			w[i], w[i+16] = int8(v&15)-8, int8(v>>4)-8
		}
	case q5_0:
		ds[0], ds[1] = readF16(src), readF16(src)
		high := binary.LittleEndian.Uint32(src[2:])
		for i, v := range src[6:22] {
			w[i] = int8(v&15|byte(high>>i&1)<<4) - 16
			w[i+16] = int8(v>>4|byte(high>>(i+16)&1)<<4) - 16
		}
	case q4_K:
		scalesK(ds, mins, src)
		for i := range w {
			w[i] = int8(src[16+i/64*32+i%32] >> (i / 32 % 2 * 4) & 15)
		}
	case q5_K:
		scalesK(ds, mins, src)
		for i := range w {
			w[i] = int8(src[48+i/64*32+i%32]>>(i/32%2*4)&15 | src[16+i%32]>>(i/32)&1<<4)
		}
	case q6_K:
		d := readF16(src[208:])
		for i := range 16 {
			ds[i] = d * float32(int8(src[192+i]))
		}
		for i := range w {
			h, l := i/128, i%128 // half of the block, place in it
			low := src[h*64+l%64] >> (l / 64 * 4) & 15
			high := src[128+h*32+l%32] >> (l / 32 * 2) & 3
			w[i] = int8(low|high<<4) - 32
		}
	}
}

// scalesK sets ds [16] and mins [8] from the head of a Q4_K or Q5_K block: d and dmin in half precision, then eight
// pairs of a scale and a minimum, 6 bits each. The first four of each lie in the low bits of bytes 0-3 and 4-7; of the
// last four, the low four bits lie in bytes 8-11 (scale below, minimum above), the high two in the high bits of bytes
// 0-3 and 4-7.
func scalesK(ds, mins []float32, src []byte) {
	d, dmin, p := readF16(src), readF16(src[2:]), src[4:16]
	for i := range 4 {
		sc, m := p[i]&63, p[i+4]&63
		sc4, m4 := p[i+8]&15|p[i]>>6<<4, p[i+8]>>4|p[i+4]>>6<<4
		ds[2*i], ds[2*i+1], mins[i] = d*float32(sc), d*float32(sc), dmin*float32(m)
		ds[2*i+8], ds[2*i+9], mins[i+4] = d*float32(sc4), d*float32(sc4), dmin*float32(m4)
	}
}

// tiny bounds the blocks of activations that are rounded to zero: below it 127/max would not be finite.
const tiny = 1e-36

// roundGeneric rounds the blocks of x, as [Acts] says, to nearest even.
func roundGeneric(a *actsArgs) {
	all, to := unsafe.Slice(a.x, a.n), activationsOf(a.q, a.d, a.s, a.h, a.n)
	d, s, h := to.d, to.s, to.h
	for b := range d {
		x, q := all[b*actBlock:][:actBlock], to.q[b*actBlock:][:actBlock]
		var top uint32 // largest magnitude as bits, which have the order of the numbers, with NaN above all
		for _, v := range x {
			top = max(top, math.Float32bits(v)&^(1<<31))
		}
		switch largest := math.Float32frombits(top); {
		case top >= 0x7f800000:
			clear(q)
			h[2*b], h[2*b+1] = 0, 0
			d[b] = float32(math.NaN())
			s[b] = d[b]
		case largest < tiny:
			clear(q)
			h[2*b], h[2*b+1] = 0, 0
			d[b], s[b] = 0, 0
		default:
			d[b] = largest / 127
			inv := 127 / largest
			var sum [2]int16
			for i, v := range x {
				q[i] = int8(math.RoundToEven(float64(v * inv)))
				sum[i/16] += int16(q[i])
			}
			h[2*b], h[2*b+1] = sum[0], sum[1]
			s[b] = d[b] * float32(sum[0]+sum[1])
		}
	}
}

// readGeneric reads p once and returns a value that depends on all of it.
func readGeneric(p []byte) uint64 {
	var a, b, c, d uint64
	for len(p) >= 32 {
		a |= binary.LittleEndian.Uint64(p)
		b |= binary.LittleEndian.Uint64(p[8:])
		c |= binary.LittleEndian.Uint64(p[16:])
		d |= binary.LittleEndian.Uint64(p[24:])
		p = p[32:]
	}
	return a | b | c | d
}
