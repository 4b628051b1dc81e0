package translate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/metal"
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

// TestAssemblyLacksGPU: a clang without support for the GPU is a missing device, not an error of the source. Cached
// results remain.
func TestAssemblyLacksGPU(t *testing.T) {
	const source = "#include <metal_stdlib>\nusing namespace metal;\nkernel void k() {}"
	cache := held.TempDir(t)
	rich := open(t, Options{Cache: cache})
	poor := filepath.Join(held.TempDir(t), "clang")
	script := "#!/bin/sh\ncase \"$*\" in *amdgcn*)\n" +
		"echo \"error: unable to create target: 'No available targets are compatible with triple'\" >&2\nexit 1;;\n" +
		"esac\nexec " + rich.clang + " \"$@\"\n"
	require.NoError(t, os.WriteFile(poor, []byte(script), 0o777))
	c := open(t, Options{Clang: poor, Cache: cache})
	_, err := c.Assembly(source, "k")
	assert.ErrorIs(t, err, metal.ErrNoDevice)
	assert.ErrorContains(t, err, "does not know the GPU")
	text, err := rich.Assembly(source, "k")
	require.NoError(t, err)
	kept, err := c.Assembly(source, "k")
	require.NoError(t, err)
	assert.Equal(t, text, kept)
}
