#include <metal_stdlib>
using namespace metal;
kernel void k(device half4 *out [[buffer(0)]], device const float4 *x [[buffer(1)]],
              uint i [[thread_position_in_grid]]) {
  half4 v = half4(1);
  v = v * x[i]; // error: cannot convert
  out[i] = v;
}
