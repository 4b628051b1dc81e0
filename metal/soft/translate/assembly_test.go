package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAssembly: the text for a GPU has the requested kernels, with loads from the address spaces of their parameters.
func TestAssembly(t *testing.T) {
	c := open(t, Options{})
	const source = `#include <metal_stdlib>
using namespace metal;
struct Args { uint n; };
kernel void sums(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], constant Args &a [[buffer(2)]],
                 threadgroup float *part [[threadgroup(0)]], uint tid [[thread_index_in_threadgroup]]) {
  float sum = 0.0f;
  for (uint i = tid; i < a.n; i += 32) sum = fma(x[i], part[i], sum);
  y[tid] = simd_sum(sum);
}
kernel void other(device float *y [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) { y[tid] = 1.0f; }`
	text, err := c.Assembly(source, "sums")
	require.NoError(t, err)
	for _, want := range []string{
		"\nsums:", "global_load_", "ds_load_", "s_load_", "v_fma", "; simd_sum v", "ScratchSize: 0",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "\nother:")
	_, err = c.Assembly(source, "none")
	assert.ErrorContains(t, err, "no kernel none")
}
