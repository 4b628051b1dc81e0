// h = x/rms(x) ⊙ g; q = Wq h + bq, k and v alike; with norms of heads, each head h of q and k is h/rms(h) ⊙ g; q and k
// turned by their position, k and v put into the row's slot. x comes as g·x and the parts of Σ x².
//
// A rotation takes elements i and i + R/2 of the first R of a head, so that a threadgroup takes pairs of weight rows:
// pair p is i = p % (Dh/2) of head p / (Dh/2). The elements after the first R are pairs too, whose angle is 0. The
// pairs of q, k and v are numbered one after the other, each matrix from a new threadgroup on. With gates, every
// second head of q is one: its elements become sigmoid(gate). With norms of heads a threadgroup takes the pairs of one
// head, and a simdgroup all of them for a row, so that one sum over its lanes gives rms(h). Rows of q, k and v in
// scratch and in slots are padded to head_room elements a head; in slots the padding is zero.
struct QKVArgs {
  uint rows; // of activations
  uint cols;
  uint row_bytes[3]; // of a row of Wq, Wk and Wv
  uint pairs[3];
  uint groups[3]; // threadgroups for each
  uint bias;      // bit i: matrix i has one
  uint norms;     // bit i: its heads have one
  float head_eps[2]; // of the norms of q and k
  uint group_pairs; // pairs that a threadgroup has room for, a multiple of TileRows
  uint step;        // pairs that it takes: at most that many, with norms of heads those of a head
  uint parts; // of the columns: these four are those of Cut
  uint share;
  uint abreast;
  uint chunk;
  uint square_parts; // of Σ x²
  float eps;
  uint head;    // Dh
  uint rotated; // R
  uint head_room;
  uint heads; // of q, with gates
  uint gated; // q has gates
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
  p.first = group * a.step;
  p.end = min(p.first + a.step, a.pairs[p.m]);
  return p;
}

// The first and the second element of the head of pair p.
inline uint2 qkv_elements(constant QKVArgs &a, uint p) {
  const uint i = p % (a.head / 2), half_turn = a.rotated / 2;
  return i < half_turn ? uint2(i, i + half_turn) : uint2(i + half_turn, i + a.head / 2);
}

// Weight rows of these elements.
inline uint2 qkv_rows(constant QKVArgs &a, uint p) { return p / (a.head / 2) * a.head + qkv_elements(a, p); }

// Whether a pair is of a gate.
inline bool qkv_gates(constant QKVArgs &a, uint m, uint p) { return m == 0 && a.gated && p / (a.head / 2) % 2 > 0; }

// Pair p of one row of activations: its products lo and hi, scaled, with their biases.
inline float2 qkv_pair(constant QKVArgs &a, uint m, uint p, float lo, float hi, float scale, device const float *bias) {
  float2 pair = float2(lo * scale, hi * scale);
  if (a.bias >> m & 1) {
    const uint2 row = qkv_rows(a, p);
    pair += float2(bias[row.x], bias[row.y]);
  }
  return pair;
}

// 1/rms of a head, from the sum of its squares.
inline float qkv_inverse(constant QKVArgs &a, uint m, float squares) {
  return 1.0f / precise::sqrt(squares / float(a.head) + a.head_eps[m]);
}

// Pair p of a head with a norm. r is 1/rms of the head.
inline float2 qkv_normed(constant QKVArgs &a, uint p, float2 pair, float r, device const float *gain) {
  const uint2 i = qkv_elements(a, p);
  return float2(pair.x * r * gain[i.x], pair.y * r * gain[i.y]);
}

// Turns and stores pair p of row t.
inline void qkv_store(constant QKVArgs &a, uint m, uint p, uint t, float2 pair, device const float2 *turn,
                      device const uint *slot, device float *q, device uchar *kv) {
  const uint half_head = a.head / 2, head = p / half_head, i = p % half_head;
  const uint2 element = qkv_elements(a, p);
  float lo = pair.x, hi = pair.y;
  if (qkv_gates(a, m, p)) {
    lo = sigmoid(lo);
    hi = sigmoid(hi);
  } else if (m < 2) {
    const float2 cs = turn[t * half_head + i];
    const float turned = fma(lo, cs.x, -(hi * cs.y));
    hi = fma(lo, cs.y, hi * cs.x);
    lo = turned;
  }
  if (m == 0) {
    const ulong at = (ulong(t) * a.heads + head) * a.head_room;
    q[at + element.x] = lo;
    q[at + element.y] = hi;
    return;
  }
  const ulong at = (ulong(head) * a.slots + slot[t]) * a.head_room;
  if (kv_f32) {
    ((device float *)kv)[at + element.x] = lo;
    ((device float *)kv)[at + element.y] = hi;
  } else {
    ((device half *)kv)[at + element.x] = half(lo);
    ((device half *)kv)[at + element.y] = half(hi);
  }
}

// Pair p of row t, from the products of the parts of the columns, which are size after each other.
inline float2 qkv_found(constant QKVArgs &a, thread const QKVPart &part, uint p, uint t, threadgroup const float *found,
                        uint size, float scale, device const float *bias) {
  threadgroup const float *of = found + t * 2 * a.group_pairs + p - part.first;
  return qkv_pair(a, part.m, p, joined(of, a.parts, size), joined(of + a.group_pairs, a.parts, size), scale, bias);
}

template <typename W, ushort T>
kernel void qkv(device const uchar *wq [[buffer(0)]], device const uchar *wk [[buffer(1)]],
                device const uchar *wv [[buffer(2)]], device const float *bq [[buffer(3)]],
                device const float *bk [[buffer(4)]], device const float *bv [[buffer(5)]],
                device const float *x [[buffer(6)]], device const float *squares [[buffer(7)]],
                device const float2 *turn [[buffer(8)]], device const uint *slot [[buffer(9)]],
                device float *q [[buffer(10)]], device uchar *k [[buffer(11)]], device uchar *v [[buffer(12)]],
                device const float *gq [[buffer(13)]], device const float *gk [[buffer(14)]],
                constant QKVArgs &a [[buffer(15)]], threadgroup float *staged [[threadgroup(0)]],
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
    const uint2 first = tile.rows > 0 ? qkv_rows(a, p) : uint2(0);
    const bool second = i >= half_tiles;
    tile.w = (part.m == 0 ? wq : part.m == 1 ? wk : wv) + ulong(second ? first.y : first.x) * a.row_bytes[part.m];
    for (ushort r = 0; r < TileRows; r++) { // rows rise with pairs
      const uint2 row = qkv_rows(a, p + min(uint(r), max(tile.rows, 1u) - 1)) - qkv_rows(a, p);
      tile.row[r] = (second ? row.y : row.x) * a.row_bytes[part.m];
    }
    dot_rows<W, T>(found + i * TileRows, size, 2 * a.group_pairs, tile, j % a.abreast, in, j == sg, cut, at);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const bool normed = (a.norms >> part.m & 1) != 0 && !qkv_gates(a, part.m, part.first);
  for (uint t = sg; normed && t < a.rows; t += groups) { // a simdgroup takes the whole head of a row
    float squares = 0.0f;
    for (uint p = part.first + lane; p < part.end; p += 32) {
      const float2 pair = qkv_found(a, part, p, t, found, size, scale[t], bias);
      squares = fma(pair.x, pair.x, fma(pair.y, pair.y, squares));
    }
    const float r = qkv_inverse(a, part.m, simd_sum(squares));
    for (uint p = part.first + lane; p < part.end; p += 32) {
      const float2 pair = qkv_found(a, part, p, t, found, size, scale[t], bias);
      qkv_store(a, part.m, p, t, qkv_normed(a, p, pair, r, part.m == 0 ? gq : gk), turn, slot, q, kv);
    }
  }
  for (uint i = tid; !normed && i < a.rows * a.group_pairs; i += threads) {
    const uint t = i / a.group_pairs, p = part.first + i % a.group_pairs;
    if (p < part.end) {
      qkv_store(a, part.m, p, t, qkv_found(a, part, p, t, found, size, scale[t], bias), turn, slot, q, kv);
    }
  }
}
EACH_ROWS(qkv)

enum : uint { WidePairs = WideOuts / 2 }; // of a tile: one for each lane of a simdgroup

// Where the head of pair p of row t waits in scratch for the sum of its squares: where those of q belong, and for k
// after all of q.
inline device float *qkv_held(constant QKVArgs &a, uint m, uint p, uint t, device float *q) {
  const uint half_head = a.head / 2, head = p / half_head;
  const uint heads = m == 0 ? t * a.heads : a.rows * a.heads + t * (a.pairs[1] / half_head);
  return q + ulong(heads + head) * a.head_room;
}

template <typename W>
kernel void qkv_wide(device const uchar *wq [[buffer(0)]], device const uchar *wk [[buffer(1)]],
                     device const uchar *wv [[buffer(2)]], device const float *bq [[buffer(3)]],
                     device const float *bk [[buffer(4)]], device const float *bv [[buffer(5)]],
                     device const float *x [[buffer(6)]], device const float *squares [[buffer(7)]],
                     device const float2 *turn [[buffer(8)]], device const uint *slot [[buffer(9)]],
                     device float *q [[buffer(10)]], device uchar *k [[buffer(11)]], device uchar *v [[buffer(12)]],
                     device const float *gq [[buffer(13)]], device const float *gk [[buffer(14)]],
                     constant QKVArgs &a [[buffer(15)]], uint2 group [[threadgroup_position_in_grid]],
                     ushort tid [[thread_index_in_threadgroup]], ushort sg [[simdgroup_index_in_threadgroup]],
                     ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float out[WideRows * WideOuts], scale[WideRows], squares_of[WideRows];
  const QKVPart part = qkv_part(a, group.x);
  device const uchar *w = part.m == 0 ? wq : part.m == 1 ? wk : wv;
  device const float *bias = part.m == 0 ? bq : part.m == 1 ? bk : bv;
  device uchar *kv = part.m == 1 ? k : v;
  const bool normed = (a.norms >> part.m & 1) != 0 && !qkv_gates(a, part.m, part.first);
  const uint t0 = group.y * WideRows, rows = min(a.rows - t0, uint(WideRows));
  wide_scales(scale, squares, t0, a.rows, a.square_parts, a.cols, a.eps, sg, lane);
  for (uint first = part.first; first < part.end; first += WidePairs) {
    WideTile tile;
    for (ushort i = 0; i < WideMine; i++) { // the first half of the tile's rows are the first elements of its pairs
      const uint j = wide_row(tid, i);
      const uint2 row = qkv_rows(a, min(first + j % WidePairs, part.end - 1));
      tile.row[i] = w + ulong(j < WidePairs ? row.x : row.y) * a.row_bytes[part.m];
    }
    wide_product<W>(out, tile, x, t0, a.rows, a.cols, tid, sg);
    const uint p = first + lane; // a simdgroup has all pairs of a row
    for (uint t = sg; t < rows; t += WideThreads / 32) {
      float2 pair = float2(0.0f, 0.0f);
      if (p < part.end) {
        threadgroup const float *of = out + t * WideOuts + lane;
        pair = qkv_pair(a, part.m, p, of[0], of[WidePairs], scale[t], bias);
        if (normed) {
          device float *held = qkv_held(a, part.m, p, t0 + t, q);
          const uint2 element = qkv_elements(a, p);
          held[element.x] = pair.x;
          held[element.y] = pair.y;
        } else {
          qkv_store(a, part.m, p, t0 + t, pair, turn, slot, q, kv);
        }
      }
      if (normed) {
        const float sum = simd_sum(fma(pair.x, pair.x, pair.y * pair.y));
        if (lane == 0) {
          squares_of[t] = first == part.first ? sum : squares_of[t] + sum;
        }
      }
    }
  }
  if (!normed) {
    return;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint t = sg; t < rows; t += WideThreads / 32) {
    const float r = qkv_inverse(a, part.m, squares_of[t]);
    for (uint p = part.first + lane; p < part.end; p += WidePairs) { // each thread reads what it has written
      device const float *held = qkv_held(a, part.m, p, t0 + t, q);
      const uint2 element = qkv_elements(a, p);
      const float2 pair = qkv_normed(a, p, float2(held[element.x], held[element.y]), r, part.m == 0 ? gq : gk);
      qkv_store(a, part.m, p, t0 + t, pair, turn, slot, q, kv);
    }
  }
}
EACH_TYPE(qkv_wide)
