// h = x/rms(x) ⊙ g; q = Wq h + bq, k and v alike; q and k turned by their position, k and v put into the row's slot.
// x comes as g·x and the parts of Σ x².
//
// A rotation takes elements i and i + Dh/2 of a head, so that a threadgroup takes pairs of weight rows: pair p
// is i = p % (Dh/2) of head p / (Dh/2). The pairs of q, k and v are numbered one after the other, each matrix
// from a new threadgroup on. Rows of q, k and v in scratch and in slots are padded to head_room elements a
// head; in slots the padding is zero.
struct QKVArgs {
  uint rows; // of activations
  uint cols;
  uint row_bytes[3]; // of a row of Wq, Wk and Wv
  uint pairs[3];
  uint groups[3]; // threadgroups for each
  uint bias;      // bit i: matrix i has one
  uint group_pairs; // pairs that a threadgroup takes, a multiple of TileRows
  uint parts; // of the columns: these four are those of Cut
  uint share;
  uint abreast;
  uint chunk;
  uint square_parts; // of Σ x²
  float eps;
  uint head; // Dh
  uint head_room;
  uint heads;
  uint slots;
};

// Where one threadgroup works: in matrix m, on pairs [first, end).
struct QKVPart {
  uint m, first, end;
};

inline QKVPart qkv_part(constant QKVArgs &a, uint group) {
  QKVPart p;
  p.m = 0;
  while (p.m < 2 && group >= a.groups[p.m]) {
    group -= a.groups[p.m];
    p.m++;
  }
  p.first = group * a.group_pairs;
  p.end = min(p.first + a.group_pairs, a.pairs[p.m]);
  return p;
}

// Weight row of the first element of pair p; the second is Dh/2 further on.
inline uint qkv_row(constant QKVArgs &a, uint p) {
  const uint half_head = a.head / 2;
  return p / half_head * a.head + p % half_head;
}

// Turns and stores one pair of row t. lo and hi are the products.
inline void qkv_store(constant QKVArgs &a, uint m, uint p, uint t, float lo, float hi, float scale,
                      device const float *bias, device const float2 *turn, device const uint *slot, device float *q,
                      device uchar *kv) {
  const uint half_head = a.head / 2, head = p / half_head, i = p % half_head;
  const uint row = qkv_row(a, p);
  lo *= scale;
  hi *= scale;
  if (a.bias >> m & 1) {
    lo += bias[row];
    hi += bias[row + half_head];
  }
  if (m < 2) {
    const float2 cs = turn[t * half_head + i];
    const float turned = fma(lo, cs.x, -(hi * cs.y));
    hi = fma(lo, cs.y, hi * cs.x);
    lo = turned;
  }
  if (m == 0) {
    const ulong at = (ulong(t) * a.heads + head) * a.head_room + i;
    q[at] = lo;
    q[at + half_head] = hi;
    return;
  }
  const ulong at = (ulong(head) * a.slots + slot[t]) * a.head_room + i;
  if (kv_f32) {
    ((device float *)kv)[at] = lo;
    ((device float *)kv)[at + half_head] = hi;
  } else {
    ((device half *)kv)[at] = half(lo);
    ((device half *)kv)[at + half_head] = half(hi);
  }
}

template <typename W, ushort T>
kernel void qkv(device const uchar *wq [[buffer(0)]], device const uchar *wk [[buffer(1)]],
                device const uchar *wv [[buffer(2)]], device const float *bq [[buffer(3)]],
                device const float *bk [[buffer(4)]], device const float *bv [[buffer(5)]],
                device const float *x [[buffer(6)]], device const float *squares [[buffer(7)]],
                device const float2 *turn [[buffer(8)]], device const uint *slot [[buffer(9)]],
                device float *q [[buffer(10)]], device uchar *k [[buffer(11)]], device uchar *v [[buffer(12)]],
                constant QKVArgs &a [[buffer(13)]], threadgroup float *staged [[threadgroup(0)]],
                threadgroup float *found [[threadgroup(1)]], uint group [[threadgroup_position_in_grid]],
                uint tid [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                ushort sg [[simdgroup_index_in_threadgroup]], ushort groups [[simdgroups_per_threadgroup]],
                ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float scale[T];
  const QKVPart part = qkv_part(a, group);
  device const float *bias = part.m == 0 ? bq : part.m == 1 ? bk : bv;
  device uchar *kv = part.m == 1 ? k : v;
  const Place at = place(staged, tid, threads, sg, groups, lane);
  const Cut cut = cut_of(a.cols, a.parts, a.share, a.abreast, a.chunk);
  const Rows<T> in = first_rows<T>(x, a.cols, a.rows);
  scale_rows<T>(scale, squares, in, a.square_parts, a.eps, at);
  const uint half_tiles = a.group_pairs / TileRows, size = T * 2 * a.group_pairs;
  for (uint j = sg; j < jobs(2 * half_tiles, cut, at); j += groups) {
    const uint i = j / a.abreast, p = part.first + i % half_tiles * TileRows; // the first elements, then the second
    Tile tile;
    tile.rows = i < 2 * half_tiles && p < part.end ? min(part.end - p, uint(TileRows)) : 0;
    const uint first = tile.rows > 0 ? qkv_row(a, p) : 0;
    tile.w = (part.m == 0 ? wq : part.m == 1 ? wk : wv) +
             ulong(first + (tile.rows > 0 ? i / half_tiles * (a.head / 2) : 0)) * a.row_bytes[part.m];
    for (ushort r = 0; r < TileRows; r++) {
      tile.row[r] = (qkv_row(a, p + min(uint(r), max(tile.rows, 1u) - 1)) - qkv_row(a, p)) * a.row_bytes[part.m];
    }
    dot_rows<W, T>(found + i * TileRows, size, 2 * a.group_pairs, tile, j % a.abreast, in, j == sg, cut, at);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = tid; i < a.rows * a.group_pairs; i += threads) {
    const uint t = i / a.group_pairs, j = i % a.group_pairs;
    threadgroup const float *of = found + t * 2 * a.group_pairs + j;
    if (part.first + j < part.end) {
      qkv_store(a, part.m, part.first + j, t, joined(of, a.parts, size), joined(of + a.group_pairs, a.parts, size),
                scale[t], bias, turn, slot, q, kv);
    }
  }
}
EACH_ROWS(qkv)

template <typename W>
kernel void qkv_wide(device const uchar *wq [[buffer(0)]], device const uchar *wk [[buffer(1)]],
                     device const uchar *wv [[buffer(2)]], device const float *bq [[buffer(3)]],
                     device const float *bk [[buffer(4)]], device const float *bv [[buffer(5)]],
                     device const float *x [[buffer(6)]], device const float *squares [[buffer(7)]],
                     device const float2 *turn [[buffer(8)]], device const uint *slot [[buffer(9)]],
                     device float *q [[buffer(10)]], device uchar *k [[buffer(11)]], device uchar *v [[buffer(12)]],
                     constant QKVArgs &a [[buffer(13)]], uint2 group [[threadgroup_position_in_grid]],
                     ushort tid [[thread_index_in_threadgroup]], ushort sg [[simdgroup_index_in_threadgroup]],
                     ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float out[WideRows * WideOuts], scale[WideRows];
  const QKVPart part = qkv_part(a, group.x);
  device const uchar *w = part.m == 0 ? wq : part.m == 1 ? wk : wv;
  device const float *bias = part.m == 0 ? bq : part.m == 1 ? bk : bv;
  device uchar *kv = part.m == 1 ? k : v;
  const uint t0 = group.y * WideRows;
  wide_scales(scale, squares, t0, a.rows, a.square_parts, a.cols, a.eps, sg, lane);
  WideTile tile;
  for (ushort i = 0; i < WideMine; i++) { // the first half of the tile's rows are the first elements of its pairs
    const uint j = wide_row(tid, i);
    const uint row = qkv_row(a, min(part.first + j % (WideOuts / 2), part.end - 1)) + j / (WideOuts / 2) * (a.head / 2);
    tile.row[i] = w + ulong(row) * a.row_bytes[part.m];
  }
  wide_product<W>(out, tile, x, t0, a.rows, a.cols, tid, sg);
  for (uint i = tid; i < WideRows * WideOuts / 2; i += WideThreads) {
    const uint t = i / (WideOuts / 2), j = i % (WideOuts / 2);
    if (t0 + t < a.rows && part.first + j < part.end) {
      qkv_store(a, part.m, part.first + j, t0 + t, out[t * WideOuts + j], out[t * WideOuts + j + WideOuts / 2],
                scale[t], bias, turn, slot, q, kv);
    }
  }
}
EACH_TYPE(qkv_wide)
