#include <metal_stdlib>
using namespace metal;
#pragma omp parallel // error: not known
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1; }
