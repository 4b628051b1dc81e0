// h = x/rms(x) ⊙ g; m = silu(Wg h + bg) ⊙ (Wu h + bu).  x comes as g·x and the parts of Σ x².
struct GateUpArgs {
  uint rows; // of activations
  uint outs; // F: rows of each weight
  uint cols;
  uint gate_bytes; // of a row
  uint up_bytes;
  uint bias;        // bit 0: Wg has one; bit 1: Wu
  uint group_pairs; // pairs of a gate and an up row that a threadgroup takes, a multiple of TileRows
  uint parts; // of the columns: these four are those of Cut
  uint share;
  uint abreast;
  uint chunk;
  uint square_parts; // of Σ x²
  float eps;
  uint mode; // weights of two types go one after the other: 1 leaves Wu h + bu in m, 2 finds it there; otherwise 0
};

inline void gate_store(constant GateUpArgs &a, ulong t, uint i, float gate, float up, float scale,
                       device const float *bg, device const float *bu, device float *m) {
  gate *= scale;
  up *= scale;
  if (a.bias & 1) {
    gate += bg[i];
  }
  if (a.bias & 2) {
    up += bu[i];
  }
  if (a.mode == 2) {
    up = m[t * a.outs + i];
  }
  m[t * a.outs + i] = a.mode == 1 ? up : silu(gate) * up;
}

template <typename W, ushort T>
kernel void gateup(device const uchar *wg [[buffer(0)]], device const uchar *wu [[buffer(1)]],
                   device const float *bg [[buffer(2)]], device const float *bu [[buffer(3)]],
                   device const float *x [[buffer(4)]], device const float *squares [[buffer(5)]],
                   device float *m [[buffer(6)]], constant GateUpArgs &a [[buffer(7)]],
                   threadgroup float *staged [[threadgroup(0)]], threadgroup float *found [[threadgroup(1)]],
                   uint group [[threadgroup_position_in_grid]],
                   uint tid [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                   ushort sg [[simdgroup_index_in_threadgroup]], ushort groups [[simdgroups_per_threadgroup]],
                   ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float scale[T];
  const uint begin = group * a.group_pairs, end = min(begin + a.group_pairs, a.outs);
  const Place at = place(staged, tid, threads, sg, groups, lane);
  const Cut cut = cut_of(a.cols, a.parts, a.share, a.abreast, a.chunk);
  const Rows<T> in = first_rows<T>(x, a.cols, a.rows);
  scale_rows<T>(scale, squares, in, a.square_parts, a.eps, at);
  const uint half_tiles = a.group_pairs / TileRows, size = T * 2 * a.group_pairs;
  for (uint j = sg; j < jobs(2 * half_tiles, cut, at); j += groups) {
    const uint i = j / a.abreast; // of the gate, then of up
    const uint first = begin + i % half_tiles * TileRows, stop = i < 2 * half_tiles ? end : 0;
    const Tile tile =
        i < half_tiles ? rows_tile(wg, a.gate_bytes, first, stop) : rows_tile(wu, a.up_bytes, first, stop);
    dot_rows<W, T>(found + i * TileRows, size, 2 * a.group_pairs, tile, j % a.abreast, in, j == sg, cut, at);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = tid; i < a.rows * a.group_pairs; i += threads) {
    const uint t = i / a.group_pairs, j = i % a.group_pairs;
    threadgroup const float *of = found + t * 2 * a.group_pairs + j;
    if (begin + j < end) {
      gate_store(a, t, begin + j, joined(of, a.parts, size), joined(of + a.group_pairs, a.parts, size), scale[t], bg,
                 bu, m);
    }
  }
}
EACH_ROWS(gateup)

template <typename W>
kernel void gateup_wide(device const uchar *wg [[buffer(0)]], device const uchar *wu [[buffer(1)]],
                        device const float *bg [[buffer(2)]], device const float *bu [[buffer(3)]],
                        device const float *x [[buffer(4)]], device const float *squares [[buffer(5)]],
                        device float *m [[buffer(6)]], constant GateUpArgs &a [[buffer(7)]],
                        uint2 group [[threadgroup_position_in_grid]], ushort tid [[thread_index_in_threadgroup]],
                        ushort sg [[simdgroup_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float out[WideRows * WideOuts], scale[WideRows];
  const uint begin = group.x * (WideOuts / 2), end = min(begin + WideOuts / 2, a.outs), t0 = group.y * WideRows;
  wide_scales(scale, squares, t0, a.rows, a.square_parts, a.cols, a.eps, sg, lane);
  WideTile tile;
  for (ushort i = 0; i < WideMine; i++) {
    const uint j = wide_row(tid, i), row = min(begin + j % (WideOuts / 2), end - 1);
    tile.row[i] = j < WideOuts / 2 ? wg + ulong(row) * a.gate_bytes : wu + ulong(row) * a.up_bytes;
  }
  wide_product<W>(out, tile, x, t0, a.rows, a.cols, tid, sg);
  for (uint i = tid; i < WideRows * WideOuts / 2; i += WideThreads) {
    const uint t = i / (WideOuts / 2), j = i % (WideOuts / 2);
    if (t0 + t < a.rows && begin + j < end) {
      gate_store(a, t0 + t, begin + j, out[t * WideOuts + j], out[t * WideOuts + j + WideOuts / 2], scale[t], bg,
                 bu, m);
    }
  }
}
EACH_TYPE(gateup_wide)
