// Joins what the threadgroups of the head have left: the k best of all, and the sums over the whole vocabulary.
// One threadgroup per wanted row. Its result is k times (id, logit), then m, Σ e and Σ e·(l - m) as in HeadSums: the
// first word is the most probable token, and the pass that follows can take it from there.
struct MergeArgs {
  uint groups; // of the head, at most MergeLists
  uint k;
  uint stride; // words of a result
};

enum : uint { MergeThreads = 256, MergeLists = 4096 };

kernel void merge(device const uint2 *best [[buffer(0)]], device const HeadSums *sums [[buffer(1)]],
                  device uint *result [[buffer(2)]], constant MergeArgs &a [[buffer(3)]],
                  uint t [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                  ushort sg [[simdgroup_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup ushort next[MergeLists]; // how many of each list are taken
  threadgroup uint2 tops[MergeThreads / 32];
  threadgroup float part[MergeThreads / 32], moments[MergeThreads / 32];
  device uint *to = result + t * a.stride;
  device const HeadSums *of = sums + t * a.groups;
  device const uint2 *lists = best + ulong(t) * a.groups * a.k;
  for (uint i = tid; i < a.groups; i += MergeThreads) {
    next[i] = 0;
  }
  uint2 mine = uint2(~0u, 0); // the best that this thread's lists have left, and which list it is of
  uint list = 0;
  bool look = true;
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
    if (tid == 0) {
      to[2 * n] = winner.x;
      to[2 * n + 1] = as_type<uint>(of_order(winner.y));
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
  if (tid == 0) {
    sum = moment = 0.0f;
    for (ushort i = 0; i < MergeThreads / 32; i++) {
      sum += part[i];
      moment += moments[i];
    }
    to[2 * a.k] = as_type<uint>(m);
    to[2 * a.k + 1] = as_type<uint>(sum);
    to[2 * a.k + 2] = as_type<uint>(moment);
  }
}
