#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float s[4] = {0}; // error: cannot have a value
  out[i] = s[0];
}
