#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint n [[buffer(1)]], // error: pointer or reference
              uint i [[thread_position_in_grid]]) {
  out[i] = n;
}
