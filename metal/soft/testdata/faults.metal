// Kernels with one bug each, x_bad, beside the same without it, x_good. A comment "fault: x" marks the line that the
// device must name. Each runs with x and y of 64 floats at buffers 0 and 1, in threadgroups of 64 threads.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

#define ARGS device const float *x [[buffer(0)]], device float *y [[buffer(1)]], \
             uint t [[thread_position_in_threadgroup]]

kernel void barrier_bad(ARGS) {
  threadgroup float s[64];
  s[t] = x[t];
  y[t] = s[63 - t]; // fault: barrier
}
kernel void barrier_good(ARGS) {
  threadgroup float s[64];
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[63 - t];
}

kernel void flags_bad(ARGS) {
  threadgroup float s[64];
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_none);
  y[t] = s[63 - t]; // fault: flags
}
kernel void flags_good(ARGS) {
  threadgroup float s[64];
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  y[t] = s[63 - t];
}

kernel void device_flags_bad(ARGS) {
  y[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float v = y[63 - t]; // fault: device_flags
  threadgroup_barrier(mem_flags::mem_device);
  y[t] = v;
}
kernel void device_flags_good(ARGS) {
  y[t] = x[t];
  threadgroup_barrier(mem_flags::mem_device);
  const float v = y[63 - t];
  threadgroup_barrier(mem_flags::mem_device);
  y[t] = v;
}

kernel void reuse_bad(ARGS) { // the next round begins to write what this one still reads
  threadgroup float s[64];
  for (uint i = 0; i < 2; i++) {
    s[t] = x[t] + i; // fault: reuse
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[t] = s[63 - t];
  }
}
kernel void reuse_good(ARGS) {
  threadgroup float s[64];
  for (uint i = 0; i < 2; i++) {
    s[t] = x[t] + i;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[t] = s[63 - t];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

kernel void simd_barrier_bad(ARGS) { // threads of a simdgroup are no lockstep
  threadgroup float s[64];
  s[t] = x[t];
  y[t] = simd_sum(x[t]) + s[t ^ 1]; // fault: simd_barrier
}
kernel void simd_barrier_good(ARGS) {
  threadgroup float s[64];
  s[t] = x[t];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = simd_sum(x[t]) + s[t ^ 1];
}

kernel void simd_reach_bad(ARGS) { // a barrier of the simdgroup says nothing about the other one
  threadgroup float s[64];
  s[t] = x[t];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t ^ 32]; // fault: simd_reach
}
kernel void simd_reach_good(ARGS) {
  threadgroup float s[64];
  s[t] = x[t];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t ^ 16];
}

kernel void shared_bad(ARGS) { // all lanes read what one of them then writes
  threadgroup float s[2];
  if (t % 32 == 0) s[t / 32] = x[t];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t / 32]; // fault: shared
  if (t % 32 == 5) s[t / 32] = 1;
}
kernel void shared_good(ARGS) {
  threadgroup float s[2];
  for (uint i = 0; i < 3; i++) {
    if (t % 32 == 0) s[t / 32] = x[t];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    y[t] = s[t / 32];
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

kernel void bounds_bad(ARGS) {
  y[t] = x[t + 1]; // fault: bounds
}
kernel void bounds_good(ARGS) { y[t] = t < 63 ? x[t + 1] : 0; }

kernel void bounds_write_bad(ARGS) {
  y[t * 2] = x[t]; // fault: bounds_write
}
kernel void bounds_write_good(ARGS) { y[t * 2 % 64 + t / 32] = x[t]; }

kernel void below_bad(ARGS) {
  y[t] = x[(int)t - 1]; // fault: below
}
kernel void below_good(ARGS) { y[t] = x[max((int)t - 1, 0)]; }

kernel void divergent_bad(ARGS) {
  if (t < 40)
    threadgroup_barrier(mem_flags::mem_threadgroup); // fault: divergent
  y[t] = x[t];
}
kernel void divergent_good(ARGS) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t < 40) y[t] = x[t];
}

kernel void divergent_group_bad(ARGS) { // whole simdgroups part
  if (t < 32)
    threadgroup_barrier(mem_flags::mem_threadgroup); // fault: divergent_group
  y[t] = x[t];
}
kernel void divergent_group_good(ARGS) {
  if (t < 32) simdgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = x[t];
}

kernel void divergent_simd_bad(ARGS) {
  float v = x[t];
  if (t % 32 < 16)
    v = simd_sum(v); // fault: divergent_simd
  y[t] = v;
}
kernel void divergent_simd_good(ARGS) {
  float v = x[t];
  if (t < 32) v = simd_sum(v);
  y[t] = v;
}

kernel void early_bad(ARGS) {
  if (t % 32 == 31) return;
  y[t] = simd_sum(x[t]); // fault: early
}
kernel void early_good(ARGS) {
  if (t >= 32) return;
  y[t] = simd_sum(x[t]);
}

kernel void uninitialised_bad(ARGS) {
  threadgroup float s[64];
  if (t < 32) s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t]; // fault: uninitialised
}
kernel void uninitialised_good(ARGS) {
  threadgroup float s[64];
  s[t] = t < 32 ? x[t] : 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t];
}

kernel void across_bad(ARGS, uint group [[threadgroup_position_in_grid]]) {
  y[t] = x[t] + group; // fault: across
}
kernel void across_good(ARGS, uint group [[threadgroup_position_in_grid]]) {
  if (group == 0) y[t] = x[t];
}

kernel void across_read_bad(ARGS, uint group [[threadgroup_position_in_grid]]) {
  if (group == 0) y[t] = x[t]; // fault: across_read
  else if (y[t] > 1000) y[0] = 1;
}
kernel void across_read_good(ARGS, uint group [[threadgroup_position_in_grid]]) {
  if (group == 0 && t < 32) y[t] = x[t];
  else if (y[t | 32] > 1000) y[32] = 1;
}

kernel void misaligned_bad(ARGS) {
  device const uint *p = (device const uint *)((device const uchar *)x + 2);
  y[t] = float(p[t % 8] & 15u); // fault: misaligned
}
kernel void misaligned_good(ARGS) {
  device const ushort *p = (device const ushort *)((device const uchar *)x + 2);
  y[t] = float(p[t % 8 * 2] & 15u);
}

kernel void array_bad(ARGS) {
  threadgroup float s[60], other[60];
  s[t] = x[t]; // fault: array
  other[min(t, 59u)] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[min(t, 59u)] + other[0];
}
kernel void array_good(ARGS) {
  threadgroup float s[64], other[60];
  s[t] = x[t];
  if (t < 60) other[t] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t] + other[0];
}

static void fill(threadgroup float *p, uint n, uint t) {
  if (t < n) p[t] = t; // fault: redzone
}
kernel void redzone_bad(ARGS) { // no array is in sight where the overrun happens
  threadgroup float s[32], after[32];
  fill(s, 33, t);
  fill(after, 32, t);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t % 32] + after[t % 32];
}
kernel void redzone_good(ARGS) {
  threadgroup float s[32], after[32];
  fill(s, 32, t);
  fill(after, 32, t);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t % 32] + after[t % 32];
}

kernel void dynamic_bad(ARGS, threadgroup float *s [[threadgroup(0)]]) { // 128 bytes
  s[t] = x[t]; // fault: dynamic
}
kernel void dynamic_good(ARGS, threadgroup float *s [[threadgroup(0)]]) {
  if (t < 32) s[t] = x[t];
}

kernel void lane_bad(ARGS) {
  y[t] = simd_shuffle(x[t], ushort(t % 32 + 1)); // fault: lane
}
kernel void lane_good(ARGS) { y[t] = simd_shuffle_down(x[t], 1); }

kernel void matrix_bad(ARGS) {
  simdgroup_float8x8 m;
  simdgroup_load(m, x + (t == 3 ? 0 : 8), 4);
  y[t] = simd_sum(x[t]); // fault: matrix
}
kernel void matrix_good(ARGS) {
  simdgroup_float8x8 m;
  simdgroup_load(m, x + (t < 32 ? 0 : 8), 4);
  y[t] = simd_sum(x[t]);
}

kernel void matrix_bounds_bad(ARGS) {
  simdgroup_float8x8 m;
  simdgroup_load(m, x + 32, 8); // fault: matrix_bounds
  simdgroup_store(m, y);
}
kernel void matrix_bounds_good(ARGS) {
  if (t >= 32) return;
  simdgroup_float8x8 m;
  simdgroup_load(m, x, 8);
  simdgroup_store(m, y);
}

kernel void matrix_race_bad(ARGS) {
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8>(x[0]);
  simdgroup_store(m, y); // fault: matrix_race
}
kernel void matrix_race_good(ARGS) {
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8>(x[0]);
  if (t < 32) simdgroup_store(m, y);
}

kernel void shift_bad(ARGS) {
  y[t] = float(1u << (t + 1)); // fault: shift
}
kernel void shift_good(ARGS) { y[t] = float(1u << (t & 31)); }

kernel void division_bad(ARGS) {
  y[t] = float(100u / t); // fault: division
}
kernel void division_good(ARGS) { y[t] = float(100u / (t + 1)); }

kernel void overflow_bad(ARGS) {
  y[t] = float(int(t) * 0x7fffffff); // fault: overflow
}
kernel void overflow_good(ARGS) { y[t] = float(t * 0x7fffffffu); }

kernel void index_bad(ARGS) {
  float v[4] = {1, 2, 3, 4};
  for (uint i = 0; i < t % 3 + 3; i++) v[i % 4] += x[i];
  y[t] = v[t % 5]; // fault: index
}
kernel void index_good(ARGS) {
  float v[4] = {1, 2, 3, 4};
  for (uint i = 0; i < t % 3 + 3; i++) v[i % 4] += x[i];
  y[t] = v[t % 4];
}

kernel void atomic_bad(ARGS) {
  device atomic_uint *n = (device atomic_uint *)y;
  if (t == 0) y[0] = 0; // or the other side
  atomic_fetch_add_explicit(n, 1, memory_order_relaxed); // fault: atomic
}
kernel void atomic_good(ARGS) {
  device atomic_uint *n = (device atomic_uint *)y;
  atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

kernel void bytes_bad(ARGS) { // neighbours, and one too far
  device half *h = (device half *)y;
  h[t / 2] = half(x[t]); // fault: bytes
}
kernel void bytes_good(ARGS) {
  device half *h = (device half *)y;
  h[t] = half(x[t]);
}

// Words and their bytes, which may have other writers.
kernel void word_bad(ARGS) {
  device uchar *b = (device uchar *)y;
  y[t] = x[t];
  b[(t ^ 1) * 4 + 2] = 1;
}
kernel void word_good(ARGS) {
  device uchar *b = (device uchar *)y;
  y[t] = x[t];
  threadgroup_barrier(mem_flags::mem_device);
  b[t ^ 5] = 1;
  b[64 + t] = b[64 + t] + 1;
  threadgroup_barrier(mem_flags::mem_device);
  y[63 - t] = x[t];
}
kernel void word_read_bad(ARGS) {
  device uchar *b = (device uchar *)y;
  y[t] = x[t];
  threadgroup_barrier(mem_flags::mem_device);
  b[t] = 1;
  y[t] = 2 * y[t];
}
kernel void word_read_good(ARGS) {
  device uchar *b = (device uchar *)y;
  y[t] = x[t];
  threadgroup_barrier(mem_flags::mem_device);
  b[t] = 1;
  threadgroup_barrier(mem_flags::mem_device);
  y[t] = 2 * y[t];
}
kernel void partly_bad(ARGS) {
  threadgroup float s[64];
  threadgroup uchar *b = (threadgroup uchar *)s;
  b[4 * t] = b[4 * t + 1] = b[4 * t + 2] = 1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[t]; // fault: partly
}
kernel void partly_good(ARGS) {
  threadgroup float s[64];
  threadgroup uchar *b = (threadgroup uchar *)s;
  b[4 * t] = b[4 * t + 1] = b[4 * t + 2] = b[4 * t + 3] = 1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float whole = s[63 - t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = whole + float(((threadgroup ushort *)s)[127 - 2 * t]);
}

// For tests of several dispatches.
kernel void copy(ARGS) { y[t] = x[t]; } // fault: copy
kernel void shifted(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                    uint t [[thread_position_in_threadgroup]]) {
  y[t] = x[63 - t]; // fault: shifted
}
