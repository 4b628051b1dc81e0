#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint2 at [[threadgroup_position_in_grid]], // error: as many components
              ushort lane [[thread_index_in_simdgroup]], uint threads [[threads_per_threadgroup]]) {
  out[at.x * threads + lane] = 1;
}
