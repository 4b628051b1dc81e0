#include <metal_stdlib>
using namespace metal;
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  const auto f = [](float v) { return v * 2; }; // error: lambda
  out[i] = f(1);
}
