// The gated delta rule ("Gated Delta Networks: Improving Mamba2 with Delta Rule", arXiv 2412.06464) from the states
// between chunks, with the norm and gate of its results.  One threadgroup per value head, which takes the steps of a
// pass one after the other: rows, and ends of chunks. See runtime/backend/delta.go.
//
//   u = β·(v - whole·Sᵀk - Σⱼ since[j]·(k·kⱼ)·uⱼ), o = whole·Sᵀq + Σⱼ since[j]·(q·kⱼ)·uⱼ, a = o/rms(o) ⊙ g ⊙ silu(gate)
//   S' = whole·S + Σⱼ since[j]·kⱼ·uⱼᵀ at the end of a chunk
//
// with S before the chunk, whole the decay since then, and since[j] that since token j of the chunk. A thread reads
// those elements of states and errors that it has written itself, but at the end of a chunk the errors of others.
struct DeltaArgs {
  uint steps;
  uint key_heads;
  uint value_heads;
  uint key_size;
  uint value_size;
  uint stride;      // columns of a row of projections
  uint update_size; // elements of an update
  float eps;
};

// The chunk has so many tokens before the row, with the updates from path[first] on. base is the checkpoint before the
// chunk, into the one after it, if the step is no row: then the chunk is whole. A checkpoint that is not there is
// NoState.
struct DeltaStep {
  uint base, first, tokens, row, update, into;
};

enum : uint {
  DeltaThreads = 256,
  DeltaSimds = 8,
  ChunkTokens = 16,
};

// out [row][value heads, value size].
kernel void delta(device const float *in [[buffer(0)]], device const float *projected [[buffer(1)]],
                  device const float *gain [[buffer(2)]], device const DeltaStep *steps [[buffer(3)]],
                  device const uint *path [[buffer(4)]], device uchar *updates [[buffer(5)]],
                  device const float *decays [[buffer(6)]], device float *states [[buffer(7)]],
                  device float *out [[buffer(8)]], constant DeltaArgs &a [[buffer(9)]],
                  uint head [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                  ushort sg [[simdgroup_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float q[DeltaSize], k[DeltaSize], since[ChunkTokens], part[DeltaSimds];
  threadgroup float2 scores[ChunkTokens]; // of k and q with the keys of the chunk
  threadgroup float2 sums[DeltaSimds * DeltaSize];
  const uint queries = a.key_heads * a.key_size, width = a.value_heads * a.value_size;
  const uint key_at = 2 * queries + width + head % a.key_heads * a.key_size; // in an update
  const uint error_at = 3 * queries + width + head * a.value_size;
  const ulong size = ulong(a.key_size) * a.value_size;
  for (uint n = 0; n < a.steps; n++) {
    device const DeltaStep &s = steps[n];
    const bool ends = s.into != NoState;
    const uint last = ends ? path[s.first + s.tokens - 1] : s.update;
    const float log_decay = decays[ulong(last) * a.value_heads + head], whole = precise::exp(log_decay);
    device const float *base = states + (ulong(s.base) * a.value_heads + head) * size;
    threadgroup_barrier(mem_flags::mem_threadgroup); // the step before is done with
    if (tid < s.tokens) {
      since[tid] = precise::exp(log_decay - decays[ulong(path[s.first + tid]) * a.value_heads + head]);
    }
    if (ends) {
      threadgroup_barrier(mem_flags::mem_device); // errors of other threads
      threadgroup_barrier(mem_flags::mem_threadgroup);
      device float *into = states + (ulong(s.into) * a.value_heads + head) * size;
      for (uint c = lane; c < a.value_size; c += 32) {
        float error[ChunkTokens];
        for (uint j = 0; j < ChunkTokens; j++) {
          error[j] = since[j] * element(updates, ulong(path[s.first + j]) * a.update_size + error_at + c);
        }
        for (uint i = sg; i < a.key_size; i += DeltaSimds) {
          float sum = s.base == NoState ? 0.0f : whole * base[i * a.value_size + c];
          for (uint j = 0; j < ChunkTokens; j++) {
            sum = fma(element(updates, ulong(path[s.first + j]) * a.update_size + key_at + i), error[j], sum);
          }
          into[i * a.value_size + c] = sum;
        }
      }
      continue;
    }
    device const float *own = in + ulong(s.row) * (queries + width + a.value_heads);
    for (uint i = tid; i < a.key_size; i += DeltaThreads) {
      q[i] = own[head % a.key_heads * a.key_size + i];
      k[i] = element(updates, ulong(s.update) * a.update_size + key_at + i);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = sg; j <= s.tokens; j += DeltaSimds) {
      const ulong key = ulong(j < s.tokens ? path[s.first + j] : s.update) * a.update_size + key_at;
      float of_k = 0.0f, of_q = 0.0f;
      for (uint i = lane; i < a.key_size; i += 32) {
        const float v = element(updates, key + i);
        of_k = fma(k[i], v, of_k);
        of_q = fma(q[i], v, of_q);
      }
      of_k = simd_sum(of_k);
      of_q = simd_sum(of_q);
      if (lane == 0) {
        scores[j] = float2(of_k, of_q);
      }
    }
    for (uint c = lane; c < a.value_size; c += 32) {
      float of_k = 0.0f, of_q = 0.0f;
      for (uint i = sg; s.base != NoState && i < a.key_size; i += DeltaSimds) {
        const float v = base[i * a.value_size + c];
        of_k = fma(k[i], v, of_k);
        of_q = fma(q[i], v, of_q);
      }
      sums[sg * DeltaSize + c] = float2(of_k, of_q);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float o = 0.0f;
    if (tid < a.value_size) {
      float2 from_state = sums[tid], from_chunk = float2(0.0f);
      for (uint i = 1; i < DeltaSimds; i++) {
        from_state += sums[i * DeltaSize + tid];
      }
      for (uint j = 0; j < s.tokens; j++) {
        const float error = element(updates, ulong(path[s.first + j]) * a.update_size + error_at + tid);
        from_chunk = fma(scores[j] * since[j], float2(error), from_chunk);
      }
      const float of_k = fma(whole, from_state.x, from_chunk.x);
      const float error = stored(own[queries + width + head] * (own[queries + head * a.value_size + tid] - of_k));
      store_element(updates, ulong(s.update) * a.update_size + error_at + tid, error);
      o = fma(whole, from_state.y, fma(scores[s.tokens].y, error, from_chunk.y));
    }
    const float squares = simd_sum(o * o);
    if (lane == 0) {
      part[sg] = squares;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float total = 0.0f;
    for (uint i = 0; i < DeltaSimds; i++) {
      total += part[i];
    }
    if (tid < a.value_size) {
      const float gate = projected[ulong(s.row) * a.stride + 2 * queries + width + head * a.value_size + tid];
      out[ulong(s.row) * width + head * a.value_size + tid] =
          o / precise::sqrt(total / float(a.value_size) + a.eps) * gain[tid] * silu(gate);
    }
  }
}
