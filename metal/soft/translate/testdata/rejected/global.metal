#include <metal_stdlib>
using namespace metal;
static const float half_of_it = 0.5f; // error: must be constant
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = half_of_it; }
