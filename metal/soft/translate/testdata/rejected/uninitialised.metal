#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float s;
  for (uint j = 0; j < i; j++) s += j; // error: uninitialized
  out[i] = s;
}
