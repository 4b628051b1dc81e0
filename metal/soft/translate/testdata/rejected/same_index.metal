#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], device float *x [[buffer(0)]], // error: same index
              uint i [[thread_position_in_grid]]) {
  out[i] = x[i];
}
