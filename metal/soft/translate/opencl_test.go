package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOpenCL: threadgroup variables move into a struct of the entry point, also those of templates. Function constants
// become macros. The entry point passes a value for each parameter.
func TestOpenCL(t *testing.T) {
	o, err := open(t, Options{}).OpenCL(`#include <metal_stdlib>
constant bool fast [[function_constant(3)]];
kernel void plain(device float *x [[buffer(1)]], uint i [[thread_index_in_simdgroup]]) { x[i] = fast ? 1 : 2; }
template <typename T, ushort N>
kernel void many(constant T &x [[buffer(0)]], threadgroup T *room [[threadgroup(2)]],
                 uint2 at [[threadgroup_position_in_grid]]) {
  threadgroup T a[N][2], b;
#pragma unroll
  for (uint i = 0; i < N; i++) room[i] = a[i][0] = x;
}
template [[host_name("many_4")]] kernel decltype(many<float, 4>) many<float, 4>;
`)
	require.NoError(t, err)
	assert.Equal(t, []Constant{{Name: "fast", Type: "bool", Index: 3}}, o.Constants)
	require.Len(t, o.Kernels, 2)
	assert.Equal(t, "many_4", o.Kernels[1].Name)

	text, k, err := o.Program("plain")
	require.NoError(t, err)
	assert.Equal(t, "x", k.Params[0].Name)
	assert.Contains(t, text, "\nconstant bool fast = MSL_VALUE_3;\n")
	assert.Contains(t, text, "msl_entry(device uchar *msl_p0) { "+
		"plain(msl_device_buffer{msl_p0}, msl_number{(uint)get_sub_group_local_id()}); }")

	text, _, err = o.Program("many_4")
	require.NoError(t, err)
	for _, want := range []string{
		"struct msl_memory_many { T a[ N ] [ 2 ]; T b; }; template <typename T, ushort N>",
		", threadgroup msl_memory_many<T, N> &msl_memory)",
		"typedef T msl_type_a[ N ] [ 2 ]; threadgroup msl_type_a &a = msl_memory.a; ",
		"\n#pragma nounroll\n",
		"msl_entry(constant uchar *msl_p0, threadgroup uchar *msl_p1) { " +
			"threadgroup msl_memory_many<float, 4> msl_memory; many<float, 4>(msl_constant_buffer{msl_p0}, " +
			"msl_threadgroup_buffer{msl_p1}, " +
			"msl_position{(uint)get_group_id(0), (uint)get_group_id(1), (uint)get_group_id(2)}, msl_memory); }",
	} {
		assert.Contains(t, text, want)
	}
	_, _, err = o.Program("none")
	assert.ErrorContains(t, err, "the source has no kernel none")
}

// TestOpenCLAlone: the memory of a kernel without parameters is its only one.
func TestOpenCLAlone(t *testing.T) {
	u := parseUnit("# 1 \"stubs/metal_stdlib\"\nkernel void alone() { threadgroup float s[32]; s[0] = 1; }", "a.metal")
	require.Empty(t, u.problems)
	assert.Contains(t, applyEdits(u.text, u.opencl), "kernel void alone(threadgroup msl_memory_alone &msl_memory)")
}

// TestOpenCLParameters: each built-in that a kernel may ask for has its form in OpenCL.
func TestOpenCLParameters(t *testing.T) {
	for name, group := range builtins {
		assert.Equal(t, group > 0, openclPositions[name] != "", name)
		assert.Equal(t, group == 0, openclIDs[name] != "", name)
	}
}
