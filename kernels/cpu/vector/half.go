package vector

import "github.com/pilotfish-ai/pilotfish/gguf/block"

// ToF16 sets dst[i] to src[i] in half precision, rounded to nearest even.
func ToF16(dst []uint16, src []float32) {
	if len(src) > 0 {
		inUse().toF16(dst[:len(src)], src)
	}
}

// FromF16 sets dst[i] to src[i], which is in half precision.
func FromF16(dst []float32, src []uint16) {
	if len(src) > 0 {
		inUse().fromF16(dst[:len(src)], src)
	}
}

func toF16Generic(dst []uint16, src []float32) {
	for i, v := range src {
		dst[i] = block.F32ToF16(v)
	}
}

func fromF16Generic(dst []float32, src []uint16) {
	for i, v := range src {
		dst[i] = block.F16ToF32(v)
	}
}
