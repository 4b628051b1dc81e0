#include <metal_stdlib>
using namespace metal;
kernel float k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { // error: must return void
  return out[i];
}
