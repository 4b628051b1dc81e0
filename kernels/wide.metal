// Matrix times matrix for prefill and large batches, with simdgroup matrices: a threadgroup of four simdgroups makes
// the products of 64 rows of activations and 64 weight rows, which are dequantised on the way into threadgroup memory,
// once for each 64 rows of a pass. Its sums are in the order of the hardware's 8 × 8 products: they may differ from
// those of dot_rows in the last bits.
//
// What is staged is exact: weights that are halves stay halves, all others and the activations are floats. A
// dequantised weight is a product of a scale and an integer, of which a half would keep 11 bits of up to 18.

enum : uint {
  WideMine = WideOuts * WideStep / 4 / WideThreads, // float4s of weights that a thread fetches for a step
  WideFours = WideStep / 4,                         // float4s of a row in a step
  WideBlocks = WideStep / 8,                        // matrices of 8 × 8 in a row of matrices
};

// How weights of type W are staged.
template <typename W> struct Staged {
  typedef float element;
};
template <> struct Staged<F16> {
  typedef half element;
};
inline void wide_put(threadgroup float *to, float4 v) { *(threadgroup float4 *)to = v; }
inline void wide_put(threadgroup half *to, float4 v) { *(threadgroup half4 *)to = half4(v); }

// The weight rows that a thread fetches: it has column tid % 8 · 4 of rows wide_row(tid, i).
struct WideTile {
  device const uchar *row[WideMine];
};
inline uint wide_row(uint tid, uint i) { return tid / WideFours + i * (WideThreads / WideFours); }

// Where element (row, column) of a step is staged: in matrices of 8 × 8 that lie beside each other.
inline uint wide_place(uint row, uint c) { return ((row / 8 * WideBlocks + c / 8) * 8 + row % 8) * 8 + c % 8; }

// Columns c to c + 3 of a row of cols columns; those beyond it are zeros.
inline float4 wide_load4(device const float *row, uint c, uint cols) {
  if (c + 4 <= cols) {
    return float4(*(device const packed_float4 *)(row + c));
  }
  return float4(c < cols ? row[c] : 0.0f, c + 1 < cols ? row[c + 1] : 0.0f, c + 2 < cols ? row[c + 2] : 0.0f, 0.0f);
}

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

// out[t][o] = x[t0 + t] · weight row o, [WideRows][WideOuts], for rows that there are. Activations and weights are
// staged in the memory of out. Ends with a barrier.
template <typename W>
inline void wide_product(threadgroup float *out, thread const WideTile &tile, device const float *x, uint t0, uint rows,
                         uint cols, ushort tid, ushort sg) {
  typedef typename Staged<W>::element E;
  const W w = W();
  threadgroup float *acts = out;                                       // [WideRows][WideStep]
  threadgroup E *weights = (threadgroup E *)(out + WideRows * WideStep); // [WideOuts][WideStep]
  const uint used = min((rows - t0 + 7) / 8, uint(WideRows / 8));        // rows of matrices that there are
  // Of 8 rows of matrices a simdgroup takes every second, so that few rows keep all simdgroups busy, and half the
  // outputs.
  const ushort half_rows = sg / 2, half_outs = sg % 2, mine = (used + 1 - half_rows) / 2;
  simdgroup_float8x8 sum[4][4];
#pragma unroll
  for (ushort i = 0; i < 4; i++) {
#pragma unroll
    for (ushort j = 0; j < 4; j++) {
      sum[i][j] = make_filled_simdgroup_matrix<float, 8>(0.0f);
    }
  }
  const uint c = tid % WideFours * 4;
  for (uint k = 0; k < cols; k += WideStep) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (ushort i = 0; i < WideMine; i++) {
      const float4 v = k + c < cols ? w.at(tile.row[i], k + c) : float4(0.0f);
      wide_put(weights + wide_place(wide_row(tid, i), c), v);
    }
    for (uint t = tid / WideFours; t < used * 8; t += WideThreads / WideFours) {
      const float4 v = t0 + t < rows ? wide_load4(x + ulong(t0 + t) * cols, k + c, cols) : float4(0.0f);
      wide_put(acts + wide_place(t, c), v);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (ushort n = 0; n < WideBlocks; n++) {
      Right<E> b[4];
#pragma unroll
      for (ushort j = 0; j < 4; j++) {
        b[j].load(weights + ((half_outs * 4 + j) * WideBlocks + n) * 64, true);
      }
#pragma unroll
      for (ushort i = 0; i < 4; i++) {
        if (i < mine) {
          simdgroup_float8x8 a;
          simdgroup_load(a, acts + ((2 * i + half_rows) * WideBlocks + n) * 64, 8);
#pragma unroll
          for (ushort j = 0; j < 4; j++) {
            simdgroup_multiply_accumulate(sum[i][j], a, b[j].m, sum[i][j]);
          }
        }
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup); // the last step is done with
#pragma unroll
  for (ushort i = 0; i < 4; i++) {
#pragma unroll
    for (ushort j = 0; j < 4 && i < mine; j++) {
      simdgroup_store(sum[i][j], out + (2 * i + half_rows) * 8 * WideOuts + half_outs * 32 + 8 * j, WideOuts);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
