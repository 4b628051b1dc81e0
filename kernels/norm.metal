// g·x[t] and Σ x[t]² of rows that were not written by a kernel that does it on the way.  One threadgroup per row t.
struct NormArgs {
  uint cols;
};

kernel void norm(device const float *x [[buffer(0)]], device const float *gain [[buffer(1)]],
                 device float *normed [[buffer(2)]], device float *squares [[buffer(3)]],
                 constant NormArgs &a [[buffer(4)]], uint t [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                 ushort sg [[simdgroup_index_in_threadgroup]], ushort groups [[simdgroups_per_threadgroup]],
                 ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float part[32];
  float sum = 0.0f;
  for (uint c = tid; c < a.cols; c += threads) {
    const float v = x[ulong(t) * a.cols + c];
    normed[ulong(t) * a.cols + c] = v * gain[c];
    sum = fma(v, v, sum);
  }
  sum = simd_sum(sum);
  if (lane == 0) {
    part[sg] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (sg == 0) {
    sum = simd_sum(lane < groups ? part[lane] : 0.0f);
    if (lane == 0) {
      squares[t] = sum;
    }
  }
}
