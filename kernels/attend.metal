// a = softmax(q·Kᵀ/√Dh)·V over what each row may see.  One threadgroup per split, key/value head, and row.
//
// Visible keys are counted in the order of the row's spans, so that it does not matter where in memory they lie. They
// are divided into splits, as many as their number alone asks for; each split leaves its result, already divided by its
// own sum, beside the largest score m and the sum l of exp(score - m). Who reads the result joins them. Keys and values
// are fetched once for all query heads that share them, a tile at a time.
struct AttendArgs {
  uint heads;
  uint group; // query heads to a key/value head
  uint head;  // Dh
  uint head_room;
  uint slots;
  uint tile;       // keys in threadgroup memory at a time, at most 32
  uint max_splits; // room for splits in out and ml
  float scale;     // 1/√Dh
};

enum : uint { AttendThreads = 256, AttendSums = 8 }; // a threadgroup has room for group · head ≤ 2048 outputs

inline float kv_at(device const uchar *p, ulong i) {
  return kv_f32 ? ((device const float *)p)[i] : float(((device const half *)p)[i]);
}

// out [row][max_splits][heads·Dh], ml [row][max_splits][heads].
kernel void attend(device const float *q [[buffer(0)]], device const uchar *k [[buffer(1)]],
                   device const uchar *v [[buffer(2)]], device const AttendRow *rows [[buffer(3)]],
                   device const uint2 *spans [[buffer(4)]], device float *out [[buffer(5)]],
                   device float2 *ml [[buffer(6)]], constant AttendArgs &a [[buffer(7)]],
                   threadgroup float *qs [[threadgroup(0)]],    // [group][head_room]
                   threadgroup float *keys [[threadgroup(1)]],   // [tile][head_room + 1]
                   threadgroup float *values [[threadgroup(2)]], // [tile][head_room]
                   threadgroup float *scores [[threadgroup(3)]], // [group][32]
                   threadgroup float *state [[threadgroup(4)]],  // [group][3]: m, l, what to multiply the sums by
                   uint3 at [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                   ushort sg [[simdgroup_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup uint slot[32];
  const uint t = at.z, kv_head = at.y, split = at.x;
  const uint splits = rows[t].splits, visible = rows[t].visible;
  if (split >= splits) {
    return;
  }
  const uint share = (visible + splits - 1) / splits;
  const uint begin = min(split * share, visible), end = min(begin + share, visible);
  const uint room = a.head_room, outs = a.group * room;
  device const uchar *ks = k, *vs = v;
  const ulong base = ulong(kv_head) * a.slots;
  for (uint i = tid; i < outs; i += AttendThreads) {
    const ulong e = (ulong(t) * a.heads + kv_head * a.group) * room + i;
    qs[i] = i % room < a.head ? q[e] * a.scale : 0.0f;
  }
  for (uint h = tid; h < a.group; h += AttendThreads) {
    state[h * 3] = -FLT_MAX;
    state[h * 3 + 1] = 0.0f;
  }
  float sum[AttendSums];
  for (ushort i = 0; i < AttendSums; i++) {
    sum[i] = 0.0f;
  }
  for (uint first = begin; first < end; first += a.tile) {
    const uint n = min(a.tile, end - first);
    if (tid < n) { // where the tile's keys lie
      uint i = first + tid, s = rows[t].first_span;
      while (i >= spans[s].y - spans[s].x) {
        i -= spans[s].y - spans[s].x;
        s++;
      }
      slot[tid] = spans[s].x + i;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = tid; i < n * room; i += AttendThreads) {
      const uint j = i / room, d = i % room;
      const ulong e = (base + slot[j]) * room + d;
      keys[j * (room + 1) + d] = kv_at(ks, e);
      values[i] = kv_at(vs, e);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = tid; i < a.group * 32; i += AttendThreads) { // q·K
      const uint h = i / 32, j = i % 32;
      float dot = 0.0f;
      if (j < n) {
        for (uint d = 0; d < room; d++) {
          dot = fma(qs[h * room + d], keys[j * (room + 1) + d], dot);
        }
      }
      scores[i] = dot;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint h = sg; h < a.group; h += AttendThreads / 32) {
      const float s = lane < n ? scores[h * 32 + lane] : -FLT_MAX;
      const float before = simd_broadcast_first(lane == 0 ? state[h * 3] : 0.0f); // lane 0 alone touches it here
      const float m = max(before, simd_max(s));
      const float p = lane < n ? precise::exp(s - m) : 0.0f;
      const float total = simd_sum(p);
      scores[h * 32 + lane] = p;
      if (lane == 0) {
        const float keep = precise::exp(before - m);
        state[h * 3] = m;
        state[h * 3 + 1] = fma(state[h * 3 + 1], keep, total);
        state[h * 3 + 2] = keep;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (ushort i = 0; i < AttendSums; i++) { // p·V
      const uint o = tid + i * AttendThreads, h = o / room, d = o % room;
      if (o < outs) {
        float s = sum[i] * state[h * 3 + 2];
        for (uint j = 0; j < n; j++) {
          s = fma(scores[h * 32 + j], values[j * room + d], s);
        }
        sum[i] = s;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  const ulong part = ulong(t) * a.max_splits + split;
  for (ushort i = 0; i < AttendSums; i++) {
    const uint o = tid + i * AttendThreads, h = o / room, d = o % room;
    if (o < outs && d < a.head) {
      out[(part * a.heads + kv_head * a.group + h) * a.head + d] = sum[i] / state[h * 3 + 1];
    }
  }
  for (uint h = tid; h < a.group; h += AttendThreads) {
    ml[part * a.heads + kv_head * a.group + h] = float2(state[h * 3], state[h * 3 + 1]);
  }
}
