#include <metal_stdlib>
using namespace metal;
typedef uint3 Place;
template <typename T> kernel void k(device T *out [[buffer(0)]], Place at [[thread_position_in_grid]],
                                    ushort2 grid [[threads_per_grid]]) {
  out[at.x * grid.x] = 1;
}
template [[host_name("k_float")]] kernel decltype(k<float>) k<float>; // error: as many components
