package block

import "encoding/binary"

// The K types: 256 elements a block, in groups that have small integer scales of their own, which one or two f16 of
// the block scale in turn.

// dequantQ2K: 16 bytes of scale (low nibble) and minimum (high nibble) for groups of 16, 2-bit q [64], d, m f16.
// y = d·scale·q - m·min. In each half of 128 elements, byte l of 32 holds elements l, l+32, l+64 and l+96.
func dequantQ2K(y *[256]float32, b []byte) {
	sc, d, m := b[:16], readHalf(b[80:]), readHalf(b[82:])
	for i := range 16 { // group i: elements 16i to 16i+15
		half, shift := i/8, i%8/2*2
		q := (*[16]byte)(b[16+32*half+i%2*16:])
		ds, ms := d*float32(sc[i]&15), float32(m*float32(sc[i]>>4))
		out := (*[16]float32)(y[16*i:])
		for l, v := range q {
			out[l] = float32(ds*float32(v>>shift&3)) - ms
		}
	}
}

// scalesQ3K unpacks the 16 scales of Q3_K from 12 bytes: low nibbles in bytes 0 to 7 (scale i, then i+8), high pairs of
// bits in bytes 8 to 11 (byte 8+i%4, pair i/4). They stand for scale-32.
func scalesQ3K(b *[12]byte) (sc [16]int) {
	for i := range 16 {
		low := b[i%8] >> (i / 8 * 4) & 15
		high := b[8+i%4] >> (i / 4 * 2) & 3
		sc[i] = int(low|high<<4) - 32
	}
	return sc
}

// dequantQ3K: third bits h [32] (byte l, bit i/2 for group i), 2-bit q [64] as in Q2_K, 12 bytes of scales, d f16.
// y = d·scale·(q + 4h - 4)
func dequantQ3K(y *[256]float32, b []byte) {
	sc, d := scalesQ3K((*[12]byte)(b[96:])), readHalf(b[108:])
	for i := range 16 {
		half, shift := i/8, i%8/2*2
		h := (*[16]byte)(b[i%2*16:])
		q := (*[16]byte)(b[32+32*half+i%2*16:])
		ds := d * float32(sc[i])
		out := (*[16]float32)(y[16*i:])
		for l, v := range q {
			out[l] = ds * float32(int(v>>shift&3|h[l]>>(i/2)&1<<2)-4)
		}
	}
}

// scaleMinK returns scale and minimum, 6 bits each, of group j of 8 from the 12 bytes of Q4_K and Q5_K: groups 0 to 3
// have them in the low six bits of bytes j and j+4; groups 4 to 7 have low nibbles in byte j+4 and the two high bits
// at the top of bytes j-4 and j.
func scaleMinK(b *[12]byte, j int) (scale, min byte) {
	if j < 4 {
		return b[j] & 63, b[j+4] & 63
	}
	return b[j+4]&15 | b[j-4]>>6<<4, b[j+4]>>4 | b[j]>>6<<4
}

// dequantQ4K: d, m f16, 12 bytes of scales and minima for groups of 32, nibbles q [128]. y = d·scale·q - m·min.
// Of each 32 bytes, the low nibbles are one group and the high nibbles the next.
func dequantQ4K(y *[256]float32, b []byte) {
	d, m, sc := readHalf(b), readHalf(b[2:]), (*[12]byte)(b[4:])
	for j := 0; j < 8; j += 2 {
		s0, m0 := scaleMinK(sc, j)
		s1, m1 := scaleMinK(sc, j+1)
		ds0, ms0, ds1, ms1 := d*float32(s0), float32(m*float32(m0)), d*float32(s1), float32(m*float32(m1))
		q, out := (*[32]byte)(b[16+16*j:]), (*[64]float32)(y[32*j:])
		for l, v := range q {
			out[l] = float32(ds0*float32(v&15)) - ms0
			out[l+32] = float32(ds1*float32(v>>4)) - ms1
		}
	}
}

// dequantQ5K: as Q4_K, with fifth bits h [32] (byte l, bit j for group j) before the nibbles.
func dequantQ5K(y *[256]float32, b []byte) {
	d, m, sc, h := readHalf(b), readHalf(b[2:]), (*[12]byte)(b[4:]), (*[32]byte)(b[16:])
	for j := 0; j < 8; j += 2 {
		s0, m0 := scaleMinK(sc, j)
		s1, m1 := scaleMinK(sc, j+1)
		ds0, ms0, ds1, ms1 := d*float32(s0), float32(m*float32(m0)), d*float32(s1), float32(m*float32(m1))
		q, out := (*[32]byte)(b[48+16*j:]), (*[64]float32)(y[32*j:])
		for l, v := range q {
			out[l] = float32(ds0*float32(v&15|h[l]>>j&1<<4)) - ms0
			out[l+32] = float32(ds1*float32(v>>4|h[l]>>(j+1)&1<<4)) - ms1
		}
	}
}

// dequantQ6K: low nibbles [128], high pairs of bits [64], int8 scales [16] for groups of 16, d f16. y = d·scale·(q-32).
// In each half of 128 elements, element l+32k has nibble k/2 of byte l+32(k%2) and pair k of byte l.
func dequantQ6K(y *[256]float32, b []byte) {
	d := readHalf(b[208:])
	for i := range 16 {
		n, k, l0 := i/8, i%8/2, i%2*16 // half, quarter of it, first byte
		low := (*[16]byte)(b[64*n+k%2*32+l0:])
		high := (*[16]byte)(b[128+32*n+l0:])
		ds := d * float32(int8(b[192+i]))
		out := (*[16]float32)(y[16*i:])
		for l := range out {
			q := low[l]>>(k/2*4)&15 | high[l]>>(2*k)&3<<4
			out[l] = ds * float32(int(q)-32)
		}
	}
}

// iq4Values are the 16 values that a nibble of IQ4_NL and IQ4_XS stands for: dense around zero, where weights are.
func iq4Values() [16]float32 {
	return [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
}

// dequantIQ4NL: d f16, nibbles q [16] as in Q4_0. y = d·value[q]
func dequantIQ4NL(y *[32]float32, b []byte) {
	d, q, values := readHalf(b), (*[16]byte)(b[2:]), iq4Values()
	for j, v := range q {
		y[j] = d * values[v&15]
		y[j+16] = d * values[v>>4]
	}
}

// dequantIQ4XS: d f16, high pairs of bits of 8 scales u16, low nibbles of them [4], nibbles q [128]: 16 bytes for each
// group of 32, low nibbles first. y = d·(scale-32)·value[q]
func dequantIQ4XS(y *[256]float32, b []byte) {
	d, high, values := readHalf(b), binary.LittleEndian.Uint16(b[2:]), iq4Values()
	for j := range 8 {
		scale := int(b[4+j/2]>>(j%2*4)&15) | int(high>>(2*j)&3)<<4
		ds := d * float32(scale-32)
		q, out := (*[16]byte)(b[8+16*j:]), (*[32]float32)(y[32*j:])
		for l, v := range q {
			out[l] = ds * values[v&15]
			out[l+16] = ds * values[v>>4]
		}
	}
}
