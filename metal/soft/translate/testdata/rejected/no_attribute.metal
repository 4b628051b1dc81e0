#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i) { out[i] = 1; } // error: 0 attributes
