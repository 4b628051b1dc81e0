#include <metal_stdlib>
using namespace metal;
struct S {
  float4 position [[position]]; // error: unknown attribute
};
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1; }
