// What <metal_stdlib> gives, in C++ for OpenCL 2021: as much of it as the kernels use. It stands before each source
// that a second compiler, which knows nothing of metal.h, compiles for tests.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL FP_CONTRACT OFF

#define kernel inline
#define device __global
#define constant const __constant
#define threadgroup __local
#define thread __private

// msl_shape tells element and number of components of a type.
template <class T> struct msl_shape { typedef T element; enum { count = 1 }; };
template <class T, int N> struct msl_vector;
#define MSL_SHAPE(T, N)                                                    \
  template <> struct msl_shape<T##N> { typedef T element; enum { count = N }; }; \
  template <> struct msl_vector<T, N> { typedef T##N type; };
#define MSL_PACKED(T, N) typedef T packed_##T##N __attribute__((ext_vector_type(N), aligned(sizeof(T))));
#define MSL_TYPES(T) MSL_SHAPE(T, 2) MSL_SHAPE(T, 3) MSL_SHAPE(T, 4) MSL_PACKED(T, 2) MSL_PACKED(T, 4)
MSL_TYPES(float) MSL_TYPES(half) MSL_TYPES(int) MSL_TYPES(uint) MSL_TYPES(short) MSL_TYPES(ushort) MSL_TYPES(char)
MSL_TYPES(uchar) MSL_TYPES(long) MSL_TYPES(ulong)

template <class V, class A> inline void msl_put(V &v, int &i, A a) {
  typedef typename msl_shape<V>::element E;
  if constexpr (msl_shape<A>::count == 1) v[i++] = (E)a;
  else for (int k = 0; k < (int)msl_shape<A>::count; k++) v[i++] = (E)a[k];
}

// msl_make is the constructor of a vector: of one number for all components, of another vector, or of parts that give
// all components. Other types construct themselves.
template <class V, class... A> inline V msl_make(A... a) {
  constexpr int want = msl_shape<V>::count, have = (msl_shape<A>::count + ... + 0);
  if constexpr (want == 1) {
    return V(a...);
  } else {
    static_assert(have == want || have == 1, "wrong number of components for a vector");
    typedef typename msl_shape<V>::element E;
    V v;
    int i = 0;
    if constexpr (have == 1) ((v = (V)(E)a), ...);
    else (msl_put<V>(v, i, a), ...);
    return v;
  }
}

template <class T, class U> inline T as_type(U u) {
  static_assert(sizeof(T) == sizeof(U), "as_type between types of different size");
  return __builtin_bit_cast(T, u);
}

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
inline cl_mem_fence_flags msl_fence(mem_flags f) {
  return ((int)f & 1 ? CLK_GLOBAL_MEM_FENCE : 0) | ((int)f & 2 ? CLK_LOCAL_MEM_FENCE : 0);
}
inline void threadgroup_barrier(mem_flags f) { work_group_barrier(msl_fence(f)); }
inline void simdgroup_barrier(mem_flags f) { sub_group_barrier(msl_fence(f)); }

template <class T> inline T simd_sum(T v) { return sub_group_reduce_add(v); }
template <class T> inline T simd_max(T v) { return sub_group_reduce_max(v); }
template <class T> inline T simd_min(T v) { return sub_group_reduce_min(v); }
template <class T> inline T simd_prefix_exclusive_sum(T v) { return sub_group_scan_exclusive_add(v); }
inline bool simd_any(bool v) { return sub_group_any(v); }

// What takes the value of another thread takes each component of a vector by itself.
template <class T, class F> inline T msl_each(T v, F f) {
  if constexpr (msl_shape<T>::count == 1) return f(v);
  else {
    for (int i = 0; i < (int)msl_shape<T>::count; i++) v[i] = f(v[i]);
    return v;
  }
}
struct msl_xor { uint n; template <class T> T operator()(T v) const { return sub_group_shuffle_xor(v, n); } };
struct msl_first { template <class T> T operator()(T v) const { return sub_group_broadcast(v, 0); } };
template <class T> inline T simd_shuffle_xor(T v, ushort n) { return msl_each(v, msl_xor{n}); }
template <class T> inline T simd_broadcast_first(T v) { return msl_each(v, msl_first{}); }

namespace precise {
inline float exp(float x) { return ::exp(x); }
inline float log(float x) { return ::log(x); }
inline float sqrt(float x) { return ::sqrt(x); }
}

// ---- matrices of a simdgroup: thread l holds two neighbours of row l/4 ----

template <class T, int C, int R> struct simdgroup_matrix {
  T e[2];
  T (&thread_elements())[2] { return e; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;

template <class T, int C, int R = C> inline simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T v) {
  return simdgroup_matrix<T, C, R>{{v, v}};
}
template <class T>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8> &m, const threadgroup T *p, ulong stride = 8,
                           ulong2 origin = (ulong2)(0), bool transpose = false) {
  const uint row = get_sub_group_local_id() / 4, column = get_sub_group_local_id() % 4 * 2;
  p += origin.y * stride + origin.x;
  m.e[0] = transpose ? p[column * stride + row] : p[row * stride + column];
  m.e[1] = transpose ? p[(column + 1) * stride + row] : p[row * stride + column + 1];
}
template <class T>
inline void simdgroup_store(simdgroup_matrix<T, 8, 8> m, threadgroup T *p, ulong stride = 8) {
  const uint row = get_sub_group_local_id() / 4, column = get_sub_group_local_id() % 4 * 2;
  p[row * stride + column] = m.e[0];
  p[row * stride + column + 1] = m.e[1];
}
template <class T, class A, class B>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<T, 8, 8> &d, simdgroup_matrix<A, 8, 8> a,
                                          simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<T, 8, 8> c) {
  const uint lane = get_sub_group_local_id();
#pragma nounroll
  for (uint k = 0; k < 8; k++) {
    const T of = (T)sub_group_shuffle(k % 2 ? a.e[1] : a.e[0], lane / 4 * 4 + k / 2);
    c.e[0] += of * (T)sub_group_shuffle(b.e[0], k * 4 + lane % 4);
    c.e[1] += of * (T)sub_group_shuffle(b.e[1], k * 4 + lane % 4);
  }
  d = c;
}
template <class T, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<T, 8, 8> &d, simdgroup_matrix<A, 8, 8> a,
                               simdgroup_matrix<B, 8, 8> b) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<T, 8>((T)0));
}

}

// ---- what the entry point gives to kernels: the parameter's own type asks for what it is ----

#define MSL_BUFFER(name, AS)                                   \
  struct name {                                                \
    AS uchar *p;                                               \
    template <class T> operator AS T *() const { return (AS T *)p; } \
    template <class T> operator AS T &() const { return *(AS T *)p; } \
  };
MSL_BUFFER(msl_device_buffer, device)
MSL_BUFFER(msl_constant_buffer, constant)
MSL_BUFFER(msl_threadgroup_buffer, threadgroup)
struct msl_number {
  uint x;
  template <class T> operator T() const { return (T)x; }
};
struct msl_position {
  uint x, y, z;
  template <class T> operator T() const {
    if constexpr (msl_shape<T>::count == 1) return (T)x;
    else if constexpr (msl_shape<T>::count == 2) return msl_make<T>(x, y);
    else return msl_make<T>(x, y, z);
  }
};
