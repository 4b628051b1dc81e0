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

// layouts are the layouts by type. The byte counts are sums over the fields of a block, in file order.
var layouts = [...]layout{
	F32:    {"F32", 1, 4},
	F16:    {"F16", 1, 2},
	BF16:   {"BF16", 1, 2},
	Q4_0:   {"Q4_0", 32, 2 + 16},                 // d f16, 32 nibbles
	Q4_1:   {"Q4_1", 32, 2 + 2 + 16},             // d, m f16, 32 nibbles
	Q5_0:   {"Q5_0", 32, 2 + 4 + 16},             // d f16, 32 high bits, 32 nibbles
	Q5_1:   {"Q5_1", 32, 2 + 2 + 4 + 16},         // d, m f16, 32 high bits, 32 nibbles
	Q8_0:   {"Q8_0", 32, 2 + 32},                 // d f16, 32 int8
	Q2_K:   {"Q2_K", 256, 16 + 64 + 2 + 2},       // 16 scale/min nibble pairs, 256 2-bit, d, dmin f16
	Q3_K:   {"Q3_K", 256, 32 + 64 + 12 + 2},      // 256 high bits, 256 2-bit, 16 6-bit scales, d f16
	Q4_K:   {"Q4_K", 256, 2 + 2 + 12 + 128},      // d, dmin f16, 8 6-bit scale/min pairs, 256 nibbles
	Q5_K:   {"Q5_K", 256, 2 + 2 + 12 + 32 + 128}, // as Q4_K with 256 high bits before the nibbles
	Q6_K:   {"Q6_K", 256, 128 + 64 + 16 + 2},     // 256 nibbles, 256 2-bit, 16 int8 scales, d f16
	IQ4_NL: {"IQ4_NL", 32, 2 + 16},               // d f16, 32 nibbles into a table of 16 values
	IQ4_XS: {"IQ4_XS", 256, 2 + 2 + 4 + 128},     // d f16, 8 scales as 2 high and 4 low bits, 256 nibbles
}

// Block returns how many elements one block of t holds and how many bytes it takes: 1 element a block for F32, F16
// and BF16, 32 or 256 for the quantised types; 0, 0 if t is unknown. A row of a tensor is a whole number of blocks.
func (t Type) Block() (elems, bytes int) {
	if int64(t) >= int64(len(layouts)) {
		return 0, 0
	}
	return layouts[t].elems, layouts[t].bytes
}

// String returns the usual name, such as "Q4_K"; "type 16 IQ2_XXS" for a type that is not read.
func (t Type) String() string {
	if elems, _ := t.Block(); elems > 0 {
		return layouts[t].name
	}
	return strings.TrimSuffix(fmt.Sprintf("type %d %s", uint32(t), foreign[t]), " ")
}

// foreign are the names of types of ggml that Pilotfish does not read, for messages.
var foreign = map[Type]string{
	9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
	24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}
