package gguf

import "github.com/pilotfish-ai/pilotfish/gguf/block"

// Type is the number a GGUF file stores for the element type of a tensor
// (enum ggml_type of the format's reference implementation).
type Type = block.Type

// The tensor types this package reads. Quantised types store rows in blocks; see [block.Type.Block].
const (
	F32    Type = block.F32
	F16    Type = block.F16
	Q4_0   Type = block.Q4_0
	Q4_1   Type = block.Q4_1
	Q5_0   Type = block.Q5_0
	Q5_1   Type = block.Q5_1
	Q8_0   Type = block.Q8_0
	Q2_K   Type = block.Q2_K
	Q3_K   Type = block.Q3_K
	Q4_K   Type = block.Q4_K
	Q5_K   Type = block.Q5_K
	Q6_K   Type = block.Q6_K
	IQ4_NL Type = block.IQ4_NL
	IQ4_XS Type = block.IQ4_XS
	BF16   Type = block.BF16
)

// F16ToF32 converts an IEEE 754 half to float32, exactly. A NaN stays one, made quiet, with its payload.
func F16ToF32(h uint16) float32 { return block.F16ToF32(h) }

// F32ToF16 converts f to an IEEE 754 half, rounding to nearest, ties to even. What is too large becomes infinite, and
// a NaN stays one, made quiet, with the high bits of its payload.
func F32ToF16(f float32) uint16 { return block.F32ToF16(f) }
