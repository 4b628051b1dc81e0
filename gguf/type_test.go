package gguf

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
)

// TestTypeNames: the types of this package have the names of their constants, and the conversions are those of their
// names: half precision keeps ten bits of the fraction, bfloat16 seven.
func TestTypeNames(t *testing.T) {
	for name, typ := range map[string]Type{
		"F32": F32, "F16": F16, "BF16": BF16, "Q4_0": Q4_0, "Q4_1": Q4_1, "Q5_0": Q5_0, "Q5_1": Q5_1, "Q8_0": Q8_0,
		"Q2_K": Q2_K, "Q3_K": Q3_K, "Q4_K": Q4_K, "Q5_K": Q5_K, "Q6_K": Q6_K, "IQ4_NL": IQ4_NL, "IQ4_XS": IQ4_XS,
	} {
		require.Equal(t, name, typ.String())
		require.Contains(t, block.Types(), typ)
	}
	require.Len(t, block.Types(), 15)
	const x = 1 + 1./128 + 1./1024
	require.Equal(t, float32(x), F16ToF32(F32ToF16(x)))
	require.Equal(t, uint16(0x3c00), F32ToF16(1))
}
