//go:build !noasm

package cpu

//go:noescape
func octQ8_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)

//go:noescape
func octQ4_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)

//go:noescape
func octQ5_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
