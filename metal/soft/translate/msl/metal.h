// What <metal_stdlib> gives, for clang. It stands before each translated source. With MSL_STRICT it only declares, with
// address spaces that clang keeps apart; otherwise it runs, on the fibres of runtime.h.
//
// Overloads are as narrow as in the Metal language specification: what is ambiguous there must not compile here.
#pragma once

#ifdef MSL_STRICT
#define MSL_CONSTANT __attribute__((address_space(2)))
#define device __attribute__((address_space(1)))
#define constant const MSL_CONSTANT
#define threadgroup __attribute__((address_space(3)))
#else
#include "runtime.h"
#define device
#define constant const
#define threadgroup
#endif
#define thread
#define kernel static

typedef _Float16 half;
typedef __bf16 bfloat;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned long uintptr_t;

#define MSL_INLINE static inline __attribute__((always_inline, nodebug, unused))
#define MSL_APART \
  static __attribute__((noinline, nodebug, unused, no_sanitize("thread", "undefined", "array-bounds", "alignment")))

#define MSL_EACH(X) X(float) X(half) X(bfloat) X(int) X(uint) X(short) X(ushort) X(char) X(uchar) X(long) X(ulong)
#define MSL_VECTORS(T)                                 \
  typedef T T##2 __attribute__((ext_vector_type(2)));  \
  typedef T T##3 __attribute__((ext_vector_type(3)));  \
  typedef T T##4 __attribute__((ext_vector_type(4)));
MSL_EACH(MSL_VECTORS)

// msl_shape tells element and number of components of a type.
template <class T> struct msl_shape { typedef T element; enum { count = 1 }; };
#define MSL_SHAPE(T, N) template <> struct msl_shape<T##N> { typedef T element; enum { count = N }; };
#define MSL_SHAPES(T) MSL_SHAPE(T, 2) MSL_SHAPE(T, 3) MSL_SHAPE(T, 4)
MSL_EACH(MSL_SHAPES)

template <class T, int N> struct msl_vector;
#define MSL_VECTOR(T, N) template <> struct msl_vector<T, N> { typedef T##N type; };
#define MSL_VECTOR_OF(T) MSL_VECTOR(T, 2) MSL_VECTOR(T, 3) MSL_VECTOR(T, 4)
MSL_EACH(MSL_VECTOR_OF)

template <class A, class B> struct msl_same { enum { yes = 0 }; };
template <class A> struct msl_same<A, A> { enum { yes = 1 }; };
template <bool, class T> struct msl_if {};
template <class T> struct msl_if<true, T> { typedef T type; };
template <class T> struct msl_is_float {
  enum { yes = msl_same<T, float>::yes || msl_same<T, half>::yes || msl_same<T, bfloat>::yes };
};
template <class T> struct msl_is_number {
  enum {
    yes = msl_is_float<T>::yes || msl_same<T, int>::yes || msl_same<T, uint>::yes || msl_same<T, short>::yes ||
          msl_same<T, ushort>::yes || msl_same<T, char>::yes || msl_same<T, int8_t>::yes || msl_same<T, uchar>::yes ||
          msl_same<T, long>::yes || msl_same<T, ulong>::yes
  };
};
template <class T> struct msl_is_arithmetic { enum { yes = msl_is_number<typename msl_shape<T>::element>::yes }; };
template <class T> struct msl_is_integer {
  enum { yes = msl_is_arithmetic<T>::yes && !msl_is_float<typename msl_shape<T>::element>::yes };
};
#define MSL_ARITHMETIC(T, R) typename msl_if<msl_is_arithmetic<T>::yes, R>::type
#define MSL_INTEGER(T, R) typename msl_if<msl_is_integer<T>::yes, R>::type

// Packed vectors lie at any multiple of their element. Two and four are vectors of smaller alignment, three is a struct
// that turns into one. The strict pass, where clang gives structs in address spaces no methods, has a vector for it.
#define MSL_PACKED(T)                                                        \
  typedef T packed_##T##2 __attribute__((ext_vector_type(2), aligned(sizeof(T)))); \
  typedef T packed_##T##4 __attribute__((ext_vector_type(4), aligned(sizeof(T))));
MSL_EACH(MSL_PACKED)
#ifdef MSL_STRICT
#define MSL_PACKED3(T) typedef T packed_##T##3 __attribute__((ext_vector_type(3), aligned(sizeof(T))));
#else
template <class T> struct msl_packed3 {
  T x, y, z;
  typedef typename msl_vector<T, 3>::type vector;
  msl_packed3() = default;
  msl_packed3(vector v) : x(v[0]), y(v[1]), z(v[2]) {}
  operator vector() const { return vector{x, y, z}; }
  T &operator[](int i) { return (&x)[i]; }
  const T &operator[](int i) const { return (&x)[i]; }
};
#define MSL_PACKED3(T)                          \
  typedef msl_packed3<T> packed_##T##3;         \
  template <> struct msl_shape<packed_##T##3> { \
    typedef T element;                          \
    enum { count = 3 };                         \
  };
#endif
MSL_EACH(MSL_PACKED3)

template <class V, class A> MSL_INLINE void msl_put(V &v, int &i, A a) {
  typedef typename msl_shape<V>::element E;
  if constexpr (msl_shape<A>::count == 1) v[i++] = (E)a;
  else for (int k = 0; k < (int)msl_shape<A>::count; k++) v[i++] = (E)a[k];
}

// msl_make is the constructor of a vector: of one number for all components, of another vector, or of parts that give
// all components. Other types construct themselves.
template <class V, class... A> MSL_INLINE V msl_make(A... a) {
  constexpr int want = msl_shape<V>::count, have = (msl_shape<A>::count + ... + 0);
  if constexpr (want == 1) {
    return V(a...);
  } else {
    static_assert(have == want || (sizeof...(A) == 1 && have == 1) || have == 0,
                  "wrong number of components for a vector");
    typedef typename msl_shape<V>::element E;
    V v;
    int i = 0;
    if constexpr (have == 1) ((v = (V)(E)a), ...);
    else if constexpr (have == 0) v = (V)(E)0;
    else (msl_put(v, i, a), ...);
    (void)i;
    return v;
  }
}

static constexpr half operator""h(long double x) { return (half)x; }
static constexpr half operator""H(long double x) { return (half)x; }
static constexpr half operator""h(unsigned long long x) { return (half)x; }
static inline bfloat operator""bf(long double x) { return (bfloat)(float)x; }

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define MAXFLOAT 3.402823466e+38f
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define HALF_MAX ((half)65504.0f)
#define HALF_MIN ((half)6.103515625e-05f)
#define HUGE_VALF __builtin_inff()
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define CHAR_MAX 127
#define UCHAR_MAX 255
#define M_PI_F 3.14159265358979323846f
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LN2_F 0.69314718055994530942f
#define M_SQRT2_F 1.41421356237309504880f

#define is_function_constant_defined(name) msl_given_##name
#define MSL_FUNCTION_CONSTANT(name) static bool msl_given_##name; MSL_DECLARE
#ifdef MSL_STRICT
template <class T> threadgroup T *msl_threadgroup();
#define MSL_DECLARE extern
#else
#define MSL_DECLARE static
#define MSL_HERE \
  const char *msl_file = __builtin_FILE(), uint msl_at = __builtin_LINE() * 1024 + (__builtin_COLUMN() & 1023)
#define MSL_TABLE __attribute__((section("msl_variables"), used))
#endif

template <class T, class U> MSL_INLINE T as_type(U u) {
  static_assert(sizeof(T) == sizeof(U), "as_type between types of different size");
  return __builtin_bit_cast(T, u);
}

namespace metal {

template <class T, int N> using vec = typename msl_vector<T, N>::type;

// ---- barriers and operations of a simdgroup ----

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
MSL_INLINE constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }

class simd_vote {
 public:
  typedef ulong vote_t;
  explicit constexpr simd_vote(vote_t v) : v_(v) {}
  bool all() const { return v_ == 0xffffffff; }
  bool any() const { return v_ != 0; }
  explicit constexpr operator vote_t() const { return v_; }
 private:
  vote_t v_;
};

#ifdef MSL_STRICT
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);
#define MSL_REDUCE(name) template <class T> MSL_ARITHMETIC(T, T) name(T v);
#define MSL_SHUFFLE(name) template <class T> MSL_ARITHMETIC(T, T) name(T v, ushort n);
#define MSL_BITS(name) template <class T> MSL_INTEGER(T, T) name(T v);
MSL_REDUCE(simd_sum) MSL_REDUCE(simd_product) MSL_REDUCE(simd_max) MSL_REDUCE(simd_min)
MSL_REDUCE(simd_prefix_inclusive_sum) MSL_REDUCE(simd_prefix_exclusive_sum)
MSL_REDUCE(simd_prefix_inclusive_product) MSL_REDUCE(simd_prefix_exclusive_product) MSL_REDUCE(simd_broadcast_first)
MSL_BITS(simd_and) MSL_BITS(simd_or) MSL_BITS(simd_xor)
MSL_SHUFFLE(simd_shuffle) MSL_SHUFFLE(simd_shuffle_xor) MSL_SHUFFLE(simd_shuffle_up) MSL_SHUFFLE(simd_shuffle_down)
MSL_SHUFFLE(simd_shuffle_rotate_up) MSL_SHUFFLE(simd_shuffle_rotate_down) MSL_SHUFFLE(simd_broadcast)
bool simd_any(bool);
bool simd_all(bool);
simd_vote simd_ballot(bool);
simd_vote simd_active_threads_mask();
bool simd_is_first();
#else
MSL_INLINE void threadgroup_barrier(mem_flags f, MSL_HERE) {
  msl_rt::msl_threadgroup_barrier((uint)f, msl_file, msl_at);
}
MSL_INLINE void simdgroup_barrier(mem_flags f, MSL_HERE) { msl_rt::msl_simdgroup_barrier((uint)f, msl_file, msl_at); }

// msl_meet gives every thread the result of work(values, result, n), which the last thread to arrive computes.
template <class R, class T, class F> MSL_APART R msl_meet(T v, uint op, F work, const char *file, uint at) {
  static_assert(sizeof(T) <= 32, "too large for an operation of a simdgroup");
  msl_rt::Worker *w = msl_rt::self();
  uint id = msl_rt::threadIndex();
  msl_rt::Simdgroup *g = &w->simdgroup[id / 32];
  uint p = g->parity;
  T *slot = (T *)g->slot[p];
  R *result = (R *)g->result[p];
  slot[id % 32] = v;
  if (msl_rt::msl_arrive(w, g, op, file, at)) {
    work(slot, result, g->size);
    msl_rt::msl_proceed(w, g);
  }
  return *result;
}

// msl_fold combines the values of a simdgroup in pairs, then pairs of pairs.
template <class T, class F> MSL_INLINE T msl_fold(T v, uint op, F f, const char *file, uint at) {
  return msl_meet<T>(v, op, [f](T *s, T *r, uint n) {
    if (n == 32) {
      for (uint w = 16; w; w /= 2) for (uint i = 0; i < w; i++) s[i] = f(s[i], s[i + w]);
    } else {
      for (uint w = 1; w < n; w *= 2) for (uint i = 0; i + w < n; i += 2 * w) s[i] = f(s[i], s[i + w]);
    }
    *r = s[0];
  }, file, at);
}

// msl_exchange gives each thread the value of thread from, or its own if there is no such thread.
template <class T> MSL_APART T msl_exchange(T v, uint op, int from, bool must, const char *file, uint at) {
  msl_rt::Worker *w = msl_rt::self();
  uint id = msl_rt::threadIndex();
  msl_rt::Simdgroup *g = &w->simdgroup[id / 32];
  T *slot = (T *)g->slot[g->parity];
  slot[id % 32] = v;
  if (msl_rt::msl_arrive(w, g, op, file, at)) msl_rt::msl_proceed(w, g);
  if ((uint)from < g->size) return slot[from];
  if (must) msl_rt::msl_bad_lane((uint)from, file, at);
  return v;
}

// msl_scan gives each thread the combination of the values before it, with or without its own.
template <class T, class F> MSL_APART T msl_scan(T v, uint op, F f, bool with, T none, const char *file, uint at) {
  msl_rt::Worker *w = msl_rt::self();
  uint id = msl_rt::threadIndex();
  msl_rt::Simdgroup *g = &w->simdgroup[id / 32];
  T *slot = (T *)g->slot[g->parity];
  slot[id % 32] = v;
  if (msl_rt::msl_arrive(w, g, op, file, at)) msl_rt::msl_proceed(w, g);
  T sum = none;
  for (uint i = 0; i < id % 32; i++) sum = f(sum, slot[i]);
  return with ? f(sum, v) : sum;
}

template <class T> struct msl_plus { T operator()(T a, T b) const { return (T)(a + b); } };
template <class T> struct msl_times { T operator()(T a, T b) const { return (T)(a * b); } };
template <class T> struct msl_and { T operator()(T a, T b) const { return (T)(a & b); } };
template <class T> struct msl_or { T operator()(T a, T b) const { return (T)(a | b); } };
template <class T> struct msl_xor { T operator()(T a, T b) const { return (T)(a ^ b); } };
template <class T> MSL_INLINE T msl_larger(T a, T b) {
  if constexpr (msl_shape<T>::count == 1) return a != a || b > a ? b : a; // a number rather than NaN, as fmax does
  else {
    for (int i = 0; i < (int)msl_shape<T>::count; i++) a[i] = a[i] != a[i] || b[i] > a[i] ? b[i] : a[i];
    return a;
  }
}
template <class T> MSL_INLINE T msl_smaller(T a, T b) {
  if constexpr (msl_shape<T>::count == 1) return a != a || b < a ? b : a;
  else {
    for (int i = 0; i < (int)msl_shape<T>::count; i++) a[i] = a[i] != a[i] || b[i] < a[i] ? b[i] : a[i];
    return a;
  }
}
template <class T> struct msl_max { T operator()(T a, T b) const { return msl_larger(a, b); } };
template <class T> struct msl_min { T operator()(T a, T b) const { return msl_smaller(a, b); } };

#define MSL_FOLD(name, op, F)                                              \
  template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) name(T v, MSL_HERE) { \
    return msl_fold(v, msl_rt::kReduce + op, F<T>(), msl_file, msl_at);    \
  }
#define MSL_FOLD_BITS(name, op, F)                                      \
  template <class T> MSL_INLINE MSL_INTEGER(T, T) name(T v, MSL_HERE) { \
    return msl_fold(v, msl_rt::kReduce + op, F<T>(), msl_file, msl_at); \
  }
MSL_FOLD(simd_sum, 0, msl_plus) MSL_FOLD(simd_product, 1, msl_times)
MSL_FOLD(simd_max, 2, msl_max) MSL_FOLD(simd_min, 3, msl_min)
MSL_FOLD_BITS(simd_and, 4, msl_and) MSL_FOLD_BITS(simd_or, 5, msl_or) MSL_FOLD_BITS(simd_xor, 6, msl_xor)
#define MSL_SCAN(name, op, F, with, none)                                              \
  template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) name(T v, MSL_HERE) {             \
    return msl_scan(v, msl_rt::kReduce + op, F<T>(), with, (T)none, msl_file, msl_at); \
  }
MSL_SCAN(simd_prefix_inclusive_sum, 7, msl_plus, true, 0)
MSL_SCAN(simd_prefix_exclusive_sum, 8, msl_plus, false, 0)
MSL_SCAN(simd_prefix_inclusive_product, 9, msl_times, true, 1)
MSL_SCAN(simd_prefix_exclusive_product, 10, msl_times, false, 1)

MSL_INLINE int msl_lane() { return (int)(msl_rt::threadIndex() % 32); }
#define MSL_EXCHANGE(name, op, from, must)                                           \
  template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) name(T v, ushort n, MSL_HERE) { \
    return msl_exchange(v, msl_rt::kShuffle + op, from, must, msl_file, msl_at);     \
  }
MSL_EXCHANGE(simd_shuffle, 0, (int)n, true)
MSL_EXCHANGE(simd_shuffle_xor, 1, msl_lane() ^ (int)n, true)
MSL_EXCHANGE(simd_shuffle_up, 2, msl_lane() - (int)n, false)
MSL_EXCHANGE(simd_shuffle_down, 3, msl_lane() + (int)n, false)
MSL_EXCHANGE(simd_shuffle_rotate_up, 4, (msl_lane() - (int)n) & 31, true)
MSL_EXCHANGE(simd_shuffle_rotate_down, 5, (msl_lane() + (int)n) & 31, true)
MSL_EXCHANGE(simd_broadcast, 6, (int)n, true)
template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) simd_broadcast_first(T v, MSL_HERE) {
  return msl_exchange(v, msl_rt::kShuffle + 7, 0, true, msl_file, msl_at);
}
MSL_INLINE ulong msl_votes(bool v, uint op, const char *file, uint at) {
  return msl_meet<ulong>(
      v, op,
      [](bool *s, ulong *r, uint n) {
        *r = 0;
        for (uint i = 0; i < n; i++) *r |= (ulong)s[i] << i;
      },
      file, at);
}
MSL_INLINE ulong msl_everyone() {
  msl_rt::Worker *w = msl_rt::self();
  uint n = w->simdgroup[msl_rt::threadIndex() / 32].size;
  return n == 32 ? 0xffffffff : (1ul << n) - 1;
}
MSL_INLINE bool simd_any(bool v, MSL_HERE) { return msl_votes(v, msl_rt::kShuffle + 8, msl_file, msl_at) != 0; }
MSL_INLINE bool simd_all(bool v, MSL_HERE) {
  return msl_votes(v, msl_rt::kShuffle + 9, msl_file, msl_at) == msl_everyone();
}
MSL_INLINE simd_vote simd_ballot(bool v, MSL_HERE) {
  return simd_vote(msl_votes(v, msl_rt::kShuffle + 10, msl_file, msl_at));
}
MSL_INLINE simd_vote simd_active_threads_mask(MSL_HERE) {
  return simd_vote(msl_votes(true, msl_rt::kShuffle + 11, msl_file, msl_at));
}
MSL_INLINE bool simd_is_first() { return msl_lane() == 0; }
#endif

// ---- mathematics ----

#define MSL_LANES(name, T, N)                      \
  MSL_INLINE T##N name(T##N v) {                   \
    T##N r;                                        \
    for (int i = 0; i < N; i++) r[i] = name(v[i]); \
    return r;                                      \
  }
#define MSL_LANES2(name, T, N)                           \
  MSL_INLINE T##N name(T##N a, T##N b) {                 \
    T##N r;                                              \
    for (int i = 0; i < N; i++) r[i] = name(a[i], b[i]); \
    return r;                                            \
  }
#define MSL_LANES3(name, T, N)                                 \
  MSL_INLINE T##N name(T##N a, T##N b, T##N c) {               \
    T##N r;                                                    \
    for (int i = 0; i < N; i++) r[i] = name(a[i], b[i], c[i]); \
    return r;                                                  \
  }
#define MSL_WIDE(X, name) \
  X(name, float, 2) X(name, float, 3) X(name, float, 4) X(name, half, 2) X(name, half, 3) X(name, half, 4)
#define MSL_F1(name, e)                        \
  MSL_INLINE float name(float x) { return e; } \
  MSL_INLINE half name(half h) {               \
    float x = (float)h;                        \
    return (half)(e);                          \
  }                                            \
  MSL_WIDE(MSL_LANES, name)
#define MSL_F2(name, e)                                 \
  MSL_INLINE float name(float x, float y) { return e; } \
  MSL_INLINE half name(half g, half h) {                \
    float x = (float)g, y = (float)h;                   \
    return (half)(e);                                   \
  }                                                     \
  MSL_WIDE(MSL_LANES2, name)
#define MSL_F3(name, e)                                          \
  MSL_INLINE float name(float x, float y, float z) { return e; } \
  MSL_INLINE half name(half f, half g, half h) {                 \
    float x = (float)f, y = (float)g, z = (float)h;              \
    return (half)(e);                                            \
  }                                                              \
  MSL_WIDE(MSL_LANES3, name)

#define MSL_PRECISE \
  MSL_F1(exp, __builtin_expf(x)) MSL_F1(exp2, __builtin_exp2f(x)) MSL_F1(exp10, __builtin_powf(10.0f, x)) \
  MSL_F1(log, __builtin_logf(x)) MSL_F1(log2, __builtin_log2f(x)) MSL_F1(log10, __builtin_log10f(x)) \
  MSL_F1(sqrt, __builtin_sqrtf(x)) MSL_F1(rsqrt, 1.0f / __builtin_sqrtf(x)) \
  MSL_F1(sin, __builtin_sinf(x)) MSL_F1(cos, __builtin_cosf(x)) MSL_F1(tan, __builtin_tanf(x)) \
  MSL_F1(asin, __builtin_asinf(x)) MSL_F1(acos, __builtin_acosf(x)) MSL_F1(atan, __builtin_atanf(x)) \
  MSL_F1(sinh, __builtin_sinhf(x)) MSL_F1(cosh, __builtin_coshf(x)) MSL_F1(tanh, __builtin_tanhf(x)) \
  MSL_F1(floor, __builtin_floorf(x)) MSL_F1(ceil, __builtin_ceilf(x)) MSL_F1(trunc, __builtin_truncf(x)) \
  MSL_F1(rint, __builtin_rintf(x)) MSL_F1(round, __builtin_roundf(x)) MSL_F1(fract, x - __builtin_floorf(x)) \
  MSL_F1(fabs, __builtin_fabsf(x)) \
  MSL_F2(pow, __builtin_powf(x, y)) MSL_F2(powr, __builtin_powf(x, y)) MSL_F2(fmod, __builtin_fmodf(x, y)) \
  MSL_F2(atan2, __builtin_atan2f(x, y)) \
  MSL_F2(fmax, msl_float_max(x, y)) MSL_F2(fmin, msl_float_min(x, y)) MSL_F2(divide, x / y) \
  MSL_SINCOS(float) MSL_SINCOS(half) MSL_WIDE(MSL_SINCOS_ALL, sincos)
#define MSL_SINCOS(T) MSL_INLINE T sincos(T x, T &c) { c = cos(x); return sin(x); }
#define MSL_SINCOS_ALL(name, T, N) MSL_INLINE T##N name(T##N x, T##N &c) { c = cos(x); return sin(x); }
MSL_INLINE float msl_float_max(float a, float b) { return a != a || b > a ? b : a; }
MSL_INLINE float msl_float_min(float a, float b) { return a != a || b < a ? b : a; }
MSL_PRECISE
namespace precise { MSL_PRECISE }
namespace fast { MSL_PRECISE }
MSL_F2(copysign, __builtin_copysignf(x, y))
MSL_F2(fdim, x > y ? x - y : 0.0f)
MSL_F2(step, y < x ? 0.0f : 1.0f)
MSL_F1(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x == 0 ? x : 0.0f)
MSL_F1(saturate, msl_float_min(msl_float_max(x, 0.0f), 1.0f))
MSL_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MSL_INLINE half fma(half a, half b, half c) { return (half)((float)a * (float)b + (float)c); } // the product is exact
MSL_WIDE(MSL_LANES3, fma)
MSL_F3(smoothstep, (z = msl_float_min(msl_float_max((z - x) / (y - x), 0.0f), 1.0f), z * z * (3.0f - 2.0f * z)))
MSL_INLINE float ldexp(float x, int n) { return __builtin_ldexpf(x, n); }
MSL_INLINE float mix(float a, float b, float t) { return a + (b - a) * t; }
MSL_INLINE half mix(half a, half b, half t) { return a + (b - a) * t; }
MSL_WIDE(MSL_LANES3, mix)
#define MSL_MIX_ALL(name, T, N) MSL_INLINE T##N name(T##N a, T##N b, T t) { return a + (b - a) * t; }
MSL_WIDE(MSL_MIX_ALL, mix)
MSL_INLINE bool isnan(float x) { return __builtin_isnan(x); }
MSL_INLINE bool isnan(half x) { return __builtin_isnan((float)x); }
MSL_INLINE bool isinf(float x) { return __builtin_isinf(x); }
MSL_INLINE bool isinf(half x) { return __builtin_isinf((float)x); }
MSL_INLINE bool isfinite(float x) { return __builtin_isfinite(x); }
MSL_INLINE bool isfinite(half x) { return __builtin_isfinite((float)x); }
MSL_INLINE bool signbit(float x) { return __builtin_signbit(x); }

template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) max(T a, T b) {
  if constexpr (msl_shape<T>::count == 1) return a != a || b > a ? b : a;
  else {
    for (int i = 0; i < (int)msl_shape<T>::count; i++) a[i] = a[i] != a[i] || b[i] > a[i] ? b[i] : a[i];
    return a;
  }
}
template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) min(T a, T b) {
  if constexpr (msl_shape<T>::count == 1) return a != a || b < a ? b : a;
  else {
    for (int i = 0; i < (int)msl_shape<T>::count; i++) a[i] = a[i] != a[i] || b[i] < a[i] ? b[i] : a[i];
    return a;
  }
}
template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) max3(T a, T b, T c) { return max(a, max(b, c)); }
template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) min3(T a, T b, T c) { return min(a, min(b, c)); }
template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) median3(T a, T b, T c) { return max(min(a, b), min(max(a, b), c)); }
template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) clamp(T x, T low, T high) { return min(max(x, low), high); }
#define MSL_CLAMP_ALL(name, T, N) \
  MSL_INLINE T##N name(T##N x, T low, T high) { return min(max(x, (T##N)low), (T##N)high); }
MSL_WIDE(MSL_CLAMP_ALL, clamp)
template <class T> MSL_INLINE MSL_ARITHMETIC(T, T) abs(T a) {
  if constexpr (msl_shape<T>::count == 1) return a < 0 ? (T)-a : a;
  else { for (int i = 0; i < (int)msl_shape<T>::count; i++) a[i] = a[i] < 0 ? -a[i] : a[i]; return a; }
}
template <class T> MSL_INLINE typename msl_if<msl_is_number<T>::yes, T>::type select(T a, T b, bool c) {
  return c ? b : a;
}
template <class T, class C>
MSL_INLINE typename msl_if<(msl_shape<T>::count > 1) && (int)msl_shape<T>::count == (int)msl_shape<C>::count &&
                               msl_is_integer<C>::yes,
                           T>::type
select(T a, T b, C c) {
  for (int i = 0; i < (int)msl_shape<T>::count; i++) a[i] = c[i] ? b[i] : a[i];
  return a;
}
template <class C>
MSL_INLINE typename msl_if<(msl_shape<C>::count > 1) && msl_is_integer<C>::yes, bool>::type any(C c) {
  bool r = false;
  for (int i = 0; i < (int)msl_shape<C>::count; i++) r |= c[i] != 0;
  return r;
}
template <class C>
MSL_INLINE typename msl_if<(msl_shape<C>::count > 1) && msl_is_integer<C>::yes, bool>::type all(C c) {
  bool r = true;
  for (int i = 0; i < (int)msl_shape<C>::count; i++) r &= c[i] != 0;
  return r;
}

#define MSL_DOT(name, T, N)                       \
  MSL_INLINE T name(T##N a, T##N b) {             \
    T s = a[0] * b[0];                            \
    for (int i = 1; i < N; i++) s += a[i] * b[i]; \
    return s;                                     \
  }
MSL_WIDE(MSL_DOT, dot)
MSL_INLINE float3 cross(float3 a, float3 b) { return a.yzx * b.zxy - a.zxy * b.yzx; }
MSL_INLINE half3 cross(half3 a, half3 b) { return a.yzx * b.zxy - a.zxy * b.yzx; }
#define MSL_LENGTH(name, T, N) MSL_INLINE T name(T##N v) { return sqrt(dot(v, v)); }
MSL_WIDE(MSL_LENGTH, length)
#define MSL_LENGTH2(name, T, N) MSL_INLINE T name(T##N v) { return dot(v, v); }
MSL_WIDE(MSL_LENGTH2, length_squared)
#define MSL_NORMALIZE(name, T, N) MSL_INLINE T##N name(T##N v) { return v * rsqrt(dot(v, v)); }
MSL_WIDE(MSL_NORMALIZE, normalize)
#define MSL_DISTANCE(name, T, N) MSL_INLINE T name(T##N a, T##N b) { return length(a - b); }
MSL_WIDE(MSL_DISTANCE, distance)

// ---- integers ----

template <class T> MSL_INLINE MSL_INTEGER(T, T) popcount(T x) {
  if constexpr (msl_shape<T>::count == 1) {
    int n = 0;
    for (int i = 0; i < (int)sizeof(T) * 8; i++) n += (int)(x >> i & 1);
    return (T)n;
  } else {
    for (int i = 0; i < (int)msl_shape<T>::count; i++) x[i] = popcount(x[i]);
    return x;
  }
}
MSL_INLINE uint clz(uint x) { return x ? (uint)__builtin_clz(x) : 32u; }
MSL_INLINE int clz(int x) { return x ? __builtin_clz((uint)x) : 32; }
MSL_INLINE ushort clz(ushort x) { return x ? (ushort)(__builtin_clz((uint)x) - 16) : (ushort)16; }
MSL_INLINE ulong clz(ulong x) { return x ? (ulong)__builtin_clzl(x) : 64ul; }
MSL_INLINE uint ctz(uint x) { return x ? (uint)__builtin_ctz(x) : 32u; }
MSL_INLINE int ctz(int x) { return x ? __builtin_ctz((uint)x) : 32; }
MSL_INLINE ushort ctz(ushort x) { return x ? (ushort)__builtin_ctz((uint)x) : (ushort)16; }
MSL_INLINE ulong ctz(ulong x) { return x ? (ulong)__builtin_ctzl(x) : 64ul; }
MSL_INLINE uint reverse_bits(uint x) { return __builtin_bitreverse32(x); }
MSL_INLINE uint mulhi(uint a, uint b) { return (uint)((ulong)a * b >> 32); }
MSL_INLINE int mulhi(int a, int b) { return (int)((long)a * b >> 32); }
MSL_INLINE uint mul24(uint a, uint b) { return (a & 0xffffff) * (b & 0xffffff); }
MSL_INLINE uint mad24(uint a, uint b, uint c) { return mul24(a, b) + c; }
MSL_INLINE uint rotate(uint x, uint n) { return x << (n & 31) | x >> (-n & 31); }
MSL_INLINE uint absdiff(int a, int b) { return a > b ? (uint)a - (uint)b : (uint)b - (uint)a; }
MSL_INLINE uint absdiff(uint a, uint b) { return a > b ? a - b : b - a; }
MSL_INLINE uint addsat(uint a, uint b) { return a + b < a ? 0xffffffffu : a + b; }
MSL_INLINE uint subsat(uint a, uint b) { return a > b ? a - b : 0u; }
template <class T> MSL_INLINE MSL_INTEGER(T, T) extract_bits(T x, uint offset, uint bits) {
  if constexpr (msl_shape<T>::count > 1) {
    for (int i = 0; i < (int)msl_shape<T>::count; i++) x[i] = extract_bits(x[i], offset, bits);
    return x;
  } else {
    if (bits == 0) return 0;
    const uint width = sizeof(T) * 8;
    ulong shifted = (ulong)x >> offset, mask = bits >= 64 ? ~0ul : (1ul << bits) - 1, low = shifted & mask;
    if ((T)-1 < (T)0 && bits < width && (low >> (bits - 1) & 1)) low |= ~mask;
    return (T)low;
  }
}
template <class T> MSL_INLINE MSL_INTEGER(T, T) insert_bits(T base, T insert, uint offset, uint bits) {
  if constexpr (msl_shape<T>::count > 1) {
    for (int i = 0; i < (int)msl_shape<T>::count; i++) base[i] = insert_bits(base[i], insert[i], offset, bits);
    return base;
  } else {
    ulong mask = (bits >= 64 ? ~0ul : (1ul << bits) - 1) << offset;
    return (T)(((ulong)base & ~mask) | ((ulong)insert << offset & mask));
  }
}

// ---- atomics ----

enum memory_order { memory_order_relaxed };
template <class T> struct atomic { T v; };
typedef atomic<uint> atomic_uint;
typedef atomic<int> atomic_int;
typedef atomic<float> atomic_float;
typedef atomic<bool> atomic_bool;
template <class T> struct msl_self { typedef T type; }; // a parameter that does not decide the template's type
#ifdef MSL_STRICT
#define MSL_ATOMIC_OP(AS, name) \
  template <class T> T name(volatile AS atomic<T> *p, typename msl_self<T>::type v, memory_order);
#define MSL_ATOMICS(AS) \
  template <class T> T atomic_load_explicit(const volatile AS atomic<T> *p, memory_order); \
  template <class T> void atomic_store_explicit(volatile AS atomic<T> *p, typename msl_self<T>::type v, memory_order); \
  template <class T> bool atomic_compare_exchange_weak_explicit( \
      volatile AS atomic<T> *p, T *expected, typename msl_self<T>::type v, memory_order, memory_order); \
  MSL_ATOMIC_OP(AS, atomic_exchange_explicit) \
  MSL_ATOMIC_OP(AS, atomic_fetch_add_explicit) \
  MSL_ATOMIC_OP(AS, atomic_fetch_sub_explicit) \
  MSL_ATOMIC_OP(AS, atomic_fetch_and_explicit) \
  MSL_ATOMIC_OP(AS, atomic_fetch_or_explicit) \
  MSL_ATOMIC_OP(AS, atomic_fetch_xor_explicit) \
  MSL_ATOMIC_OP(AS, atomic_fetch_max_explicit) \
  MSL_ATOMIC_OP(AS, atomic_fetch_min_explicit)
MSL_ATOMICS(device) MSL_ATOMICS(threadgroup)
#else
template <class T> MSL_APART T atomic_load_explicit(const volatile atomic<T> *p, memory_order) {
  msl_rt::msl_access((const void *)p, sizeof(T), msl_rt::kAtomicRead, __builtin_return_address(0));
  T r;
  __atomic_load(&p->v, &r, __ATOMIC_RELAXED);
  return r;
}
template <class T>
MSL_APART void atomic_store_explicit(volatile atomic<T> *p, typename msl_self<T>::type v, memory_order) {
  msl_rt::msl_access((const void *)p, sizeof(T), msl_rt::kAtomicWrite, __builtin_return_address(0));
  __atomic_store(&p->v, &v, __ATOMIC_RELAXED);
}
template <class T>
MSL_APART bool atomic_compare_exchange_weak_explicit(volatile atomic<T> *p, T *expected, typename msl_self<T>::type v,
                                                     memory_order, memory_order) {
  msl_rt::msl_access((const void *)p, sizeof(T), msl_rt::kAtomicRead, __builtin_return_address(0));
  msl_rt::msl_access((const void *)p, sizeof(T), msl_rt::kAtomicWrite, __builtin_return_address(0));
  return __atomic_compare_exchange(&p->v, expected, &v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
#define MSL_ATOMIC_OP(name, e) \
  template <class T> MSL_APART T name(volatile atomic<T> *p, typename msl_self<T>::type v, memory_order) { \
    msl_rt::msl_access((const void *)p, sizeof(T), msl_rt::kAtomicRead, __builtin_return_address(0)); \
    msl_rt::msl_access((const void *)p, sizeof(T), msl_rt::kAtomicWrite, __builtin_return_address(0)); \
    T old, fresh; \
    __atomic_load(&p->v, &old, __ATOMIC_RELAXED); \
    do fresh = (T)(e); \
    while (!__atomic_compare_exchange(&p->v, &old, &fresh, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
    return old; \
  }
MSL_ATOMIC_OP(atomic_exchange_explicit, v) MSL_ATOMIC_OP(atomic_fetch_add_explicit, old + v)
MSL_ATOMIC_OP(atomic_fetch_sub_explicit, old - v)
MSL_ATOMIC_OP(atomic_fetch_and_explicit, old &v) MSL_ATOMIC_OP(atomic_fetch_or_explicit, old | v)
MSL_ATOMIC_OP(atomic_fetch_xor_explicit, old ^ v)
MSL_ATOMIC_OP(atomic_fetch_max_explicit, old > v ? old : v) MSL_ATOMIC_OP(atomic_fetch_min_explicit, old < v ? old : v)
#endif

// ---- matrices of a simdgroup: thread l holds two neighbours of row l/4 ----

template <class T, int C, int R> struct simdgroup_matrix {
  static_assert(C == 8 && R == 8, "a simdgroup_matrix has 8 columns and 8 rows");
  static_assert(msl_is_float<T>::yes, "a simdgroup_matrix holds float, half or bfloat");
  T msl_e[2];
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) {
#ifndef MSL_STRICT
    int row = msl_lane() / 4, column = msl_lane() % 4 * 2;
    msl_e[0] = row == column ? diagonal : (T)0, msl_e[1] = row == column + 1 ? diagonal : (T)0;
#endif
  }
  T (&thread_elements())[2] { return msl_e; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
#if defined MSL_STRICT
template <class T, int C, int R = C> simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T v);
#define MSL_MATRIX(AS)                                                                                               \
  template <class T> void simdgroup_load(simdgroup_matrix<T, 8, 8> &m, const AS T *p, ulong stride = 8,              \
                                         ulong2 origin = 0, bool transpose = false);                                 \
  template <class T> void simdgroup_store(simdgroup_matrix<T, 8, 8> m, AS T *p, ulong stride = 8, ulong2 origin = 0, \
                                          bool transpose = false);
MSL_MATRIX(device)
MSL_MATRIX(threadgroup)
template <class T>
void simdgroup_load(simdgroup_matrix<T, 8, 8> &m, const MSL_CONSTANT T *p, ulong stride = 8,
                    ulong2 origin = 0, bool transpose = false);
template <class T, class A, class B>
void simdgroup_multiply_accumulate(simdgroup_matrix<T, 8, 8> &d, simdgroup_matrix<A, 8, 8> a,
                                   simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<T, 8, 8> c);
template <class T, class A, class B>
void simdgroup_multiply(simdgroup_matrix<T, 8, 8> &d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b);
template <class T> simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a, simdgroup_matrix<T, 8, 8> b);
#else
template <class T, int C, int R = C> MSL_INLINE simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T v) {
  simdgroup_matrix<T, C, R> m;
  m.msl_e[0] = m.msl_e[1] = v;
  return m;
}
// msl_trace notes that the thread took part, so that the next meeting can tell whether all threads did alike.
MSL_INLINE void msl_trace(const void *p, ulong stride, uint at) {
  msl_rt::Worker *w = msl_rt::self();
  if (!w->checking) return;
  uint id = msl_rt::threadIndex();
  ulong &t = w->simdgroup[id / 32].trace[id % 32];
  t = (t ^ (ulong)p ^ stride << 48 ^ at) * 0x9e3779b97f4a7c15ul;
}
template <class T> struct msl_pair { T a, b; };
template <class T> MSL_INLINE void simdgroup_load(simdgroup_matrix<T, 8, 8> &m, const T *p, ulong stride = 8,
                                                  ulong2 origin = 0, bool transpose = false, MSL_HERE) {
  msl_trace(p, stride, msl_at);
  int row = msl_lane() / 4, column = msl_lane() % 4 * 2;
  p += origin.y * stride + origin.x;
  if (transpose) {
    m.msl_e[0] = p[column * stride + row], m.msl_e[1] = p[(column + 1) * stride + row];
  } else {
    typedef T pair_t __attribute__((ext_vector_type(2), aligned(sizeof(T))));
    pair_t pair = *(const pair_t *)(p + row * stride + column);
    m.msl_e[0] = pair[0], m.msl_e[1] = pair[1];
  }
}
template <class T> MSL_INLINE void simdgroup_store(simdgroup_matrix<T, 8, 8> m, T *p, ulong stride = 8,
                                                   ulong2 origin = 0, bool transpose = false, MSL_HERE) {
  msl_trace(p, stride, msl_at);
  int row = msl_lane() / 4, column = msl_lane() % 4 * 2;
  p += origin.y * stride + origin.x;
  if (transpose) p[column * stride + row] = m.msl_e[0], p[(column + 1) * stride + row] = m.msl_e[1];
  else p[row * stride + column] = m.msl_e[0], p[row * stride + column + 1] = m.msl_e[1];
}
template <class T, class A, class B>
MSL_APART void msl_multiply(T *d, const A *a, const B *b, const T *c, const char *file, uint at) {
  typedef float row_t __attribute__((ext_vector_type(8)));
  struct Operands { float a[64], b[64], c[64]; };
  static_assert(sizeof(Operands) <= sizeof(msl_rt::Simdgroup::slot) / 2, "operands must fit the slots of a simdgroup");
  msl_rt::Worker *w = msl_rt::self();
  uint id = msl_rt::threadIndex(), lane = id % 32;
  msl_rt::Simdgroup *g = &w->simdgroup[id / 32];
  Operands *o = (Operands *)g->slot[g->parity];
  float *r = (float *)g->result[g->parity];
  for (int k = 0; k < 2; k++)
    o->a[lane * 2 + k] = (float)a[k], o->b[lane * 2 + k] = (float)b[k], o->c[lane * 2 + k] = (float)c[k];
  if (msl_rt::msl_arrive(w, g, msl_rt::kMultiply, file, at)) {
    const row_t *B_ = (const row_t *)o->b;
    for (int i = 0; i < 8; i++) {
      row_t sum = ((const row_t *)o->c)[i];
      for (int k = 0; k < 8; k++) sum += o->a[i * 8 + k] * B_[k];
      ((row_t *)r)[i] = sum;
    }
    msl_rt::msl_proceed(w, g);
  }
  d[0] = (T)r[lane * 2], d[1] = (T)r[lane * 2 + 1];
}
template <class T, class A, class B>
MSL_INLINE void simdgroup_multiply_accumulate(simdgroup_matrix<T, 8, 8> &d, simdgroup_matrix<A, 8, 8> a,
                                              simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<T, 8, 8> c, MSL_HERE) {
  msl_multiply(d.msl_e, a.msl_e, b.msl_e, c.msl_e, msl_file, msl_at);
}
template <class T, class A, class B>
MSL_INLINE void simdgroup_multiply(simdgroup_matrix<T, 8, 8> &d, simdgroup_matrix<A, 8, 8> a,
                                   simdgroup_matrix<B, 8, 8> b, MSL_HERE) {
  T zero[2] = {(T)0, (T)0};
  msl_multiply(d.msl_e, a.msl_e, b.msl_e, zero, msl_file, msl_at);
}
template <class T>
MSL_INLINE simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a, simdgroup_matrix<T, 8, 8> b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b, __builtin_FILE(), 1);
  return d;
}
#endif

}

// ---- what thunks give to kernels: the parameter's own type asks for what it is ----

#ifdef MSL_STRICT
#define MSL_BUFFER(name, AS)                    \
  struct name {                                 \
    template <class T> operator AS T *() const; \
    template <class T> operator AS T &() const; \
  };
MSL_BUFFER(msl_device_buffer, device)
MSL_BUFFER(msl_constant_buffer, MSL_CONSTANT)
MSL_BUFFER(msl_threadgroup_buffer, threadgroup)
#else
struct msl_buffer {
  ulong p;
  template <class T> __attribute__((always_inline, nodebug)) operator T *() const { return (T *)p; }
  template <class T> __attribute__((always_inline, nodebug, no_sanitize("null", "alignment"))) operator T &() const {
    return *(T *)p; // null if it is not there
  }
};
#define MSL_THUNK static __attribute__((no_sanitize("null", "alignment"))) void
#endif
template <class T> struct msl_is_index { enum { yes = msl_same<T, uint>::yes || msl_same<T, ushort>::yes }; };
struct msl_number { // one number
  uint x;
  template <class T> __attribute__((always_inline, nodebug)) operator T() const {
    static_assert(msl_is_index<T>::yes, "the type of this kernel parameter must be uint or ushort");
    return (T)x;
  }
};
struct msl_position { // up to three
  const uint *p;
  template <class T> __attribute__((always_inline, nodebug)) operator T() const {
    typedef typename msl_shape<T>::element E;
    static_assert(msl_is_index<E>::yes && (int)msl_shape<T>::count < 4,
                  "the type of this kernel parameter must be uint or ushort, or two or three of them");
    if constexpr ((int)msl_shape<T>::count == 1) return (T)p[0];
    else if constexpr ((int)msl_shape<T>::count == 2) return T{(E)p[0], (E)p[1]};
    else return T{(E)p[0], (E)p[1], (E)p[2]};
  }
};
struct msl_product { // of up to three pairs, plus a third
  uint x, y, z;
  template <class T> __attribute__((always_inline, nodebug)) operator T() const {
    uint p[3] = {x, y, z};
    return (T)msl_position{p};
  }
};
#ifdef MSL_STRICT
// msl_match tells whether all positions and sizes among the parameters of a kernel have as many components, and those
// of one group the same type. The group of other parameters is 0.
template <int... group> struct msl_groups {};
template <int... group, class... P> constexpr bool msl_match(msl_groups<group...>, void (*)(P...)) {
  const int groups[] = {group..., 0}, sizes[] = {msl_shape<P>::count..., 0};
  const bool wide[] = {msl_same<typename msl_shape<P>::element, uint>::yes..., false};
  for (int i = 0; i < (int)sizeof...(P); i++) {
    for (int j = 0; j < i; j++) {
      const bool related = groups[i] > 0 && groups[j] > 0;
      if (related && (sizes[i] != sizes[j] || (groups[i] == groups[j] && wide[i] != wide[j]))) return false;
    }
  }
  return true;
}
#else
#define MSL_INPUT(name, type, e) MSL_INLINE type msl_in_##name(msl_rt::Worker *w) { (void)w; return e; }
MSL_INPUT(thread_position_in_threadgroup, msl_position, msl_position{w->position[msl_rt::threadIndex()]})
MSL_INPUT(threadgroup_position_in_grid, msl_position, msl_position{w->groupPosition})
MSL_INPUT(threads_per_threadgroup, msl_position, msl_position{w->group})
MSL_INPUT(dispatch_threads_per_threadgroup, msl_position, msl_position{w->group})
MSL_INPUT(threadgroups_per_grid, msl_position, msl_position{w->grid})
#define MSL_PRODUCT(a, b, c) msl_product{(a)[0] * (b)[0] + (c)[0], (a)[1] * (b)[1] + (c)[1], (a)[2] * (b)[2] + (c)[2]}
static const uint msl_zeros[3] = {0, 0, 0};
MSL_INPUT(thread_position_in_grid, msl_product,
          MSL_PRODUCT(w->groupPosition, w->group, w->position[msl_rt::threadIndex()]))
MSL_INPUT(threads_per_grid, msl_product, MSL_PRODUCT(w->grid, w->group, msl_zeros))
MSL_INPUT(thread_index_in_threadgroup, msl_number, msl_number{msl_rt::threadIndex()})
MSL_INPUT(thread_index_in_simdgroup, msl_number, msl_number{msl_rt::threadIndex() % 32})
MSL_INPUT(simdgroup_index_in_threadgroup, msl_number, msl_number{msl_rt::threadIndex() / 32})
MSL_INPUT(simdgroups_per_threadgroup, msl_number, msl_number{w->simdgroups})
MSL_INPUT(threads_per_simdgroup, msl_number, msl_number{32})
MSL_INPUT(thread_execution_width, msl_number, msl_number{32})
#endif
