package block

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTypes: all types that are read, floats first, then by the size of a block and by bits; IQ4_XS is last.
func TestTypes(t *testing.T) {
	all := Types()
	require.ElementsMatch(t, append(writable(), readable()...), all)
	require.Equal(t, []Type{F32, F16, BF16}, all[:3])
	require.True(t, slices.IsSortedFunc(all[3:14], func(a, b Type) int {
		elems, bytes := a.Block()
		others, more := b.Block()
		return cmp.Or(cmp.Compare(elems, others), cmp.Compare(more, bytes))
	}), "%v", all)
}

// TestForeignNames: a type that is not read has the name of ggml, in messages.
func TestForeignNames(t *testing.T) {
	for typ, name := range map[Type]string{
		4: "type 4", 9: "type 9 Q8_1", 15: "type 15 Q8_K", 16: "type 16 IQ2_XXS", 17: "type 17 IQ2_XS",
		18: "type 18 IQ3_XXS", 19: "type 19 IQ1_S", 21: "type 21 IQ3_S", 22: "type 22 IQ2_S", 24: "type 24 I8",
		25: "type 25 I16", 26: "type 26 I32", 27: "type 27 I64", 28: "type 28 F64", 29: "type 29 IQ1_M",
		34: "type 34 TQ1_0", 35: "type 35 TQ2_0", 39: "type 39 MXFP4", 40: "type 40", 1 << 31: "type 2147483648",
	} {
		require.NotContains(t, Types(), typ)
		require.Equal(t, name, typ.String())
	}
}
