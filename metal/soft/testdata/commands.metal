#include <metal_stdlib>
using namespace metal;
kernel void add(device uint *x [[buffer(0)]], constant uint &n [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  x[i] += n;
}
kernel void times(device uint *x [[buffer(0)]], constant uint &n [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  x[i] *= n;
}
kernel void dynamic(device uint *x [[buffer(0)]], threadgroup uint *s [[threadgroup(2)]],
                    uint t [[thread_index_in_threadgroup]]) {
  threadgroup uint own[4096];
  s[t] = own[t] = t;
  x[t] = s[t] + own[t];
}
[[max_total_threads_per_threadgroup(64)]]
kernel void few(device uint *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = 1; }
kernel void large(device uint *x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup uint s[8193];
  s[i] = i;
  x[i] = s[i];
}
constant bool flag [[function_constant(3)]];
kernel void flagged(device uint *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = flag ? 1 : 2; }
kernel void cube(device uint *x [[buffer(0)]], uint3 p [[thread_position_in_grid]], uint3 n [[threads_per_grid]]) {
  x[(p.z * n.y + p.y) * n.x + p.x] += p.x + 10 * p.y + 100 * p.z;
}
