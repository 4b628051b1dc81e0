#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(31)]], uint i [[thread_position_in_grid]]) { // error: from 0 to 30
  out[i] = 1;
}
