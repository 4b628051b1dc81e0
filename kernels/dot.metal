// Matrix times a few rows: the products of up to 8 rows of activations share one pass over the weights.
//
// A threadgroup takes so many weight rows that its copy of the activations is small beside them; each simdgroup takes
// TileRows of them at a time. What lane l of a simdgroup adds up is fixed by the type of the weights alone, and the
// lanes are joined by simd_sum: so a result does not depend on T, on the number of threads, or on how the columns are
// cut into chunks.

// Activations in device memory, [.., stride], of which row[t] is row t of the T.
template <ushort T> struct Rows {
  device const float *x;
  uint stride, n; // n ≤ T rows are there; the rest is computed as zeros and dropped
  uint row[T];

  // Copies columns [from, from + count) to threadgroup memory, with zeros up to a whole step.
  void stage(threadgroup float *to, uint from, uint count, uint tid, uint threads) const {
    const uint width = (count + StepColumns - 1) / StepColumns * StepColumns;
    for (ushort t = 0; t < T; t++) {
      device const float *src = x + ulong(row[t]) * stride + from;
      for (uint c = tid; c < width; c += threads) {
        to[t * width + c] = t < n && c < count ? src[c] : 0.0f;
      }
    }
  }
};

// The four weight rows of a simdgroup.
struct Tile {
  device const uchar *row[TileRows];
  bool active; // otherwise it only takes part in the barriers
};

// sum[r][t] += row r · columns [from, from + count) of x[t], this lane's share.
template <typename W, ushort T>
inline void multiply(thread float (&sum)[TileRows][T], thread const Tile &tile, threadgroup const float *x, uint from,
                     uint count, uint cols, ushort lane) {
  const W w = W();
  const uint width = (count + StepColumns - 1) / StepColumns * StepColumns;
  const ushort first = w.first(lane), second = w.second(lane);
  for (uint c = 0; c < count; c += StepColumns) {
    Unit u[TileRows];
    for (ushort r = 0; r < TileRows; r++) {
      w.load(u[r], tile.row[r], from + c, cols, lane);
    }
    for (ushort t = 0; t < T; t++) {
      threadgroup const float *xt = x + t * width + c;
      const float4 x0 = *(threadgroup const float4 *)(xt + first), x1 = *(threadgroup const float4 *)(xt + second);
      for (ushort r = 0; r < TileRows; r++) {
        sum[r][t] = w.dot(u[r], x0, x1, sum[r][t]);
      }
    }
  }
}

// sum[r][t] = row r · x[t], in every lane. In is Rows<T> or what else can stage. Called by all threads of a threadgroup.
// x is chunk columns wide, T times; if it holds all columns it is filled only when fresh.
template <typename W, ushort T, typename In>
inline void dot_rows(thread float (&sum)[TileRows][T], thread const Tile &tile, thread const In &in, bool fresh, uint cols,
                     uint chunk, threadgroup float *x, uint tid, uint threads, ushort lane) {
  for (ushort r = 0; r < TileRows; r++) {
    for (ushort t = 0; t < T; t++) {
      sum[r][t] = 0.0f;
    }
  }
  for (uint from = 0; from < cols; from += chunk) {
    const uint count = min(chunk, cols - from);
    if (fresh || chunk < cols) {
      threadgroup_barrier(mem_flags::mem_threadgroup); // the chunk before is done with
      in.stage(x, from, count, tid, threads);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (tile.active) {
      multiply<W, T>(sum, tile, x, from, count, cols, lane);
    }
  }
  if (tile.active) {
    for (ushort r = 0; r < TileRows; r++) {
      for (ushort t = 0; t < T; t++) {
        sum[r][t] = simd_sum(sum[r][t]);
      }
    }
  }
}

// Makes the kernel NAME_TYPE_ROWS for every type of weights, for 1, 4 and 8 rows.
#define EACH_WEIGHT(kernel_name)                                                                                       \
  EACH_ROWS(kernel_name, F32, f32)                                                                                     \
  EACH_ROWS(kernel_name, F16, f16)                                                                                     \
  EACH_ROWS(kernel_name, BF16, bf16)                                                                                   \
  EACH_ROWS(kernel_name, Q8_0, q8_0)                                                                                   \
  EACH_ROWS(kernel_name, Q4_0, q4_0)                                                                                   \
  EACH_ROWS(kernel_name, Q5_0, q5_0)                                                                                   \
  EACH_ROWS(kernel_name, Q4_K, q4_k)                                                                                   \
  EACH_ROWS(kernel_name, Q5_K, q5_k)                                                                                   \
  EACH_ROWS(kernel_name, Q6_K, q6_k)
#define EACH_ROWS(kernel_name, W, w)                                                                                   \
  FOR_ROWS(kernel_name, W, 1, kernel_name##_##w##_1)                                                                   \
  FOR_ROWS(kernel_name, W, 4, kernel_name##_##w##_4)                                                                   \
  FOR_ROWS(kernel_name, W, 8, kernel_name##_##w##_8)
#define FOR_ROWS(kernel_name, W, T, name)                                                                              \
  template [[host_name(#name)]] kernel decltype(kernel_name<W, T>) kernel_name<W, T>;

// Makes the kernel NAME_TYPE for every type of weights.
#define EACH_TYPE(kernel_name)                                                                                         \
  FOR_TYPE(kernel_name, F32, kernel_name##_f32)                                                                        \
  FOR_TYPE(kernel_name, F16, kernel_name##_f16)                                                                        \
  FOR_TYPE(kernel_name, BF16, kernel_name##_bf16)                                                                      \
  FOR_TYPE(kernel_name, Q8_0, kernel_name##_q8_0)                                                                      \
  FOR_TYPE(kernel_name, Q4_0, kernel_name##_q4_0)                                                                      \
  FOR_TYPE(kernel_name, Q5_0, kernel_name##_q5_0)                                                                      \
  FOR_TYPE(kernel_name, Q4_K, kernel_name##_q4_k)                                                                      \
  FOR_TYPE(kernel_name, Q5_K, kernel_name##_q5_k)                                                                      \
  FOR_TYPE(kernel_name, Q6_K, kernel_name##_q6_k)
#define FOR_TYPE(kernel_name, W, name) template [[host_name(#name)]] kernel decltype(kernel_name<W>) kernel_name<W>;
