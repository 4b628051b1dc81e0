#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], ushort i [[thread_position_in_threadgroup]], // error: the same type
              uint n [[threads_per_threadgroup]]) {
  out[i] = n;
}
