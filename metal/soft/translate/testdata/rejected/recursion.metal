#include <metal_stdlib>
using namespace metal;
static uint fib(uint n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); } // error: calls itself
kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = fib(i); }
