#include <metal_stdlib>
using namespace metal;
static float sum(const float *p, uint n) { // error: needs an address space
  float s = 0;
  for (uint i = 0; i < n; i++) s += p[i];
  return s;
}
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float v[2] = {1, 2};
  out[i] = sum(v, 2);
}
