// h = x/rms(x) ⊙ g; logits = W h + b for the wanted rows. x comes as g·x and the parts of Σ x².
//
// Of the weight rows that it takes, a threadgroup leaves for each wanted row the k best, and the sums that log-sum-exp
// and entropy are made of. The logits themselves stay in threadgroup memory unless they are asked for.
//
// With a.draw, each also leaves what a draw from the whole vocabulary is made of.
//
// A router rides along: the threadgroups before those of the vocabulary compute its first layer, V h + c, before its
// ReLU. They begin first, so that nobody waits for them in the end. merge.metal does the rest.
struct HeadArgs {
  uint rows; // wanted
  uint outs; // vocabulary
  uint cols;
  uint row_bytes;
  uint bias;       // W has one
  uint group_rows; // weight rows that a threadgroup takes, at most 1024
  uint parts; // of the columns: these four are those of Cut
  uint share;
  uint abreast;
  uint chunk;
  uint square_parts; // of Σ x²
  float eps;
  uint k;
  uint logits; // they are asked for
  uint groups; // threadgroups of the vocabulary
  uint router; // rows of V; 0: no router
  uint router_bytes;  // of a row
  uint router_rows;   // rows that a threadgroup takes
  uint router_groups; // threadgroups for them, before those of the vocabulary
  uint draw;          // a token is drawn too, for the only wanted row: HeadDraw
  float sharpness;    // 1/temperature
  uint pos;           // of that token
  uint seed_low, seed_high;
  uint row[8];       // of x, for each wanted row
};

// The largest logit m, Σ e and Σ e·(l - m) for e = exp(l - m).
struct HeadSums {
  float m, sum, moment;
};

// Where a token is drawn: Σ exp((l - m)/temperature), and the token of the largest score l/temperature + noise.
struct HeadDraw {
  float mass, score;
  uint token;
};

// Floats as integers of the same order. Every bit pattern has its place, so that nothing is lost among NaNs.
inline uint order_of(float v) {
  const uint b = as_type<uint>(v);
  return b >> 31 ? ~b : b | 0x80000000u;
}
inline float of_order(uint o) { return as_type<float>(o >> 31 ? o & 0x7fffffffu : ~o); }

// The sums of n logits, by one simdgroup.
inline void head_sums(device HeadSums *to, threadgroup const float *logits, uint n, ushort lane) {
  float m = -FLT_MAX;
  for (uint i = lane; i < n; i += 32) {
    m = max(m, logits[i]);
  }
  m = simd_max(m);
  float sum = 0.0f, moment = 0.0f;
  for (uint i = lane; i < n; i += 32) {
    const float e = precise::exp(logits[i] - m);
    sum += e;
    moment = fma(e, logits[i] - m, moment);
  }
  sum = simd_sum(sum);
  moment = simd_sum(moment);
  if (lane == 0) {
    to->m = m;
    to->sum = sum;
    to->moment = moment;
  }
}

// The k best of n logits as (id, order), best first, of equal ones the lower id first, by one simdgroup.
inline void head_best(device uint2 *to, threadgroup const float *logits, uint n, uint first_id, uint k, ushort lane) {
  uint taken = 0; // bit j: logit lane + 32j is among the best already
  uint best = 0, at = 0;
  bool look = true; // for this lane's best of what is left
  for (uint i = 0; i < k; i++) {
    if (look) {
      best = 0;
      at = ~0u;
      for (uint j = 0; lane + 32 * j < n; j++) {
        const uint o = order_of(logits[lane + 32 * j]);
        if (!(taken >> j & 1) && o > best) {
          best = o;
          at = lane + 32 * j;
        }
      }
    }
    const uint top = simd_max(best);
    const uint winner = simd_min(best == top ? at : ~0u);
    look = winner == at && winner != ~0u;
    if (look) {
      taken |= 1u << at / 32;
    }
    if (lane == 0) {
      to[i] = winner == ~0u ? uint2(~0u, 0) : uint2(first_id + winner, top);
    }
  }
}

// What n logits leave of a draw, by one simdgroup.
inline void head_draw(device HeadDraw *to, constant HeadArgs &a, threadgroup const float *logits, uint n, uint first_id,
                      ushort lane) {
  float m = -FLT_MAX, most = -FLT_MAX, mass = 0.0f;
  uint token = first_id;
  for (uint i = lane; i < n; i += 32) {
    m = max(m, logits[i]);
    const float score = fma(logits[i], a.sharpness, draw_noise(first_id + i, a.pos, a.seed_low, a.seed_high));
    if (score > most) {
      most = score;
      token = first_id + i;
    }
  }
  m = simd_max(m);
  for (uint i = lane; i < n; i += 32) {
    mass += precise::exp((logits[i] - m) * a.sharpness);
  }
  mass = simd_sum(mass);
  const float best = simd_max(most);
  token = simd_min(most == best ? token : ~0u);
  if (lane == 0) {
    to->mass = mass;
    to->score = best;
    to->token = token;
  }
}

// found[t][i] = row begin + i of w · x[t], for the rows before end, of the count that a threadgroup takes.
template <typename W, ushort T>
inline void head_products(threadgroup float *found, device const uchar *w, uint row_bytes, uint begin, uint end,
                          uint count, thread const Rows<T> &in, thread const Cut &cut, thread const Place &at) {
  const uint tiles = count / TileRows, size = T * count;
  for (uint j = at.sg; j < jobs(tiles, cut, at); j += at.groups) {
    const uint i = j / cut.abreast;
    const Tile tile = rows_tile(w, row_bytes, begin + i * TileRows, i < tiles ? end : 0);
    dot_rows<W, T>(found + i * TileRows, size, count, tile, j % cut.abreast, in, j == at.sg, cut, at);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

template <typename W, ushort T>
kernel void head(device const uchar *w [[buffer(0)]], device const float *bias [[buffer(1)]],
                 device const float *x [[buffer(2)]], device const float *squares [[buffer(3)]],
                 device uint2 *best [[buffer(4)]], device HeadSums *sums [[buffer(5)]],
                 device float *logits [[buffer(6)]], device const uchar *router [[buffer(7)]],
                 device const float *router_bias [[buffer(8)]], device float *router_out [[buffer(9)]],
                 device HeadDraw *drawn [[buffer(10)]], constant HeadArgs &a [[buffer(11)]],
                 threadgroup float *staged [[threadgroup(0)]], threadgroup float *found [[threadgroup(1)]],
                 uint position [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                 ushort sg [[simdgroup_index_in_threadgroup]], ushort groups [[simdgroups_per_threadgroup]],
                 ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float scale[T];
  const Place at = place(staged, tid, threads, sg, groups, lane);
  const Cut cut = cut_of(a.cols, a.parts, a.share, a.abreast, a.chunk);
  Rows<T> in = first_rows<T>(x, a.cols, a.rows);
  for (ushort t = 0; t < T; t++) {
    in.row[t] = a.row[t];
  }
  scale_rows<T>(scale, squares, in, a.square_parts, a.eps, at);
  if (position < a.router_groups) {
    const uint begin = position * a.router_rows, end = min(begin + a.router_rows, a.router);
    head_products<F32, T>(found, router, a.router_bytes, begin, end, a.router_rows, in, cut, at);
    for (uint i = tid; i < a.rows * a.router_rows; i += threads) {
      const uint t = i / a.router_rows, row = begin + i % a.router_rows;
      if (row < end) {
        router_out[t * a.router + row] =
            fma(joined(found + i, a.parts, T * a.router_rows), scale[t], router_bias[row]);
      }
    }
    return;
  }
  const uint group = position - a.router_groups;
  const uint begin = group * a.group_rows, end = min(begin + a.group_rows, a.outs);
  head_products<W, T>(found, w, a.row_bytes, begin, end, a.group_rows, in, cut, at);
  for (uint i = tid; i < a.rows * a.group_rows; i += threads) {
    const uint t = i / a.group_rows, row = begin + i % a.group_rows;
    if (row < end) {
      const float l = fma(joined(found + i, a.parts, T * a.group_rows), scale[t], a.bias ? bias[row] : 0.0f);
      found[i] = l;
      if (a.logits) {
        logits[ulong(t) * a.outs + row] = l;
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint t = sg; t < a.rows; t += groups) {
    threadgroup const float *of = found + t * a.group_rows;
    head_sums(sums + t * a.groups + group, of, end - begin, lane);
    head_best(best + (ulong(t) * a.groups + group) * a.k, of, end - begin, begin, a.k, lane);
  }
  if (a.draw && sg == groups - 1) { // the first one has the sums of the only row
    head_draw(drawn + group, a, found, end - begin, begin, lane);
  }
}
EACH_ROWS(head)
