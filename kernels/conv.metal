// The input of the gated delta rule: q, k and v = silu of the convolution over the last tokens, q = q/‖q‖/√size and
// k = k/‖k‖ for each key head, β and the decay for each value head.  One simdgroup per head and row of the pass.
//
// What a later token needs of a row goes into the row's update: the input of its convolution, its key, and log a(j),
// the decay of all tokens of its chunk up to it. A row reads the inputs and decays of rows of its own pass where the
// projections have left them, since their updates are written at the same time. Then come the ends of chunks: for
// each the last inputs are copied into a checkpoint.
struct ConvArgs {
  uint rows; // of the pass
  uint taps; // of the convolution
  uint key_heads;
  uint value_heads;
  uint key_size;
  uint value_size;
  uint stride;      // columns of a row of projections: those of the convolution, gates, β, α
  uint update_size; // elements of an update
  float eps;
};

// A row of the pass, or the end of a chunk: the update or checkpoint that is written, and the first of its taps - 1
// sources. Its decay is that of the token of update before, if any, and of the given number of rows of the pass after
// that.
struct ConvRow {
  uint into, source, before, decay, decays;
};

// Where the input of a token is: nowhere, in an update, in a checkpoint, or in a row of the pass.
struct ConvSource {
  uint kind, at;
};

enum : uint {
  FromUpdate = 1,
  FromCheckpoint = 2,
  FromRow = 3,
  DeltaSize = 256, // most elements of a head
  NoState = 0xffffffff,
};

// Elements of updates, and inputs of checkpoints.
inline float element(device const uchar *p, ulong i) {
  return kv_f32 ? ((device const float *)p)[i] : float(((device const half *)p)[i]);
}
inline void store_element(device uchar *p, ulong i, float v) {
  if (kv_f32) {
    ((device float *)p)[i] = v;
  } else {
    ((device half *)p)[i] = half(v);
  }
}
inline float stored(float v) { return kv_f32 ? v : float(half(v)); }

inline uint conv_channels(constant ConvArgs &a) { return 2 * a.key_heads * a.key_size + a.value_heads * a.value_size; }

// log(1 + eˣ). Where 1 + eˣ is rounded, the quotient makes up for it.
inline float softplus(float x) {
  const float e = precise::exp(min(x, 20.0f)), u = 1.0f + e;
  return x > 20.0f ? x : u == 1.0f ? e : precise::log(u) * (e / (u - 1.0f));
}

// The input of a channel that a source has.
inline float conv_input(constant ConvArgs &a, device const ConvSource &from, uint channel,
                        device const float *projected, device const uchar *updates, device const uchar *inputs) {
  switch (from.kind) {
  case FromUpdate:
    return element(updates, ulong(from.at) * a.update_size + channel);
  case FromCheckpoint:
    return element(inputs, ulong(from.at) * conv_channels(a) + channel);
  case FromRow:
    return stored(projected[ulong(from.at) * a.stride + channel]);
  }
  return 0.0f;
}

// silu of the convolution of a channel, whose own input it stores.
inline float conv_channel(constant ConvArgs &a, device const ConvRow &row, uint t, uint channel,
                          device const float *projected, device const float *taps, device const ConvSource *sources,
                          device uchar *updates, device const uchar *inputs) {
  const float own = projected[ulong(t) * a.stride + channel];
  float sum = 0.0f;
  for (uint i = 0; i + 1 < a.taps; i++) {
    const float v = conv_input(a, sources[row.source + i], channel, projected, updates, inputs);
    sum = fma(taps[i * conv_channels(a) + channel], v, sum);
  }
  sum = fma(taps[(a.taps - 1) * conv_channels(a) + channel], own, sum);
  store_element(updates, ulong(row.into) * a.update_size + channel, own);
  return silu(sum);
}

// 1/√(Σ v² + eps) of a head.
inline float conv_inverse(threadgroup const float *v, uint n, float eps, ushort lane) {
  float sum = 0.0f;
  for (uint i = lane; i < n; i += 32) { // what this lane has written
    sum = fma(v[i], v[i], sum);
  }
  return 1.0f / precise::sqrt(simd_sum(sum) + eps);
}

// out [row][queries, values, β].
kernel void conv(device const float *projected [[buffer(0)]], device const float *taps [[buffer(1)]],
                 device const float *rate [[buffer(2)]], device const float *offset [[buffer(3)]],
                 device const ConvRow *rows [[buffer(4)]], device const ConvSource *sources [[buffer(5)]],
                 device const uint *decaying [[buffer(6)]], device uchar *updates [[buffer(7)]],
                 device float *decays [[buffer(8)]], device uchar *inputs [[buffer(9)]],
                 device float *out [[buffer(10)]], constant ConvArgs &a [[buffer(11)]],
                 uint2 at [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float held[DeltaSize];
  const uint t = at.y, channels = conv_channels(a), queries = a.key_heads * a.key_size;
  const bool of_values = at.x >= a.key_heads;
  const uint head = of_values ? at.x - a.key_heads : at.x, size = of_values ? a.value_size : a.key_size;
  const uint first = of_values ? 2 * queries + head * size : head * size;
  device const ConvRow &row = rows[t];
  if (t >= a.rows) { // the end of a chunk
    for (uint i = 0; i + 1 < a.taps; i++) {
      device const ConvSource &from = sources[row.source + i];
      const ulong to = (ulong(row.into) * (a.taps - 1) + i) * channels + first;
      for (uint c = lane; c < size; c += 32) {
        store_element(inputs, to + c, conv_input(a, from, first + c, projected, updates, inputs));
        if (!of_values) {
          const float v = conv_input(a, from, queries + first + c, projected, updates, inputs);
          store_element(inputs, to + queries + c, v);
        }
      }
    }
    return;
  }
  device float *to = out + ulong(t) * (queries + a.value_heads * (a.value_size + 1));
  if (of_values) {
    for (uint c = lane; c < size; c += 32) {
      to[queries + head * size + c] =
          conv_channel(a, row, t, first + c, projected, taps, sources, updates, inputs);
    }
    if (lane == 0) {
      const uint beta = channels + a.value_heads * a.value_size + head;
      to[queries + a.value_heads * a.value_size + head] = sigmoid(projected[ulong(t) * a.stride + beta]);
      float sum = row.before == NoState ? 0.0f : decays[ulong(row.before) * a.value_heads + head];
      for (uint i = 0; i < row.decays; i++) {
        const float alpha = projected[ulong(decaying[row.decay + i]) * a.stride + beta + a.value_heads];
        sum = fma(rate[head], softplus(alpha + offset[head]), sum);
      }
      decays[ulong(row.into) * a.value_heads + head] = sum;
    }
    return;
  }
  for (uint c = lane; c < size; c += 32) {
    held[c] = conv_channel(a, row, t, first + c, projected, taps, sources, updates, inputs);
  }
  const float query = conv_inverse(held, size, a.eps, lane) / precise::sqrt(float(size));
  for (uint c = lane; c < size; c += 32) {
    to[first + c] = held[c] * query;
    held[c] = conv_channel(a, row, t, queries + first + c, projected, taps, sources, updates, inputs);
  }
  const float key = conv_inverse(held, size, a.eps, lane);
  for (uint c = lane; c < size; c += 32) {
    store_element(updates, ulong(row.into) * a.update_size + channels + first + c, held[c] * key);
  }
}
