#include <metal_stdlib>
using namespace metal;
kernel void k(device float2 *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = float2(1, 2, float(i)); // error: wrong number of components
}
