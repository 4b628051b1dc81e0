// x[t] = table[token[t]], and what the first norm wants: g·x[t] and Σ x[t]².  One threadgroup per row t.
// The tokens come from the host, or are the best ones that the merge of the pass before has left on the device.
struct EmbedArgs {
  uint cols;
  uint row_bytes;
  uint vocab;
  uint has_gain;
};

template <typename W>
kernel void embed(device const uchar *table [[buffer(0)]], device const uint *tokens [[buffer(1)]],
                  device const float *gain [[buffer(2)]], device float *x [[buffer(3)]],
                  device float *normed [[buffer(4)]], device float *squares [[buffer(5)]],
                  constant EmbedArgs &a [[buffer(6)]], uint t [[threadgroup_position_in_grid]],
                  uint tid [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                  ushort sg [[simdgroup_index_in_threadgroup]], ushort groups [[simdgroups_per_threadgroup]],
                  ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float part[32];
  const W w = W();
  const uint token = min(tokens[t], a.vocab - 1);
  device const uchar *row = table + ulong(token) * a.row_bytes;
  float sum = 0.0f;
  for (uint c = tid * 4; c < a.cols; c += threads * 4) {
    const float4 v = w.at(row, c);
    for (uint i = 0; i < 4 && c + i < a.cols; i++) {
      x[ulong(t) * a.cols + c + i] = v[i];
      if (a.has_gain) {
        normed[ulong(t) * a.cols + c + i] = v[i] * gain[c + i];
      }
      sum = fma(v[i], v[i], sum);
    }
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

EACH_TYPE(embed)
