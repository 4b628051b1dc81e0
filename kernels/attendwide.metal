// a = softmax(q·Kᵀ/√Dh)·V over what each row may see, for passes of more than 8 rows, with simdgroup matrices.  One
// threadgroup per tile of rows and some of the query heads that share a key/value head.
//
// A simdgroup has a band: 8 rows of the tile and one query head. The slots that a tile sees are taken in blocks of 32
// beside each other, whose keys and values all bands use from threadgroup memory. Blocks begin at multiples of 32
// slots, and a key that a row does not see adds exactly nothing to it: so the result of a row does not depend on the
// rows beside it. Keys come in the order of their slots. Of heads of more than 128 elements a half of a key or value
// passes through that memory at a time.
//
// Softmax is online: m is the largest score of a row so far, l and o the sums of exp(score - m) and exp(score - m)·V,
// which are multiplied by exp(m before - m) where m grows.
struct AttendWideArgs {
  uint rows; // of the pass
  uint heads;
  uint group;      // query heads to a key/value head
  uint part_heads; // of these, for each threadgroup
  uint parts;      // threadgroups that share a group
  uint bands;      // of 8 rows in a tile: a power of two
  uint head;       // Dh
  uint head_room;
  uint slots;
  uint gated;  // in q, a gate follows each query
  float scale; // 1/√Dh
};

enum : uint {
  BlockSlots = 32,
  BandRows = 8,
  BandFloats = 320, // of threadgroup memory for each band: scores [8][32], and a matrix [8][8]
};

// A block of 32 slots that a tile sees. If mask is 0 all rows see all of it; else masks[mask - 1] has the slots that
// any row sees, a bit for each, and those that follow it have what each row of the tile sees.
struct AttendBlock {
  uint slot, mask;
};

// Keys or values of a block, 8·D elements of each from element begin on, in matrices of 8 slots × 8 elements beside
// each other: [4][D][8][8]. Elements beyond the head and slots that no row sees, which may hold anything, are zeros.
template <typename E, ushort D>
inline void block_stage(threadgroup E *to, device const uchar *from, ulong first, uint begin, uint room, uint seen,
                        uint tid, uint threads) {
  for (uint i = tid; i < BlockSlots * D; i += threads) {
    const uint j = i / D, piece = i % D, element = begin + piece * 8;
    threadgroup uint4 *at = (threadgroup uint4 *)(to + ((j / 8 * D + piece) * 8 + j % 8) * 8);
    device const uint4 *src = (device const uint4 *)from + ((first + j) * room + element) * sizeof(E) / 16;
#pragma unroll
    for (ushort n = 0; n < sizeof(E) / 2; n++) {
      at[n] = (seen >> j & 1) != 0 && element < room ? src[n] : uint4(0);
    }
  }
}

// What a lane keeps of a band: of row lane/4, whose scores lane%4·8 to lane%4·8 + 7 of a block are its own.
struct Band {
  float m, l;
};

// Turns the scores of a block into exp(score - m). Returns what the sums so far are to be multiplied by.
inline float band_softmax(thread Band &b, threadgroup float *scores, uint seen, ushort lane) {
  threadgroup float4 *mine = (threadgroup float4 *)(scores + lane * 8);
  float4 s[2] = {mine[0], mine[1]};
  float top = b.m;
#pragma unroll
  for (ushort i = 0; i < 8; i++) {
    s[i / 4][i % 4] = seen >> i & 1 ? s[i / 4][i % 4] : -FLT_MAX;
    top = max(top, s[i / 4][i % 4]);
  }
  top = max(top, simd_shuffle_xor(top, 1));
  top = max(top, simd_shuffle_xor(top, 2));
  float sum = 0.0f;
#pragma unroll
  for (ushort i = 0; i < 8; i++) {
    s[i / 4][i % 4] = seen >> i & 1 ? precise::exp(s[i / 4][i % 4] - top) : 0.0f;
    sum += s[i / 4][i % 4];
  }
  mine[0] = s[0];
  mine[1] = s[1];
  sum += simd_shuffle_xor(sum, 1);
  sum += simd_shuffle_xor(sum, 2);
  const float keep = precise::exp(b.m - top);
  b.m = top;
  b.l = fma(b.l, keep, sum);
  return keep;
}

// The work of one threadgroup, for keys and values of type E and heads of up to 8·D elements, of which 8·D/P are staged
// at a time.
template <typename E, ushort D, ushort P>
inline void attend_tile(device const float *q, device const uchar *k, device const uchar *v, device const uint2 *tiles,
                        device const AttendBlock *blocks, device const uint *masks, device float *out,
                        constant AttendWideArgs &a, threadgroup uchar *memory, uint2 at, uint tid, uint threads,
                        ushort sg, ushort lane) {
  const ushort N = D / P;                      // matrices of a slot that are staged
  const bool apart = sizeof(E) == 2 && P == 1; // keys and values have memory of their own
  threadgroup E *keys = (threadgroup E *)memory, *values = keys + (apart ? BlockSlots * 8 * N : 0);
  threadgroup float *scores = (threadgroup float *)(values + BlockSlots * 8 * N) + sg * BandFloats;
  threadgroup float *diagonal = scores + BandRows * BlockSlots;
  const uint kv_head = at.y / a.parts, in_part = sg / a.bands, in_group = at.y % a.parts * a.part_heads + in_part;
  const uint row = sg % a.bands * BandRows + lane / 4, t = at.x * a.bands * BandRows + row; // of this lane
  const bool works = in_part < a.part_heads && in_group < a.group; // the others only fetch
  const uint head = kv_head * a.group + in_group, room = a.head_room;
  const ulong base = ulong(kv_head) * a.slots, query = query_at(t, head, a.heads, a.gated, room);

  simdgroup_float8x8 queries[D], o[D];
#pragma unroll
  for (ushort i = 0; i < D; i++) {
    queries[i] = o[i] = make_filled_simdgroup_matrix<float, 8>(0.0f);
    if (works) {
#pragma unroll
      for (ushort j = 0; j < 2; j++) {
        const uint d = i * 8 + lane % 4 * 2 + j;
        diagonal[lane * 2 + j] = t < a.rows && d < a.head ? q[query + d] * a.scale : 0.0f;
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      simdgroup_load(queries[i], diagonal, 8);
      simdgroup_barrier(mem_flags::mem_threadgroup);
    }
  }
  diagonal[lane * 2] = diagonal[lane * 2 + 1] = 0.0f;
  Band band;
  band.m = -FLT_MAX;
  band.l = 0.0f;
  const uint first = tiles[at.x].x, end = tiles[at.x].y;
  for (uint b = first; b < end; b++) {
    const uint mask = blocks[b].mask;
    const ulong from = base + blocks[b].slot;
    const uint any = mask == 0 ? 0xffffffff : masks[mask - 1];
    simdgroup_float8x8 sum[BlockSlots / 8]; // q·K
#pragma unroll
    for (ushort c = 0; c < BlockSlots / 8; c++) {
      sum[c] = make_filled_simdgroup_matrix<float, 8>(0.0f);
    }
#pragma unroll
    for (ushort piece = 0; piece < P; piece++) {
      threadgroup_barrier(mem_flags::mem_threadgroup); // what was staged is done with
      block_stage<E, N>(keys, k, from, piece * 8 * N, room, any, tid, threads);
      if (apart) {
        block_stage<E, N>(values, v, from, 0, room, any, tid, threads);
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
      for (ushort i = 0; i < N && works; i++) {
#pragma unroll
        for (ushort c = 0; c < BlockSlots / 8; c++) {
          Right<E> key;
          key.load(keys + (c * N + i) * 64, true);
          simdgroup_multiply_accumulate(sum[c], queries[piece * N + i], key.m, sum[c]);
        }
      }
    }
    if (works) {
#pragma unroll
      for (ushort c = 0; c < BlockSlots / 8; c++) {
        simdgroup_store(sum[c], scores + c * 8, BlockSlots);
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      const uint seen = mask == 0 ? 255 : masks[mask + row] >> (lane % 4 * 8) & 255;
      const float keep = band_softmax(band, scores, seen, lane);
      if (simd_any(keep != 1.0f)) {
        if (lane % 4 == 0) {
          diagonal[lane / 4 * 9] = keep;
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_float8x8 by;
        simdgroup_load(by, diagonal, 8);
#pragma unroll
        for (ushort i = 0; i < D; i++) {
          simdgroup_multiply(o[i], by, o[i]);
        }
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
    }
#pragma unroll
    for (ushort piece = 0; piece < P; piece++) {
      if (!apart) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        block_stage<E, N>(values, v, from, piece * 8 * N, room, any, tid, threads);
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
#pragma unroll
      for (ushort c = 0; c < BlockSlots / 8 && works; c++) { // p·V
        simdgroup_float8x8 p;
        simdgroup_load(p, scores + c * 8, BlockSlots);
#pragma unroll
        for (ushort i = 0; i < N; i++) {
          Right<E> value;
          value.load(values + (c * N + i) * 64, false);
          simdgroup_multiply_accumulate(o[piece * N + i], p, value.m, o[piece * N + i]);
        }
      }
    }
  }
  if (!works) {
    return;
  }
#pragma unroll
  for (ushort i = 0; i < D; i++) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_store(o[i], diagonal, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (ushort j = 0; j < 2; j++) {
      const uint d = i * 8 + lane % 4 * 2 + j;
      if (t < a.rows && d < a.head) {
        const float mean = diagonal[lane * 2 + j] / band.l;
        out[(ulong(t) * a.heads + head) * a.head + d] = a.gated ? mean * q[query + room + d] : mean;
      }
    }
  }
}

// out [row][heads·Dh]. memory: keys and values of a block, then BandFloats for each simdgroup.
template <ushort D, ushort P>
kernel void attend_wide(device const float *q [[buffer(0)]], device const uchar *k [[buffer(1)]],
                        device const uchar *v [[buffer(2)]], device const uint2 *tiles [[buffer(3)]],
                        device const AttendBlock *blocks [[buffer(4)]], device const uint *masks [[buffer(5)]],
                        device float *out [[buffer(6)]], constant AttendWideArgs &a [[buffer(7)]],
                        threadgroup uchar *memory [[threadgroup(0)]], uint2 at [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]], uint2 threads [[threads_per_threadgroup]],
                        ushort sg [[simdgroup_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  if (kv_f32) {
    attend_tile<float, D, P>(q, k, v, tiles, blocks, masks, out, a, memory, at, tid, threads.x, sg, lane);
  } else {
    attend_tile<half, D, P>(q, k, v, tiles, blocks, masks, out, a, memory, at, tid, threads.x, sg, lane);
  }
}
template [[host_name("attend_wide_64")]] kernel decltype(attend_wide<8, 1>) attend_wide<8, 1>;
template [[host_name("attend_wide_128")]] kernel decltype(attend_wide<16, 1>) attend_wide<16, 1>;
template [[host_name("attend_wide_256")]] kernel decltype(attend_wide<32, 2>) attend_wide<32, 2>;
