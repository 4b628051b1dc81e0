//go:build !noasm

package cpu

// Microkernels for weights as they are stored. gemv…: one token, one output after the other. gemv8…: one token, eight
// outputs at a time. gemm8…: up to sixteen tokens, eight outputs. gemm4…: up to eight tokens, four outputs. The
// formulas stand with their twin gemvGeneric. All return the same bits: the integers are equal and the float32
// operations too.

// gemv_avx2_amd64.s

func gemvQ8_0AVX2(a *gemmArgs)
func gemvQ4_0AVX2(a *gemmArgs)
func gemvQ5_0AVX2(a *gemmArgs)
func gemvQ4_KAVX2(a *gemmArgs)
func gemvQ5_KAVX2(a *gemmArgs)
func gemvQ6_KAVX2(a *gemmArgs)

// gemv_avxvnni_amd64.s

func gemvQ8_0AVXVNNI(a *gemmArgs)
func gemvQ4_0AVXVNNI(a *gemmArgs)
func gemvQ5_0AVXVNNI(a *gemmArgs)
func gemvQ4_KAVXVNNI(a *gemmArgs)
func gemvQ5_KAVXVNNI(a *gemmArgs)
func gemvQ6_KAVXVNNI(a *gemmArgs)

// gemv_vnni_amd64.s

func gemvQ8_0VNNI(a *gemmArgs)
func gemvQ4_0VNNI(a *gemmArgs)
func gemvQ5_0VNNI(a *gemmArgs)
func gemvQ4_KVNNI(a *gemmArgs)
func gemvQ5_KVNNI(a *gemmArgs)
func gemvQ6_KVNNI(a *gemmArgs)

// gemv8_avx2_amd64.s

func gemv8Q4_0AVX2(a *gemmArgs)

// gemv8_avxvnni_amd64.s

func gemv8Q4_0AVXVNNI(a *gemmArgs)
func gemv8Q4_KAVXVNNI(a *gemmArgs)

// gemm8_avx2_amd64.s

func gemm8Q8_0AVX2(a *gemmArgs)
func gemm8Q4_0AVX2(a *gemmArgs)
func gemm8Q5_0AVX2(a *gemmArgs)
func gemm8Q4_KAVX2(a *gemmArgs)
func gemm8Q5_KAVX2(a *gemmArgs)
func gemm8Q6_KAVX2(a *gemmArgs)

// gemm8_avxvnni_amd64.s

func gemm8Q8_0AVXVNNI(a *gemmArgs)
func gemm8Q4_0AVXVNNI(a *gemmArgs)
func gemm8Q5_0AVXVNNI(a *gemmArgs)
func gemm8Q4_KAVXVNNI(a *gemmArgs)
func gemm8Q5_KAVXVNNI(a *gemmArgs)
func gemm8Q6_KAVXVNNI(a *gemmArgs)

// gemm4_vnni_amd64.s

func interleaveVNNI(a *actsArgs)
func gemm4Q8_0VNNI(a *gemmArgs)
func gemm4Q4_0VNNI(a *gemmArgs)
func gemm4Q5_0VNNI(a *gemmArgs)

// gemm4k_vnni_amd64.s

func gemm4Q4_KVNNI(a *gemmArgs)
func gemm4Q5_KVNNI(a *gemmArgs)
func gemm4Q6_KVNNI(a *gemmArgs)

// round_amd64.s

func roundAVX2(a *actsArgs)
