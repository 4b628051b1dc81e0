// Joins what the threadgroups of the head have left: the k best of all, and the sums over the whole vocabulary.
// One threadgroup per wanted row. Its result is the token for the pass that follows, which can take it from there, then
// k times (id, logit), m, Σ e and Σ e·(l - m) as in HeadSums, and the router's confidence.
//
// That token is the most probable one, or with a.draw one that is drawn as runtime/sample does it, in float: among the
// best ones if all that can be drawn are there, else the one of all that the head has drawn. It is a guess.
//
// Of a router, the head has computed the first layer from the hidden state. Here the features of the head
// are added, margin p₁ - p₂ and certainty exp(-entropy), and the other layers follow, with ReLU between
// them and a sigmoid at the end.
struct MergeArgs {
  uint groups; // of the head, at most MergeLists
  uint k;
  uint stride;     // words of a result
  uint layers;     // of the router; 0: none
  uint features;   // the first layer takes margin and certainty; k is at least 2
  uint draw;       // a token is drawn, for the only wanted row
  uint best;       // of the k best, those that can be drawn at most; at least 1
  uint rest;       // others can be drawn too: the head has drawn one, and has masses
  float sharpness; // 1/temperature
  float top_p;     // over 1: all can be drawn
  float min_logit; // below the best one, of what can be drawn: temperature · ln min-p
  uint pos;        // of that token
  uint seed_low, seed_high;
  uint widths[17]; // widths[i] is what layer i gives, at most MergeWidth
};

enum : uint { MergeThreads = 256, MergeLists = 4096, MergeWidth = 1024, MergeBest = 64 };

// The confidence that the small network comes to, by all threads of a threadgroup. rest holds the weights of margin and
// then of certainty in the first layer, if it takes them, and matrix and bias of each layer after it.
inline float merge_route(constant MergeArgs &a, device const float *first, device const float *rest, float margin,
                         float certainty, threadgroup float *x, threadgroup float *y, uint tid, ushort sg,
                         ushort lane) {
  uint n = a.widths[0];
  for (uint o = tid; o < n; o += MergeThreads) {
    float v = first[o];
    if (a.features) {
      v = fma(rest[n + o], certainty, fma(rest[o], margin, v));
    }
    x[o] = a.layers > 1 ? max(v, 0.0f) : v;
  }
  if (a.features) {
    rest += 2 * n;
  }
  for (uint layer = 1; layer < a.layers; layer++) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint outs = a.widths[layer];
    threadgroup const float *from = layer % 2 ? x : y;
    threadgroup float *to = layer % 2 ? y : x;
    for (uint o = sg; o < outs; o += MergeThreads / 32) { // a simdgroup reads a row of weights, side by side
      float v = 0.0f;
      for (uint i = lane; i < n; i += 32) {
        v = fma(rest[o * n + i], from[i], v);
      }
      v = simd_sum(v) + rest[outs * n + o];
      if (lane == 0) {
        to[o] = layer + 1 < a.layers ? max(v, 0.0f) : v;
      }
    }
    rest += outs * n + outs;
    n = outs;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return 1.0f / (1.0f + precise::exp(-(a.layers % 2 ? x[0] : y[0])));
}

// The weight of the best token n, where that of the first is 1.
inline float merge_weight(constant MergeArgs &a, threadgroup const uint2 *found, uint n) {
  return n < a.best ? precise::exp((of_order(found[n].y) - of_order(found[0].y)) * a.sharpness) : 0.0f;
}

// The token that is drawn, by one simdgroup. Of the best ones those can be drawn above which there is less than a share
// top_p of all mass, and which lie at most -min_logit below the first.
inline uint merge_draw(constant MergeArgs &a, threadgroup const uint2 *found, device const HeadSums *sums,
                       device const HeadDraw *drawn, ushort lane) {
  const float first = of_order(found[0].y);
  float mass = 0.0f, most = -FLT_MAX;
  uint token = ~0u;
  for (uint i = lane; a.rest && i < a.groups; i += 32) {
    mass = fma(drawn[i].mass, precise::exp((sums[i].m - first) * a.sharpness), mass);
    if (drawn[i].score > most) {
      most = drawn[i].score;
      token = drawn[i].token;
    }
  }
  const float near = merge_weight(a, found, lane), far = merge_weight(a, found, lane + 32), half_mass = simd_sum(near);
  mass = a.rest ? simd_sum(mass) : half_mass + simd_sum(far);
  const float above = simd_prefix_exclusive_sum(near), far_above = half_mass + simd_prefix_exclusive_sum(far);
  float score = -FLT_MAX;
  uint id = ~0u;
  bool last = false; // can be drawn: then others, too
  for (uint n = lane; n < a.best; n += 32) {
    const float l = of_order(found[n].y) - first;
    if (n == 0 || ((n < 32 ? above : far_above) < a.top_p * mass && l >= a.min_logit)) {
      const float s = fma(l, a.sharpness, draw_noise(found[n].x, a.pos, a.seed_low, a.seed_high));
      if (s > score) {
        score = s;
        id = found[n].x;
      }
      last = n + 1 == a.best;
    }
  }
  if (!a.rest || !simd_any(last)) {
    most = score;
    token = id;
  }
  return simd_min(most == simd_max(most) ? token : ~0u);
}

kernel void merge(device const uint2 *best [[buffer(0)]], device const HeadSums *sums [[buffer(1)]],
                  device const float *first [[buffer(2)]], device const float *rest [[buffer(3)]],
                  device uint *result [[buffer(4)]], device const HeadDraw *drawn [[buffer(5)]],
                  constant MergeArgs &a [[buffer(6)]], uint t [[threadgroup_position_in_grid]],
                  uint tid [[thread_index_in_threadgroup]], ushort sg [[simdgroup_index_in_threadgroup]],
                  ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup ushort next[MergeLists]; // how many of each list are taken
  threadgroup uint2 tops[MergeThreads / 32];
  threadgroup float part[MergeThreads / 32], moments[MergeThreads / 32];
  threadgroup float x[MergeWidth], y[MergeWidth];
  threadgroup uint2 found[MergeBest];
  device uint *to = result + t * a.stride;
  device const HeadSums *of = sums + t * a.groups;
  device const uint2 *lists = best + ulong(t) * a.groups * a.k;
  for (uint i = tid; i < a.groups; i += MergeThreads) {
    next[i] = 0;
  }
  uint2 mine = uint2(~0u, 0); // the best that this thread's lists have left, and which list it is of
  uint list = 0;
  bool look = true;
  float best_logit = -FLT_MAX, next_logit = -FLT_MAX;
  for (uint n = 0; n < a.k; n++) {
    if (look) {
      mine = uint2(~0u, 0);
      for (uint i = tid; i < a.groups; i += MergeThreads) {
        if (next[i] < a.k) {
          device const uint2 &c = lists[i * a.k + next[i]];
          if (c.y > mine.y) { // lists of one thread come by rising id
            mine.x = c.x;
            mine.y = c.y;
            list = i;
          }
        }
      }
    }
    const uint top = simd_max(mine.y);
    const uint id = simd_min(mine.y == top ? mine.x : ~0u);
    if (lane == 0) {
      tops[sg] = uint2(id, top);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint2 winner = uint2(~0u, 0);
    for (ushort i = 0; i < MergeThreads / 32; i++) {
      if (tops[i].y > winner.y || (tops[i].y == winner.y && tops[i].x < winner.x)) {
        winner = tops[i];
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    look = winner.x == mine.x && winner.x != ~0u;
    if (look) {
      next[list]++;
    }
    best_logit = n == 0 ? of_order(winner.y) : best_logit;
    next_logit = n == 1 && winner.x != ~0u ? of_order(winner.y) : next_logit;
    if (tid == 0) {
      found[n] = winner;
      to[1 + 2 * n] = winner.x;
      to[2 + 2 * n] = as_type<uint>(of_order(winner.y));
    }
  }
  float m = -FLT_MAX;
  for (uint i = tid; i < a.groups; i += MergeThreads) {
    m = max(m, of[i].m);
  }
  m = simd_max(m);
  if (lane == 0) {
    part[sg] = m;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (ushort i = 0; i < MergeThreads / 32; i++) {
    m = max(m, part[i]);
  }
  float sum = 0.0f, moment = 0.0f;
  for (uint i = tid; i < a.groups; i += MergeThreads) {
    const float below = of[i].m - m, e = precise::exp(below);
    sum = fma(of[i].sum, e, sum);
    moment = fma(fma(below, of[i].sum, of[i].moment), e, moment);
  }
  sum = simd_sum(sum);
  moment = simd_sum(moment);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) {
    part[sg] = sum;
    moments[sg] = moment;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = moment = 0.0f;
  for (ushort i = 0; i < MergeThreads / 32; i++) {
    sum += part[i];
    moment += moments[i];
  }
  float confidence = 0.0f;
  if (a.layers > 0) {
    const float margin = (precise::exp(best_logit - m) - precise::exp(next_logit - m)) / sum;
    const float certainty = precise::exp(min(moment / sum - precise::log(sum), 0.0f));
    confidence = merge_route(a, first + t * a.widths[0], rest, margin, certainty, x, y, tid, sg, lane);
  }
  uint next_token = found[0].x;
  if (a.draw && sg == 0) {
    next_token = merge_draw(a, found, of, drawn, lane);
  }
  if (tid == 0) {
    to[0] = next_token;
    to[1 + 2 * a.k] = as_type<uint>(m);
    to[2 + 2 * a.k] = as_type<uint>(sum);
    to[3 + 2 * a.k] = as_type<uint>(moment);
    to[4 + 2 * a.k] = as_type<uint>(confidence);
  }
}
