#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], int i [[thread_position_in_grid]]) { // error: must be uint or ushort
  out[i] = 1;
}
