#include <metal_stdlib>
using namespace metal;
constant ulong n [[function_constant(0)]]; // error: knows bool
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = n; }
