#include <metal_stdlib>
using namespace metal;
template <typename T>
kernel void k(device T *out [[buffer(0)]], threadgroup T *s [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {
  device T *p = s; // error: cannot initialize
  out[i] = p[0];
}
template [[host_name("k_float")]] kernel void k<float>(device float *, threadgroup float *, uint);
