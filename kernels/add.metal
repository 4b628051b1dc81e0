// x = x + W h + b, and what the next norm wants: g·x and the parts of Σ x².  h is the attention or the inside of the
// feed-forward block. Of the attention there may be several splits, which are joined while they are fetched.
struct AddArgs {
  uint rows; // of activations
  uint outs; // weight rows
  uint cols;
  uint row_bytes;
  uint bias;       // W has one
  uint gain;       // a norm follows
  uint group_rows; // weight rows that a threadgroup takes; as many threadgroups leave parts of Σ x²
  uint parts;      // of the columns: these four are those of Cut
  uint share;
  uint abreast;
  uint chunk;
  uint splits; // room for splits in h; 1 means that h is one plain row for each row of x
  uint heads;  // with splits
  uint head;   // Dh, with splits
};

// The results of attention as activations: h [rows][splits][cols], ml [rows][splits][heads].
template <ushort T> struct Splits {
  device const float *h;
  device const float2 *ml;
  device const AttendRow *rows;
  threadgroup float *share; // [splits][heads] of one row: what its splits count for
  uint n, splits, heads, head, cols;

  void stage(threadgroup float *to, uint from, uint count, uint tid, uint threads) const {
    const uint width = staged_width(count);
    const uint whole = threads / head, rest = threads % head; // heads from one column of a thread to its next
    for (ushort t = 0; t < T; t++) {
      const uint used = t < n && splits > 1 ? rows[t].splits : 1;
      device const float *src = h + ulong(t) * splits * cols + from;
      if (used > 1) {
        weigh(t, used, tid, threads);
      }
      uint of = (from + tid) / head, in_head = (from + tid) % head; // where column c lies
      for (uint c = tid; c < width; c += threads) {
        float v = 0.0f;
        if (t < n && c < count) {
          if (used == 1) {
            v = src[c];
          } else {
            for (uint s = 0; s < used; s++) {
              v = fma(share[s * heads + of], src[ulong(s) * cols + c], v);
            }
          }
        }
        to[t * width + c] = v;
        of += whole;
        in_head += rest;
        if (in_head >= head) {
          in_head -= head;
          of++;
        }
      }
    }
  }

  // share[s][i] = l·exp(m - max m) of split s over the sum of that for all splits.
  void weigh(uint t, uint used, uint tid, uint threads) const {
    threadgroup_barrier(mem_flags::mem_threadgroup); // the row before is done with
    for (uint i = tid; i < heads; i += threads) {
      device const float2 *of = ml + ulong(t) * splits * heads + i;
      float m = -FLT_MAX, sum = 0.0f;
      for (uint s = 0; s < used; s++) {
        m = max(m, of[s * heads].x);
      }
      for (uint s = 0; s < used; s++) {
        sum = fma(of[s * heads].y, precise::exp(of[s * heads].x - m), sum);
      }
      for (uint s = 0; s < used; s++) {
        share[s * heads + i] = of[s * heads].y * precise::exp(of[s * heads].x - m) / sum;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
};

// Adds up row i of x, and prepares it for the norm. Returns the new value.
inline float add_store(constant AddArgs &a, ulong t, uint i, float product, device const float *bias,
                       device const float *gain, device float *x, device float *normed) {
  if (a.bias) {
    product += bias[i];
  }
  const float v = x[t * a.outs + i] + product;
  x[t * a.outs + i] = v;
  if (a.gain) {
    normed[t * a.outs + i] = v * gain[i];
  }
  return v;
}

template <typename W, ushort T>
kernel void add(device const uchar *w [[buffer(0)]], device const float *bias [[buffer(1)]],
                device const float *h [[buffer(2)]], device const float2 *ml [[buffer(3)]],
                device const AttendRow *rows [[buffer(4)]], device const float *gain [[buffer(5)]],
                device float *x [[buffer(6)]], device float *normed [[buffer(7)]], device float *squares [[buffer(8)]],
                constant AddArgs &a [[buffer(9)]], threadgroup float *staged [[threadgroup(0)]],
                threadgroup float *found [[threadgroup(1)]], threadgroup float *share [[threadgroup(2)]],
                uint group [[threadgroup_position_in_grid]],
                uint tid [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                uint grid [[threadgroups_per_grid]], ushort sg [[simdgroup_index_in_threadgroup]],
                ushort groups [[simdgroups_per_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  const uint begin = group * a.group_rows, end = min(begin + a.group_rows, a.outs);
  const Place at = place(staged, tid, threads, sg, groups, lane);
  const Cut cut = cut_of(a.cols, a.parts, a.share, a.abreast, a.chunk);
  Splits<T> in;
  in.h = h;
  in.ml = ml;
  in.rows = rows;
  in.share = share;
  in.n = a.rows;
  in.splits = a.splits;
  in.heads = a.heads;
  in.head = a.head;
  in.cols = a.cols;
  const uint tiles = a.group_rows / TileRows, size = T * a.group_rows;
  for (uint j = sg; j < jobs(tiles, cut, at); j += groups) {
    const uint i = j / a.abreast;
    const Tile tile = rows_tile(w, a.row_bytes, begin + i * TileRows, i < tiles ? end : 0);
    dot_rows<W, T>(found + i * TileRows, size, a.group_rows, tile, j % a.abreast, in, j == sg, cut, at);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = tid; i < a.rows * a.group_rows; i += threads) {
    const uint t = i / a.group_rows, row = begin + i % a.group_rows;
    if (row < end) {
      found[i] = add_store(a, t, row, joined(found + i, a.parts, size), bias, gain, x, normed);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint t = sg; t < a.rows; t += groups) {
    float sum = 0.0f;
    for (uint i = lane; i < end - begin; i += 32) {
      const float v = found[t * a.group_rows + i];
      sum = fma(v, v, sum);
    }
    sum = simd_sum(sum);
    if (lane == 0) {
      squares[t * grid + group] = sum;
    }
  }
}
EACH_ROWS(add)

template <typename W>
kernel void add_wide(device const uchar *w [[buffer(0)]], device const float *bias [[buffer(1)]],
                     device const float *h [[buffer(2)]], device const float *gain [[buffer(5)]],
                     device float *x [[buffer(6)]], device float *normed [[buffer(7)]],
                     device float *squares [[buffer(8)]], constant AddArgs &a [[buffer(9)]],
                     uint2 group [[threadgroup_position_in_grid]], uint2 grid [[threadgroups_per_grid]],
                     ushort tid [[thread_index_in_threadgroup]], ushort sg [[simdgroup_index_in_threadgroup]],
                     ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float out[WideRows * WideOuts];
  const uint begin = group.x * WideOuts, end = min(begin + WideOuts, a.outs), t0 = group.y * WideRows;
  WideTile tile;
  for (ushort i = 0; i < WideMine; i++) {
    tile.row[i] = w + ulong(min(begin + wide_row(tid, i), end - 1)) * a.row_bytes;
  }
  wide_product<W>(out, tile, h, t0, a.rows, a.cols, tid, sg);
  for (uint t = sg; t < WideRows && t0 + t < a.rows; t += WideThreads / 32) {
    float sum = 0.0f;
    for (uint i = lane; i < end - begin; i += 32) {
      const float v = add_store(a, t0 + t, begin + i, out[t * WideOuts + i], bias, gain, x, normed);
      sum = fma(v, v, sum);
    }
    sum = simd_sum(sum);
    if (lane == 0) {
      squares[ulong(t0 + t) * grid.x + group.x] = sum;
    }
  }
}
EACH_TYPE(add_wide)
