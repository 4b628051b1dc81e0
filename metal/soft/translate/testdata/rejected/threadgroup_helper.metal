#include <metal_stdlib>
using namespace metal;
static float f(uint i) {
  threadgroup float s[4]; // error: must stand in a kernel
  return s[i];
}
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = f(i); }
