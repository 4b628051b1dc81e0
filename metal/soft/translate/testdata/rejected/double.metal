#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  const double third = 1.0 / 3; // error: double
  out[i] = third;
}
