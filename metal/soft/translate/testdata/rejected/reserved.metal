#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = __builtin_sqrtf(2); // error: own use
}
