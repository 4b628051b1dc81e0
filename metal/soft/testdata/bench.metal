// Kernels of the shapes that a model needs, to see what the device costs.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

struct Block {
  half scale;
  char q[32];
};
struct Shape {
  uint rows, columns;
};

// y = W x, four rows for each simdgroup.
template <int ROWS>
kernel void matvec(device const Block *w [[buffer(0)]], device const float *x [[buffer(1)]],
                   device float *y [[buffer(2)]],
                   constant Shape &s [[buffer(3)]], uint group [[threadgroup_position_in_grid]],
                   ushort simdgroup [[simdgroup_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]],
                   ushort simdgroups [[simdgroups_per_threadgroup]]) {
  const uint first = (group * simdgroups + simdgroup) * ROWS;
  if (first >= s.rows) return;
  const uint blocks = s.columns / 32;
  float sum[ROWS] = {0};
  for (uint b = lane / 4; b < blocks; b += 8) {
    const uint part = lane % 4 * 8;
    float v[8];
    for (uint i = 0; i < 8; i++) v[i] = x[b * 32 + part + i];
    for (int r = 0; r < ROWS; r++) {
      device const Block &k = w[(first + r) * blocks + b];
      float t = 0;
      for (uint i = 0; i < 8; i++) t += v[i] * k.q[part + i];
      sum[r] += t * k.scale;
    }
  }
  for (int r = 0; r < ROWS; r++) {
    const float t = simd_sum(sum[r]);
    if (lane == 0 && first + r < s.rows) y[first + r] = t;
  }
}
template [[host_name("matvec4")]] kernel void matvec<4>(device const Block *, device const float *, device float *,
                                                        constant Shape &, uint, ushort, ushort, ushort);

kernel void barriers(device uint *out [[buffer(0)]], constant uint &n [[buffer(1)]],
                     uint t [[thread_position_in_grid]]) {
  uint x = t;
  for (uint i = 0; i < n; i++) {
    x = x * 1664525u + 1013904223u;
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  out[t] = x;
}

kernel void sums(device uint *out [[buffer(0)]], constant uint &n [[buffer(1)]], uint t [[thread_position_in_grid]]) {
  uint x = t;
  for (uint i = 0; i < n; i++) x += simd_sum(x);
  out[t] = x;
}

kernel void nothing(device uint *out [[buffer(0)]], constant uint &n [[buffer(1)]],
                    uint t [[thread_position_in_grid]]) {
  if (t == n) out[0] = t;
}

// C = A Bᵀ in tiles of 32 x 32, four simdgroups of 16 x 16.
struct Matmul {
  uint m, n, k;
};
[[max_total_threads_per_threadgroup(128)]]
kernel void matmul(device const half *a [[buffer(0)]], device const half *b [[buffer(1)]],
                   device float *c [[buffer(2)]],
                   constant Matmul &s [[buffer(3)]], uint2 tile [[threadgroup_position_in_grid]],
                   ushort thread_id [[thread_index_in_threadgroup]],
                   ushort simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup half ta[32 * 32], tb[32 * 32];
  const ushort row = simdgroup / 2 * 16, column = simdgroup % 2 * 16;
  simdgroup_float8x8 sum[2][2];
  for (int i = 0; i < 4; i++) sum[i / 2][i % 2] = make_filled_simdgroup_matrix<float, 8>(0.0f);
  for (uint k = 0; k < s.k; k += 32) {
    for (ushort i = thread_id; i < 32 * 32; i += 128) {
      ta[i] = a[(tile.y * 32 + i / 32) * s.k + k + i % 32];
      tb[i] = b[(tile.x * 32 + i / 32) * s.k + k + i % 32];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (ushort j = 0; j < 32; j += 8) {
      simdgroup_half8x8 ma[2], mb[2];
      for (int i = 0; i < 2; i++) {
        simdgroup_load(ma[i], ta + (row + 8 * i) * 32 + j, 32);
        simdgroup_load(mb[i], tb + (column + 8 * i) * 32 + j, 32, ulong2(0, 0), true);
      }
      for (int i = 0; i < 4; i++)
        simdgroup_multiply_accumulate(sum[i / 2][i % 2], ma[i / 2], mb[i % 2], sum[i / 2][i % 2]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (int i = 0; i < 4; i++)
    simdgroup_store(sum[i / 2][i % 2],
                    c + (tile.y * 32 + row + i / 2 * 8) * s.n + tile.x * 32 + column + i % 2 * 8, s.n);
}
