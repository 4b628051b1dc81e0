#include <metal_stdlib>
using namespace metal;
static float first(constant const float *p) { return p[0]; }
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float s[32];
  s[i % 32] = 1;
  out[i] = first(s); // error: no matching function
}
