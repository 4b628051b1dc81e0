#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], constant uint &n [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  float v[n]; // error: variable length
  v[0] = 1;
  out[i] = v[0];
}
