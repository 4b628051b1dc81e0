#include <metal_stdlib>
using namespace metal;
static uint next(uint i) {
  static uint calls = 0; // error: static
  return i + ++calls;
}
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = next(i); }
