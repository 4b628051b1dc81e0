package block

import "encoding/binary"

// The types of 32 elements a block. Where two elements share a byte, the low nibble is element j and the high nibble
// element j+16.

// dequantQ4_0: d f16, nibbles q [16]. y = d·(q-8)
func dequantQ4_0(y *[32]float32, b []byte) {
	d, q := readHalf(b), (*[16]byte)(b[2:])
	for j, v := range q {
		y[j] = d * float32(int(v&15)-8)
		y[j+16] = d * float32(int(v>>4)-8)
	}
}

// dequantQ4_1: d, m f16, nibbles q [16]. y = d·q + m
func dequantQ4_1(y *[32]float32, b []byte) {
	d, m, q := readHalf(b), readHalf(b[2:]), (*[16]byte)(b[4:])
	for j, v := range q {
		y[j] = float32(d*float32(v&15)) + m
		y[j+16] = float32(d*float32(v>>4)) + m
	}
}

// dequantQ5_0: d f16, fifth bits h u32 (bit i of element i), nibbles q [16]. y = d·(q-16)
func dequantQ5_0(y *[32]float32, b []byte) {
	d, h, q := readHalf(b), binary.LittleEndian.Uint32(b[2:]), (*[16]byte)(b[6:])
	for j, v := range q {
		y[j] = d * float32(int32(uint32(v&15)|h>>j&1<<4)-16)
		y[j+16] = d * float32(int32(uint32(v>>4)|h>>(j+16)&1<<4)-16)
	}
}

// dequantQ5_1: d, m f16, fifth bits h u32, nibbles q [16]. y = d·q + m
func dequantQ5_1(y *[32]float32, b []byte) {
	d, m, h, q := readHalf(b), readHalf(b[2:]), binary.LittleEndian.Uint32(b[4:]), (*[16]byte)(b[8:])
	for j, v := range q {
		y[j] = float32(d*float32(int32(uint32(v&15)|h>>j&1<<4))) + m
		y[j+16] = float32(d*float32(int32(uint32(v>>4)|h>>(j+16)&1<<4))) + m
	}
}

// dequantQ8_0: d f16, q int8 [32]. y = d·q
func dequantQ8_0(y *[32]float32, b []byte) {
	d, q := readHalf(b), (*[32]byte)(b[2:])
	for j, v := range q {
		y[j] = d * float32(int8(v))
	}
}
