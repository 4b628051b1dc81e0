// Matrix times matrix for prefill and large batches, with simdgroup matrices: a threadgroup of four simdgroups
// makes the products of 32 rows of activations and 64 weight rows, which are dequantised to float on the way
// into threadgroup memory. Its sums are in the order of the hardware's 8 × 8 products: they may differ from
// those of dot_rows in the last bits.

enum : uint { WideMine = WideOuts * WideStep / 4 / WideThreads }; // quads of weights that a thread fetches for a step

// The weight rows that a thread fetches: it has column tid % 8 · 4 of rows wide_row(tid, i).
struct WideTile {
  device const uchar *row[WideMine];
};
inline uint wide_row(uint tid, uint i) { return tid / (WideStep / 4) + i * (WideThreads / (WideStep / 4)); }

// scale[t] = 1/rms of row t0 + t.
inline void wide_scales(threadgroup float *scale, device const float *squares, uint t0, uint rows, uint parts,
                        uint cols, float eps, ushort sg, ushort lane) {
  for (uint t = sg; t < WideRows && t0 + t < rows; t += WideThreads / 32) {
    const float r = inverse_rms(squares + ulong(t0 + t) * parts, parts, cols, eps, lane);
    if (lane == 0) {
      scale[t] = r;
    }
  }
}

// out[t][o] = x[t0 + t] · weight row o. Ends with a barrier.
template <typename W>
inline void wide_product(threadgroup float *out, thread const WideTile &tile, device const float *x, uint t0, uint rows,
                         uint cols, threadgroup float *acts, threadgroup float *weights, ushort tid, ushort sg) {
  const W w = W();
  simdgroup_float8x8 sum[4][2]; // 32 rows of activations × 16 weight rows
  for (ushort i = 0; i < 4; i++) {
    for (ushort j = 0; j < 2; j++) {
      sum[i][j] = make_filled_simdgroup_matrix<float, 8>(0.0f);
    }
  }
  const uint c = tid % (WideStep / 4) * 4;
  for (uint k = 0; k < cols; k += WideStep) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (ushort i = 0; i < WideMine; i++) {
      const float4 v = k + c < cols ? w.at(tile.row[i], k + c) : float4(0.0f);
      *(threadgroup float4 *)(weights + wide_row(tid, i) * WideStep + c) = v;
    }
    for (uint i = tid; i < WideRows * WideStep; i += WideThreads) {
      const uint t = i / WideStep, col = k + i % WideStep;
      acts[i] = t0 + t < rows && col < cols ? x[ulong(t0 + t) * cols + col] : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (ushort n = 0; n < WideStep; n += 8) {
      simdgroup_float8x8 a[4], b[2];
      for (ushort i = 0; i < 4; i++) {
        simdgroup_load(a[i], acts + 8 * i * WideStep + n, WideStep);
      }
      for (ushort j = 0; j < 2; j++) {
        simdgroup_load(b[j], weights + (sg * 16 + 8 * j) * WideStep + n, WideStep, ulong2(0, 0), true);
      }
      for (ushort i = 0; i < 4; i++) {
        for (ushort j = 0; j < 2; j++) {
          simdgroup_multiply_accumulate(sum[i][j], a[i], b[j], sum[i][j]);
        }
      }
    }
  }
  for (ushort i = 0; i < 4; i++) {
    for (ushort j = 0; j < 2; j++) {
      simdgroup_store(sum[i][j], out + 8 * i * WideOuts + sg * 16 + 8 * j, WideOuts);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
