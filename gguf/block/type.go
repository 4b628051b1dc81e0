// Package block stores weights in blocks, as the tensors of a GGUF file: the types, the numbers of elements and bytes
// of a block, conversions from blocks to float32 and back, and conversions of half precision and bfloat16. It does not
// read files: package gguf does, and kernels multiply with the blocks.
//
// Source: the block formats of ggml's quantised types, https://github.com/ggml-org/ggml.
package block

import (
	"fmt"
	"strings"
)

// Type is the number a GGUF file stores for the element type of a tensor
// (enum ggml_type of the format's reference implementation).
type Type uint32

// The tensor types Pilotfish reads. Quantised types store rows in blocks; see [Type.Block].
const (
	F32    Type = 0
	F16    Type = 1
	Q4_0   Type = 2
	Q4_1   Type = 3
	Q5_0   Type = 6
	Q5_1   Type = 7
	Q8_0   Type = 8
	Q2_K   Type = 10
	Q3_K   Type = 11
	Q4_K   Type = 12
	Q5_K   Type = 13
	Q6_K   Type = 14
	IQ4_NL Type = 20
	IQ4_XS Type = 23
	BF16   Type = 30
)

// Types returns the tensor types that Pilotfish reads: floats first, then by the size of a block and by bits.
func Types() []Type {
	return []Type{F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, IQ4_NL, Q6_K, Q5_K, Q4_K, Q3_K, Q2_K, IQ4_XS}
}

// layout is the storage of one block of a type.
type layout struct {
	name  string
	elems int // elements in a block
	bytes int // bytes in a block
}

// layoutOf returns the storage of t. The byte counts are sums over the fields of a block, in file order.
func layoutOf(t Type) (layout, bool) {
	switch t {
	case F32:
		return layout{"F32", 1, 4}, true
	case F16:
		return layout{"F16", 1, 2}, true
	case BF16:
		return layout{"BF16", 1, 2}, true
	case Q4_0:
		return layout{"Q4_0", 32, 2 + 16}, true // d f16, 32 nibbles
	case Q4_1:
		return layout{"Q4_1", 32, 2 + 2 + 16}, true // d, m f16, 32 nibbles
	case Q5_0:
		return layout{"Q5_0", 32, 2 + 4 + 16}, true // d f16, 32 high bits, 32 nibbles
	case Q5_1:
		return layout{"Q5_1", 32, 2 + 2 + 4 + 16}, true // d, m f16, 32 high bits, 32 nibbles
	case Q8_0:
		return layout{"Q8_0", 32, 2 + 32}, true // d f16, 32 int8
	case Q2_K:
		return layout{"Q2_K", 256, 16 + 64 + 2 + 2}, true // 16 scale/min nibble pairs, 256 2-bit, d, dmin f16
	case Q3_K:
		return layout{"Q3_K", 256, 32 + 64 + 12 + 2}, true // 256 high bits, 256 2-bit, 16 6-bit scales, d f16
	case Q4_K:
		return layout{"Q4_K", 256, 2 + 2 + 12 + 128}, true // d, dmin f16, 8 6-bit scale/min pairs, 256 nibbles
	case Q5_K:
		return layout{"Q5_K", 256, 2 + 2 + 12 + 32 + 128}, true // as Q4_K with 256 high bits before the nibbles
	case Q6_K:
		return layout{"Q6_K", 256, 128 + 64 + 16 + 2}, true // 256 nibbles, 256 2-bit, 16 int8 scales, d f16
	case IQ4_NL:
		return layout{"IQ4_NL", 32, 2 + 16}, true // d f16, 32 nibbles into a table of 16 values
	case IQ4_XS:
		return layout{"IQ4_XS", 256, 2 + 2 + 4 + 128}, true // d f16, 8 scales as 2 high and 4 low bits, 256 nibbles
	}
	return layout{}, false
}

// Block returns how many elements one block of t holds and how many bytes it takes: 1 element a block for F32, F16
// and BF16, 32 or 256 for the quantised types; 0, 0 if t is unknown. A row of a tensor is a whole number of blocks.
func (t Type) Block() (elems, bytes int) {
	l, _ := layoutOf(t)
	return l.elems, l.bytes
}

// String returns the usual name, such as "Q4_K"; "type 16 IQ2_XXS" for a type that is not read.
func (t Type) String() string {
	if l, ok := layoutOf(t); ok {
		return l.name
	}
	return strings.TrimSuffix(fmt.Sprintf("type %d %s", uint32(t), foreignName(t)), " ")
}

// foreignName returns the name of a type of ggml that Pilotfish does not read, for messages; empty if there is none.
func foreignName(t Type) string {
	switch t {
	case 9:
		return "Q8_1"
	case 15:
		return "Q8_K"
	case 16:
		return "IQ2_XXS"
	case 17:
		return "IQ2_XS"
	case 18:
		return "IQ3_XXS"
	case 19:
		return "IQ1_S"
	case 21:
		return "IQ3_S"
	case 22:
		return "IQ2_S"
	case 24, 25, 26, 27:
		return fmt.Sprintf("I%d", 8<<(t-24))
	case 28:
		return "F64"
	case 29:
		return "IQ1_M"
	case 34:
		return "TQ1_0"
	case 35:
		return "TQ2_0"
	case 39:
		return "MXFP4"
	}
	return ""
}
