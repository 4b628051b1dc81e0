#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i [[thread_index_in_warp]]) { // error: [[thread_index_in_warp]]
  out[i] = 1;
}
