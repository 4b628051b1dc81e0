#include <metal_stdlib>
using namespace metal;
struct Args { float x, y; };
kernel void k(device const Args *a [[buffer(0)]], device float *out [[buffer(1)]]) {
  Args b = a[0]; // error: cannot copy a struct out of device
  out[0] = b.x;
}
