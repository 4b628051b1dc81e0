#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float v[2] = {1, 2};
  while (float *p = out[i] < 3 ? v : nullptr) out[i] += *p; // error: needs an address space
}
