// One kernel for each part of the language that kernels may use. Each runs as 3 threadgroups of 64 threads, and the Go
// test knows what comes out.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
#include <metal_atomic>
using namespace metal;

#define ARGS device float *out [[buffer(0)]], device const float *x [[buffer(1)]], uint i [[thread_position_in_grid]], \
             uint t [[thread_position_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]

// ---- where a thread is ----

// All positions of a kernel have as many components: three, two or one.
kernel void positions(device float *out [[buffer(0)]], uint3 grid [[thread_position_in_grid]],
                      ushort3 in [[thread_position_in_threadgroup]],
                      uint3 group [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                      ushort simd [[simdgroup_index_in_threadgroup]], ushort3 threads [[threads_per_threadgroup]],
                      ushort3 groups [[threadgroups_per_grid]], uint3 all [[threads_per_grid]],
                      uint simds [[simdgroups_per_threadgroup]], ushort width [[threads_per_simdgroup]]) {
  const bool same = in.x == index && in.y == 0 && grid.x == group.x * threads.x + in.x && grid.y == 0 && grid.z == 0 &&
                    all.x == groups.x * threads.x && all.y == 1 && threads.z == 1 && simds == 2 && width == 32;
  out[grid.x] = same ? float(simd * 1000 + index) : -1.0f;
}

kernel void places(device float *out [[buffer(0)]], uint2 grid [[thread_position_in_grid]],
                   ushort2 group [[threadgroup_position_in_grid]], uint2 threads [[threads_per_threadgroup]],
                   uint2 groups [[threadgroups_per_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  const bool same = all(grid < groups * threads) && grid.y == 0 && threads.y == 1 && grid.x % 32 == lane;
  out[grid.x] = same ? float(group.x + groups.x) : -1.0f;
}

// ---- types ----

kernel void vectors(ARGS) {
  float4 a = float4(x[i], 2, 3, 4), b = float4(1);
  a.xy += float2(1, 2);
  b.w = a.z;
  const float3 c = a.zyx;
  const float2 d = float2(c.x, 1.0f);
  const float4 e = float4(d, c.yz);
  out[i] = dot(a, b) + e.z + length(float2(3, 4)) + vec<float, 2>(1, 2).y;
}

kernel void halves(ARGS) {
  const half h = half(x[i]) * 0.5h + 1.0h;
  const half4 v = half4(h, 1, 2, 3);
  const float4 f = float4(v);
  out[i] = float(h) + f.w + float(half2(v.yz).y);
}

kernel void bfloats(ARGS) {
  bfloat b = bfloat(x[i]);
  b = b + bfloat(1.0f);
  out[i] = float(b);
}

kernel void integers(ARGS) {
  const uchar4 u = uchar4(200, 100, 50, i);
  const char4 s = char4(-1, 2, -3, 4);
  const ushort w = ushort(u.x) << 8 | ushort(u.y);
  const int4 v = int4(s) * int4(u);
  out[i] = float(v.x + v.y + v.z) + float(w) + float(as_type<uchar4>(0x04030201u).z) + float((long)1 << 33 >> 32);
}

struct Packed {
  packed_float3 a;
  float b;
  packed_half4 c;
};
kernel void packed(ARGS) {
  device const Packed *p = (device const Packed *)x;
  const float3 a = float3(p[1].a);
  out[i] = a.x + a.y + a.z + p[1].b + p[0].a[1] + float(sizeof(Packed));
}

kernel void bits(ARGS) {
  const uint u = as_type<uint>(x[i]);
  out[i] = float(popcount(i)) + float(extract_bits(u, 23, 8)) + float(clz(i | 1)) + float(ctz(i | 64)) +
           float(extract_bits(int(0xf0), 4, 4)) + float(insert_bits(0u, 3u, 4u, 2u)) + float(mulhi(0x80000000u, 6u)) +
           float(rotate(1u, 33u)) +
           float(reverse_bits(1u) >> 31);
}

// ---- arithmetic ----

kernel void maths(ARGS) {
  const float a = fabs(x[i]) + 0.5f;
  out[i] = exp(-a) + exp2(a) + log(a) + log2(a) + sqrt(a) + rsqrt(a) + sin(a) + cos(a) + tanh(a) + pow(a, 1.5f) +
           precise::exp(-a) + fast::log(a) +
           precise::sqrt(a) + floor(a) + ceil(a) + trunc(a) + rint(a) + fma(a, 2.0f, 1.0f) + metal::sqrt(4.0f) +
           atan2(a, 2.0f);
}

kernel void choices(ARGS) {
  const float a = x[i];
  out[i] = min(a, 1.0f) + max(a, -1.0f) * 10 + clamp(a, -2.0f, 2.0f) * 100 + select(1.0f, 2.0f, a > 0) +
           mix(1.0f, 3.0f, 0.25f) + abs(a) + sign(a) +
           step(0.0f, a) + saturate(a) + float(max(int(i), 5)) + float(min(ushort(i), ushort(7))) +
           select(float2(1), float2(2), float2(a, 1) > float2(0)).x +
           float(any(float2(a, -1) > float2(0))) + max(float2(a), float2(1)).y + (isnan(NAN) ? 1.0f : 0.0f) +
           max(NAN, 2.0f);
}

kernel void more_maths(ARGS) {
  float c, fc;
  const float s = sincos(x[i], c), fs = fast::sincos(x[i], fc);
  out[i] = s * s + c * c + fs - s + fc - c + precise::divide(x[i], 4.0f) + fdim(x[i], 1.0f) +
           median3(x[i], 2.0f, -2.0f) + cross(float3(1, 0, 0), float3(0, x[i], 0)).z +
           float(int(-3) << 2);
}

kernel void literals(ARGS) { out[i] = 1.0 / 3 + 0x10 + 1e-3 + float(10u) + float(1.5h) + (sizeof(1.0) == 4 ? 1 : 0); }

// ---- functions, templates, constants ----

constant float table[4] = {1, 2, 4, 8};
constant constexpr int steps = 3;
struct Pair {
  float a, b;
};
static float twice(float v) { return 2 * v; }
static void bump(thread float &v, thread const Pair &p) { v += p.a * p.b; }
static float pick(device const float *p, uint n) { return p[n]; }
static float pick_own(threadgroup const float *p, uint n) { return -p[n]; }
template <typename T> T thrice(T v) { return v + v + v; }
namespace helpers {
inline float half_of(float v) { return v / 2; }
}

kernel void functions(ARGS) {
  threadgroup float s[64];
  s[t] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float v = twice(x[i]);
  Pair p = {2, 3};
  bump(v, p);
  float sum = 0;
  _Pragma("clang loop unroll(full)") for (int k = 0; k < steps; k++) sum += table[k];
#pragma unroll
  for (int k = 0; k < 2; k++) sum += thrice(float2(1, 2))[k];
  thread float *q = &sum;
  *q += 1;
  const auto add = pick(x, i) + pick_own(s, 63 - t);
  out[i] = v + sum + add + helpers::half_of(8) + thrice<int>(1);
}

template <typename T, int N, bool NEGATIVE = false>
kernel void templated(device T *out [[buffer(0)]], device const float *x [[buffer(1)]],
                      uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
  threadgroup T s[N], more[2][N];
  if (t < N) s[t] = T(t), more[1][t] = T(N);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const T v = s[(t + 1) % N] + more[1][0];
  out[i] = NEGATIVE ? -v : v;
}
template [[host_name("templated_7")]] kernel void templated<float, 7>(device float *, device const float *, uint, uint);
template [[host_name("templated_16")]] kernel void templated<float, 16, true>(device float *, device const float *,
                                                                              uint, uint);
typedef decltype(templated<float, 1>) templated_t;
template [[host_name("templated_3")]] kernel templated_t templated<float, 3>;

constant bool flag [[function_constant(0)]];
constant int shift [[function_constant(1)]];
constant uint count [[function_constant(2)]];
constant float scale [[function_constant(30)]];
constant int bonus [[function_constant(31)]];
constant bool has_bonus = is_function_constant_defined(bonus);
constant int extra = has_bonus ? bonus : 7;
kernel void constants(ARGS, device const float *optional [[buffer(5), function_constant(flag)]],
                      constant uint &more [[buffer(6), function_constant(has_bonus)]]) {
  out[i] = x[i] * scale + shift + count + extra;
  if (flag) out[i] += optional[0];
  if (has_bonus) out[i] += more;
}

struct Args {
  uint n;
  float a, b[2];
  packed_float2 c;
};
kernel void arguments(ARGS, constant Args &a [[buffer(2)]], constant float *list [[buffer(3)]],
                      constant uint2 &two [[buffer(4)]]) {
  out[i] = a.a * x[i] + a.b[1] + list[a.n] + float(two.y) + a.c.y;
}

kernel void dynamic(ARGS, threadgroup float *a [[threadgroup(0)]], threadgroup uint *b [[threadgroup(3)]]) {
  threadgroup float own;
  if (t == 0) own = 100;
  a[t] = x[i];
  b[63 - t] = t;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = a[b[t]] + own;
}

// ---- simdgroups ----

kernel void reductions(ARGS) {
  const float v = x[i];
  out[i] = simd_sum(v) + simd_max(v) * 2 + simd_min(v) * 3 + simd_product(lane == 3 ? 2.0f : 1.0f) +
           float(simd_sum(int2(1, lane)).y) + float(simd_or(1u << lane) == 0xffffffff) +
           float(simd_and(lane | 16u)) + float(simd_xor(uint(lane)));
}

kernel void exchanges(ARGS) {
  const float v = x[i];
  out[i] = simd_shuffle(v, 31 - lane) + simd_shuffle_xor(v, 5) * 2 + simd_shuffle_down(v, 3) * 3 +
           simd_shuffle_up(v, 4) * 5 + simd_broadcast(v, 7) * 7 +
           simd_broadcast_first(v) * 11 + simd_shuffle_rotate_down(v, 9) * 13 + simd_shuffle(float4(v), ushort(2)).w;
}

kernel void scans(ARGS) { out[i] = simd_prefix_inclusive_sum(float(lane)) + 1000 * simd_prefix_exclusive_sum(uint(2)); }

kernel void votes(ARGS) {
  const simd_vote v = simd_ballot(lane % 3 == 0);
  out[i] = float(popcount(uint((simd_vote::vote_t)v))) + (simd_any(lane == 9) ? 100 : 0) +
           (simd_all(lane < 31) ? 1000 : 0) + (v.any() ? 10000 : 0) + (simd_is_first() ? 0.5f : 0);
}

kernel void neighbours(ARGS) { // a simdgroup talks through memory
  threadgroup float s[64];
  s[t] = x[i];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = s[t ^ 1];
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  out[i] += 1;
}

// ---- matrices ----

kernel void matrices(ARGS) {
  threadgroup float a[64], b[8 * 10];
  threadgroup half h[64];
  a[t] = x[i];
  h[t] = half(t % 8 == t / 8 ? 2 : 0);
  b[t / 8 * 10 + t % 8] = float(t);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t < 32) {
    simdgroup_float8x8 ma, mb, mc = make_filled_simdgroup_matrix<float, 8>(1.0f), md;
    simdgroup_matrix<half, 8, 8> mh;
    simdgroup_load(ma, a);
    simdgroup_load(mb, b, 10, ulong2(0, 0), true);
    simdgroup_load(mh, h, 8);
    simdgroup_multiply_accumulate(mc, ma, mb, mc);
    simdgroup_multiply(md, mc, mh);
    simdgroup_store(md, out + i / 64 * 64, 8, ulong2(0, 0), false);
  }
}

// ---- atomics ----

kernel void atomics(ARGS, device atomic_uint *n [[buffer(2)]], device atomic_int *m [[buffer(3)]],
                    device atomic_float *f [[buffer(4)]]) {
  threadgroup atomic_uint local;
  if (t == 0) atomic_store_explicit(&local, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
  atomic_fetch_max_explicit(m, int(i), memory_order_relaxed);
  atomic_fetch_add_explicit(f, 0.5f, memory_order_relaxed);
  atomic_fetch_add_explicit(&local, 2u, memory_order_relaxed);
  uint seen = atomic_load_explicit(n + 1, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(n + 1, &seen, seen + 3, memory_order_relaxed, memory_order_relaxed)) {
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = float(atomic_load_explicit(&local, memory_order_relaxed));
}
