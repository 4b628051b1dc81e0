// a = softmax(q·Kᵀ/√Dh)·V over what a row may see, times its gates, for passes of 1 to 8 rows.  One threadgroup per
// split, up to H query heads that share a key/value head, and row.
//
// Visible keys are counted in the order of the row's spans, so that it does not matter where in memory they lie. They
// are divided into splits, as many as their number alone asks for; each split leaves its result, already divided by its
// own sum, beside the largest score m and the sum l of exp(score - m). Who reads the result joins them.
//
// A stream of L lanes holds one key and one value, 8 elements a lane, and takes one key in AttendThreads/L of a split.
// All heads use what it has fetched, and nothing passes through threadgroup memory until the streams are joined.
struct AttendArgs {
  uint heads;
  uint group; // query heads to a key/value head
  uint parts; // threadgroups that share these
  uint head;  // Dh
  uint head_room;
  uint slots;
  uint max_splits; // room for splits in out and ml
  uint gated;      // in q, a gate follows each query
  float scale;     // 1/√Dh
};

enum : uint {
  AttendThreads = 128,
  AttendSimds = 4,
  AttendKeys = 2, // that a stream has under way
};

// Eight elements of a key or value.
struct Eight {
  float4 a, b;
};
inline float dot8(Eight x, Eight y) { return dot4(x.b, y.b, dot4(x.a, y.a, 0.0f)); }

// The eight elements from element i on, a multiple of 8.
inline Eight kv_eight(device const uchar *p, ulong i) {
  Eight e;
  if (kv_f32) {
    e.a = ((device const float4 *)p)[i / 4];
    e.b = ((device const float4 *)p)[i / 4 + 1];
  } else {
    const uint4 raw = ((device const uint4 *)p)[i / 8];
    e.a = float4(as_type<half4>(raw.xy));
    e.b = float4(as_type<half4>(raw.zw));
  }
  return e;
}

// The slots that a row sees, in the order of its spans.
struct Walk {
  device const uint2 *spans;
  uint2 now;  // the span that the last key lay in
  uint first; // how many keys are before it

  // Key i, which is never less than the one before.
  uint slot(uint i) {
    while (i - first >= now.y - now.x) {
      first += now.y - now.x;
      spans++;
      now = *spans;
    }
    return now.x + (i - first);
  }
};

// Where the query of head h of row t is in q; its gate is head_room further on.
inline ulong query_at(uint t, uint h, uint heads, uint gated, uint head_room) {
  return (ulong(t) * heads + h) * (1 + gated) * head_room;
}

// What a stream has found: for each head the largest score, the sum of exp(score - m), and that of exp(score - m)·V.
template <ushort H> struct Found {
  float m[H], l[H];
  Eight v[H];

  // Takes AttendKeys keys. Those that are not there have the score -FLT_MAX and zeros as value: they count for nothing
  // once a key is there, in this stream or in one that it is joined with.
  void take(ushort h, thread const float (&score)[AttendKeys], thread const Eight (&value)[AttendKeys]) {
    float top = m[h];
#pragma unroll
    for (ushort u = 0; u < AttendKeys; u++) {
      top = max(top, score[u]);
    }
    scale(h, precise::exp(m[h] - top));
    m[h] = top;
#pragma unroll
    for (ushort u = 0; u < AttendKeys; u++) {
      const float p = precise::exp(score[u] - top);
      l[h] += p;
      v[h].a = fma(float4(p), value[u].a, v[h].a);
      v[h].b = fma(float4(p), value[u].b, v[h].b);
    }
  }
  // Takes what the lane with number ^ w has found.
  void join(ushort h, ushort w) {
    const float top = max(m[h], simd_shuffle_xor(m[h], w));
    scale(h, precise::exp(m[h] - top));
    m[h] = top;
    l[h] += simd_shuffle_xor(l[h], w);
    v[h].a += simd_shuffle_xor(v[h].a, w);
    v[h].b += simd_shuffle_xor(v[h].b, w);
  }
  void scale(ushort h, float by) {
    l[h] *= by;
    v[h].a *= by;
    v[h].b *= by;
  }
};

// Where split number split of a row with so many splits and visible keys begins. The longest is one key longer than the
// shortest.
inline uint split_begin(uint split, uint splits, uint visible) {
  return split * (visible / splits) + min(split, visible % splits);
}

// out [row][max_splits][heads·Dh], ml [row][max_splits][heads].
// memory: the queries [H][8·L], then values [AttendSimds][H][8·L], then m and l [AttendSimds][H].
template <ushort H, ushort L>
kernel void attend(device const float *q [[buffer(0)]], device const uchar *k [[buffer(1)]],
                   device const uchar *v [[buffer(2)]], device const AttendRow *rows [[buffer(3)]],
                   device const uint2 *spans [[buffer(4)]], device float *out [[buffer(5)]],
                   device float2 *ml [[buffer(6)]], constant AttendArgs &a [[buffer(7)]],
                   threadgroup float *memory [[threadgroup(0)]], uint3 at [[threadgroup_position_in_grid]],
                   uint tid [[thread_index_in_threadgroup]], ushort sg [[simdgroup_index_in_threadgroup]],
                   ushort lane [[thread_index_in_simdgroup]]) {
  const uint t = at.z, kv_head = at.y / a.parts, split = at.x;
  // The same for all lanes: one of them fetches it.
  const uint first_span = simd_broadcast_first(lane == 0 ? rows[t].first_span : 0);
  const uint visible = simd_broadcast_first(lane == 0 ? rows[t].visible : 0);
  const uint splits = simd_broadcast_first(lane == 0 ? rows[t].splits : 0);
  if (split >= splits) {
    return;
  }
  const uint first_head = kv_head * a.group + at.y % a.parts * H;
  const uint count = min(uint(H), (kv_head + 1) * a.group - first_head);
  const uint width = L * 8, d = lane % L * 8;
  threadgroup float *values = memory + H * width;
  threadgroup float2 *sums = (threadgroup float2 *)(values + AttendSimds * H * width);
  for (uint h = sg; h < count; h += AttendSimds) {
    device const float *of = q + query_at(t, first_head + h, a.heads, a.gated, a.head_room);
    for (uint i = lane; i < width; i += 32) {
      memory[h * width + i] = i < a.head ? of[i] * a.scale : 0.0f;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  Found<H> found;
#pragma unroll
  for (ushort h = 0; h < H; h++) {
    found.m[h] = -FLT_MAX;
    found.l[h] = 0.0f;
    found.v[h].a = found.v[h].b = float4(0.0f);
  }
  Walk walk;
  walk.spans = spans + first_span;
  walk.now = simd_broadcast_first(lane == 0 ? *walk.spans : uint2(0));
  walk.first = 0;
  const uint begin = split_begin(split, splits, visible), end = split_begin(split + 1, splits, visible);
  const uint streams = AttendThreads / L, stream = tid / L;
  const ulong base = ulong(kv_head) * a.slots;
  for (uint first = begin; first < end; first += streams * AttendKeys) {
    Eight key[AttendKeys], value[AttendKeys];
#pragma unroll
    for (ushort u = 0; u < AttendKeys; u++) {
      const uint i = first + u * streams + stream;
      key[u].a = key[u].b = value[u].a = value[u].b = float4(0.0f);
      if (i < end && d < a.head_room) {
        const ulong e = (base + walk.slot(i)) * a.head_room + d;
        key[u] = kv_eight(k, e);
        value[u] = kv_eight(v, e);
      }
    }
#pragma unroll
    for (ushort h = 0; h < H; h++) {
      if (h >= count) {
        break;
      }
      threadgroup const float4 *of = (threadgroup const float4 *)(memory + h * width + d);
      Eight query;
      query.a = of[0];
      query.b = of[1];
      float score[AttendKeys];
#pragma unroll
      for (ushort u = 0; u < AttendKeys; u++) {
        score[u] = dot8(query, key[u]);
#pragma unroll
        for (ushort w = 1; w < L; w *= 2) {
          score[u] += simd_shuffle_xor(score[u], w);
        }
        score[u] = first + u * streams + stream < end ? score[u] : -FLT_MAX;
      }
      found.take(h, score, value);
    }
  }
#pragma unroll
  for (ushort h = 0; h < H; h++) { // the streams of a simdgroup, then the simdgroups
    if (h >= count) {
      break;
    }
#pragma unroll
    for (ushort w = L; w < 32; w *= 2) {
      found.join(h, w);
    }
    if (lane < L) {
      threadgroup float4 *to = (threadgroup float4 *)(values + (sg * H + h) * width + d);
      to[0] = found.v[h].a;
      to[1] = found.v[h].b;
      if (lane == 0) {
        sums[sg * H + h] = float2(found.m[h], found.l[h]);
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const ulong part = ulong(t) * a.max_splits + split;
  for (uint h = sg; h < count; h += AttendSimds) {
    float m = -FLT_MAX, l = 0.0f, by[AttendSimds];
#pragma unroll
    for (ushort s = 0; s < AttendSimds; s++) {
      m = max(m, sums[s * H + h].x);
    }
#pragma unroll
    for (ushort s = 0; s < AttendSimds; s++) {
      by[s] = precise::exp(sums[s * H + h].x - m);
      l = fma(sums[s * H + h].y, by[s], l);
    }
    device const float *gate = q + query_at(t, first_head + h, a.heads, a.gated, a.head_room) + a.head_room;
    for (uint i = lane; i < a.head; i += 32) {
      float sum = 0.0f;
#pragma unroll
      for (ushort s = 0; s < AttendSimds; s++) {
        sum = fma(values[(s * H + h) * width + i], by[s], sum);
      }
      out[(part * a.heads + first_head + h) * a.head + i] = a.gated ? sum / l * gate[i] : sum / l;
    }
    if (lane == 0) {
      ml[part * a.heads + first_head + h] = float2(m, l);
    }
  }
}
template [[host_name("attend_1_64")]] kernel decltype(attend<1, 8>) attend<1, 8>;
template [[host_name("attend_2_64")]] kernel decltype(attend<2, 8>) attend<2, 8>;
template [[host_name("attend_4_64")]] kernel decltype(attend<4, 8>) attend<4, 8>;
template [[host_name("attend_8_64")]] kernel decltype(attend<8, 8>) attend<8, 8>;
template [[host_name("attend_1_128")]] kernel decltype(attend<1, 16>) attend<1, 16>;
template [[host_name("attend_2_128")]] kernel decltype(attend<2, 16>) attend<2, 16>;
template [[host_name("attend_4_128")]] kernel decltype(attend<4, 16>) attend<4, 16>;
template [[host_name("attend_8_128")]] kernel decltype(attend<8, 16>) attend<8, 16>;
template [[host_name("attend_1_256")]] kernel decltype(attend<1, 32>) attend<1, 32>;
template [[host_name("attend_2_256")]] kernel decltype(attend<2, 32>) attend<2, 32>;
template [[host_name("attend_4_256")]] kernel decltype(attend<4, 32>) attend<4, 32>;
