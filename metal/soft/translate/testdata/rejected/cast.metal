#include <metal_stdlib>
using namespace metal;
kernel void k(device int4 *out [[buffer(0)]], device const float4 *x [[buffer(1)]],
              uint i [[thread_position_in_grid]]) {
  out[i] = (int4)x[i]; // error: cast (int4)
}
