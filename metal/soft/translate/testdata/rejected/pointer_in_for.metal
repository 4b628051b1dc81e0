#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float v[2] = {1, 2};
  for (float *p = v; p != v + 2; p++) out[i] += *p; // error: needs an address space
}
