//go:build !noasm

package cpu

// Leaves in dot_avx2_amd64.s, dot_avxvnni_amd64.s and dot_vnni_amd64.s. For some rows of weights at a time: oct in oct_avx2_amd64.s and
// oct_avxvnni_amd64.s, eight for one row of activations; octs in octs_avx2_amd64.s and octs_avxvnni_amd64.s, eight for several; quad in
// quad_vnni_amd64.s and quadk_vnni_amd64.s, four. The formulas stand with their twin rowsGeneric. They return the same bits as one another: the
// integers are equal and the float32 operations too.

//go:noescape
func rowsQ8_0AVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_0AVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_0AVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_KAVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_KAVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ6_KAVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ8_0AVXVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_0AVXVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_0AVXVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_KAVXVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_KAVXVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ6_KAVXVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ8_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_KVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_KVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ6_KVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func octQ4_0AVX2(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octQ4_0AVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octQ4_KAVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ8_0AVX2(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ4_0AVX2(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ5_0AVX2(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ4_KAVX2(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ5_KAVX2(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ6_KAVX2(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ8_0AVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ4_0AVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ5_0AVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ4_KAVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ5_KAVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func octsQ6_KAVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func spreadVNNI(to, q []int8, from int)

//go:noescape
func quadQ8_0VNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func quadQ4_0VNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func quadQ5_0VNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func quadQ4_KVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func quadQ5_KVNNI(dst []float32, stride int, w []byte, x form, rows, n int)

//go:noescape
func quadQ6_KVNNI(dst []float32, stride int, w []byte, x form, rows, n int)
