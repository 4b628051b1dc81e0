#include <metal_stdlib>
using namespace metal;
struct Args { uint n; };
kernel void k(device float *out [[buffer(0)]], constant Args &a [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  out[i] = a.n;
  a.n += 1; // error: cannot assign
}
