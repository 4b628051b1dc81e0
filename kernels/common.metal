#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

// No product and sum is joined into an fma that is not written as one, whatever the compiler's options say.
#pragma METAL fp contract(off)

// Keys and values are stored as float, otherwise as half.
constant bool kv_f32 [[function_constant(0)]];

enum : uint {
  StepColumns = 512, // columns of a row that the 32 lanes of a simdgroup take at a time
  TailColumns = 128, // columns that 8 of them take: parts of the columns are multiples of it
  TileRows = 4,      // weight rows that a simdgroup takes together
  MaxSplits = 32,    // most parts that the visible keys of a row are divided into
  WideRows = 64,     // activation rows of a tile of the matrix product
  WideOuts = 64,     // weight rows of that tile
  WideStep = 32,     // columns of both that are in threadgroup memory at a time
  WideThreads = 128,
};

// What a row sees: spans [first_span, first_span + spans) of all, visible slots together, in so many splits.
struct AttendRow {
  uint first_span, spans, visible, splits;
};

// Every sum is spelled as a chain of fma, so that its bits depend on what is summed and on nothing that a compiler
// may choose for one instantiation and not for another.
inline float dot4(float4 a, float4 b, float sum) {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// The right operand of a product of 8 × 8 matrices, loaded from what is staged as E. The left one is of floats. With
// EQUAL_OPERANDS this one is converted to floats, for compilers that multiply only matrices of one type.
template <typename E> struct Right {
#ifdef EQUAL_OPERANDS
  simdgroup_float8x8 m;
#else
  simdgroup_matrix<E, 8, 8> m;
#endif
  void load(threadgroup const E *from, bool transpose) {
#ifdef EQUAL_OPERANDS
    simdgroup_matrix<E, 8, 8> stored;
    simdgroup_load(stored, from, 8, ulong2(0, 0), transpose);
    m.thread_elements()[0] = float(stored.thread_elements()[0]);
    m.thread_elements()[1] = float(stored.thread_elements()[1]);
#else
    simdgroup_load(m, from, 8, ulong2(0, 0), transpose);
#endif
  }
};

inline float sum4(float4 a) { return (a.x + a.y) + (a.z + a.w); }

// 1/√(mean square + eps), from the parts of the sum of squares that those who wrote the row left behind.
// Called by a whole simdgroup.
inline float inverse_rms(device const float *squares, uint parts, uint cols, float eps, ushort lane) {
  float sum = 0.0f;
  for (uint i = lane; i < parts; i += 32) {
    sum += squares[i];
  }
  return 1.0f / precise::sqrt(simd_sum(sum) / float(cols) + eps);
}

inline float sigmoid(float g) { return 1.0f / (1.0f + precise::exp(-g)); }
inline float silu(float g) { return g / (1.0f + precise::exp(-g)); }
