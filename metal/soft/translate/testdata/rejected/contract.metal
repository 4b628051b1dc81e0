#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(never) // error: not known
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1; }
