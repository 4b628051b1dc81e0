#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float v[2] = {1, 2};
  if (float *p = v) out[i] = p[1]; // error: needs an address space
}
