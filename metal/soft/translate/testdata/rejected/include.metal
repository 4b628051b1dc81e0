#include <metal_stdlib>
using namespace metal;
#include "other.h" // error: not found
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1; }
