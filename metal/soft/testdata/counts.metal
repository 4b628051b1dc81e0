#include <metal_stdlib>
using namespace metal;
kernel void copy4(device const float4 *x [[buffer(0)]], device float4 *y [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  y[i] = x[i];
}
kernel void spread(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  y[i] = x[i * 33] + x[0];
}
kernel void rows(device const char *w [[buffer(0)]], device const float *x [[buffer(1)]], device float *y [[buffer(2)]],
                 uint row [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  float s = 0;
  for (uint i = lane; i < 256; i += 32) s += w[row * 256 + i] * x[i];
  s = simd_sum(s);
  if (lane == 0) y[row] = s;
}
kernel void ragged(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                   uint lane [[thread_index_in_simdgroup]]) {
  for (uint row = 0; row < 4; row++) {
    float s = 0;
    for (uint i = lane; i < 40; i += 32) s += x[row * 64 + i];
    s = simd_sum(s);
    if (lane == 0) y[row] = s;
  }
}
kernel void again(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                  uint lane [[thread_index_in_simdgroup]]) {
  float s = 0;
  for (uint round = 0; round < 100; round++) {
    for (uint i = 0; i < 500; i++) s += x[i % 50 * 32 + lane];
    s = simd_sum(s);
  }
  y[lane] = s;
}
kernel void half_used(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                      uint i [[thread_position_in_grid]]) {
  if (i % 2 == 0) y[i] = x[i];
}
