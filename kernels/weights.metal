// The types of weights. Each has
//   load   what one lane takes of a row at a time: a Unit of 8 weights, in two runs of 4 columns. 32 lanes together
//          take the 256 columns of a step.
//   first, second   where in the step the two runs of a lane begin
//   dot    sum + unit · (x0, x1)
//   at     the 4 weights from column c on, c a multiple of 4: for gathers and for tiles
//   StepBytes   bytes of a step
// A row of blocks of 32 may end within a step, a row of floats within a run; the lanes beyond it get zeros. Blocks of
// 18, 22, 34 and 210 bytes lie at any even address, so that nothing wider than two bytes is read from them.

struct Unit {
  float4 a, b;  // the integers, or the weights themselves
  float da, db; // what multiplies them
  float ma, mb; // what is added: weight = da·a + ma
};

// Bytes of a row in device memory.
struct Memory {
  device const uchar *p;
  uchar u8(uint i) const { return p[i]; }
  ushort u16(uint i) const { return *(device const ushort *)(p + i); }
  uint u32(uint i) const { return *(device const uint *)(p + i); }
  float f16(uint i) const { return float(*(device const half *)(p + i)); }
};
inline Memory memory(device const uchar *p) {
  Memory m;
  m.p = p;
  return m;
}

// Bytes of a row in a ring of threadgroup memory.
struct Ring {
  threadgroup const uchar *ring;
  uint begin;
  uint place(uint i) const { return (begin + i) % RingBytes; }
  uchar u8(uint i) const { return ring[place(i)]; }
  ushort u16(uint i) const { return *(threadgroup const ushort *)(ring + place(i)); }
  uint u32(uint i) const { return *(threadgroup const uint *)(ring + place(i)); }
  float f16(uint i) const { return float(*(threadgroup const half *)(ring + place(i))); }
};

inline float4 bytes4(uint v) {
  return float4(float(v & 255), float(v >> 8 & 255), float(v >> 16 & 255), float(v >> 24));
}

// Four bytes at an even address.
template <typename P> inline uint halves(P p, uint i) { return uint(p.u16(i)) | uint(p.u16(i + 2)) << 16; }

// Four bits of h, spread to bit 4 of four bytes.
inline uint fifth(uint h) { return (h & 1) << 4 | (h & 2) << 11 | (h & 4) << 18 | (h & 8) << 25; }

inline float4 quad(device const float *p) { return *(device const float4 *)p; }
inline float4 quad(device const half *p) { return float4(*(device const half4 *)p); }
inline float4 quad(device const ushort *p) { // bfloat16
  const ushort4 v = *(device const ushort4 *)p;
  return float4(as_type<float>(uint(v.x) << 16), as_type<float>(uint(v.y) << 16), as_type<float>(uint(v.z) << 16),
                as_type<float>(uint(v.w) << 16));
}

// Weights that are numbers by themselves, in rows of a multiple of 4.
template <typename E> struct Plain {
  enum : uint { StepBytes = StepColumns * sizeof(E) };
  ushort first(ushort lane) const { return lane * 4; }
  ushort second(ushort lane) const { return lane * 4 + 128; }
  float4 at(device const uchar *row, uint c) const { return quad((device const E *)row + c); }
  void load(thread Unit &u, device const uchar *row, uint step, uint cols, ushort lane) const {
    const uint c = step + first(lane);
    u.a = c < cols ? at(row, c) : float4(0.0f);
    u.b = c + 128 < cols ? at(row, c + 128) : float4(0.0f);
  }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot4(u.b, x1, dot4(u.a, x0, sum)); }
};
typedef Plain<float> F32;
typedef Plain<half> F16;
typedef Plain<ushort> BF16;

// Blocks of 32 have one scale, and four lanes take one.
inline float dot_block(thread const Unit &u, float4 x0, float4 x1, float sum) {
  return fma(u.da, dot4(u.b, x1, dot4(u.a, x0, 0.0f)), sum);
}
inline void nothing(thread Unit &u) { // for lanes beyond the row
  u.a = u.b = float4(0.0f);
  u.da = u.db = u.ma = u.mb = 0.0f;
}

// d f16, int8 [32]
struct Q8_0 {
  enum : uint { StepBytes = 8 * 34 };
  ushort first(ushort lane) const { return lane * 8; }
  ushort second(ushort lane) const { return lane * 8 + 4; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_block(u, x0, x1, sum); }
  template <typename P> float4 four(P p, uint i) const {
    const char2 v = as_type<char2>(p.u16(i)), w = as_type<char2>(p.u16(i + 2));
    return float4(float(v.x), float(v.y), float(w.x), float(w.y));
  }
  template <typename P> void load(thread Unit &u, P p, ushort lane) const {
    const uint b = lane / 4 * 34, q = b + 2 + lane % 4 * 8;
    u.da = p.f16(b);
    u.a = four(p, q);
    u.b = four(p, q + 4);
  }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 32 * 34);
    return b.f16(0) * four(b, 2 + c % 32);
  }
};

// Of 16 bytes of nibbles, the low ones are the first 16 weights.
inline ushort nibbles_first(ushort lane) { return lane / 4 * 32 + lane % 4 * 4; }

// d f16, nibbles [16], 8 less each
struct Q4_0 {
  enum : uint { StepBytes = 8 * 18 };
  ushort first(ushort lane) const { return nibbles_first(lane); }
  ushort second(ushort lane) const { return nibbles_first(lane) + 16; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_block(u, x0, x1, sum); }
  template <typename P> void load(thread Unit &u, P p, ushort lane) const {
    const uint b = lane / 4 * 18, v = halves(p, b + 2 + lane % 4 * 4);
    u.da = p.f16(b);
    u.a = bytes4(v & 0x0f0f0f0f) - 8.0f;
    u.b = bytes4(v >> 4 & 0x0f0f0f0f) - 8.0f;
  }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 32 * 18);
    return b.f16(0) * (bytes4(halves(b, 2 + c % 16) >> (c % 32 / 16 * 4) & 0x0f0f0f0f) - 8.0f);
  }
};

// d f16, fifth bits u32, nibbles [16], 16 less each
struct Q5_0 {
  enum : uint { StepBytes = 8 * 22 };
  ushort first(ushort lane) const { return nibbles_first(lane); }
  ushort second(ushort lane) const { return nibbles_first(lane) + 16; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_block(u, x0, x1, sum); }
  template <typename P> void load(thread Unit &u, P p, ushort lane) const {
    const uint b = lane / 4 * 22, v = halves(p, b + 6 + lane % 4 * 4);
    const uint h = halves(p, b + 2) >> (lane % 4 * 4);
    u.da = p.f16(b);
    u.a = bytes4((v & 0x0f0f0f0f) | fifth(h)) - 16.0f;
    u.b = bytes4((v >> 4 & 0x0f0f0f0f) | fifth(h >> 16)) - 16.0f;
  }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 32 * 22);
    const uint v = halves(b, 6 + c % 16) >> (c % 32 / 16 * 4) & 0x0f0f0f0f;
    return b.f16(0) * (bytes4(v | fifth(halves(b, 2) >> c % 32)) - 16.0f);
  }
};

// The scales and minima of Q4_K and Q5_K: 6 bits each for 8 groups of 32, in 12 bytes. Groups 0 to 3 have theirs in the
// low six bits of bytes j and j+4; groups 4 to 7 have low nibbles in byte j+4 and the rest at the top of bytes j-4 and
// j. Low nibbles of 32 bytes are one group, high nibbles the next: lanes 8g to 8g+7 take groups 2g and 2g+1.
template <typename P> inline float2 scale_min(P p, uint j) { // d·scale and -m·min of group j
  const uint low = p.u8(4 + j % 4), high = p.u8(8 + j % 4), both = j < 4 ? 0 : p.u8(8 + j);
  const uint scale = j < 4 ? low & 63 : (both & 15) | low >> 6 << 4;
  const uint least = j < 4 ? high & 63 : both >> 4 | high >> 6 << 4;
  return float2(p.f16(0) * float(scale), -(p.f16(2) * float(least)));
}
template <typename P> inline void scale_mins(thread Unit &u, P p, ushort lane) {
  const float2 a = scale_min(p, lane / 8 * 2), b = scale_min(p, lane / 8 * 2 + 1);
  u.da = a.x;
  u.ma = a.y;
  u.db = b.x;
  u.mb = b.y;
}
inline float dot_mins(thread const Unit &u, float4 x0, float4 x1, float sum) {
  sum = fma(u.ma, sum4(x0), fma(u.da, dot4(u.a, x0, 0.0f), sum));
  return fma(u.mb, sum4(x1), fma(u.db, dot4(u.b, x1, 0.0f), sum));
}
inline ushort mins_first(ushort lane) { return lane / 8 * 64 + lane % 8 * 4; }

// d, m f16, scales [12], nibbles [128]
struct Q4_K {
  enum : uint { StepBytes = 144 };
  ushort first(ushort lane) const { return mins_first(lane); }
  ushort second(ushort lane) const { return mins_first(lane) + 32; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_mins(u, x0, x1, sum); }
  template <typename P> void load(thread Unit &u, P p, ushort lane) const {
    const uint v = p.u32(16 + lane * 4);
    scale_mins(u, p, lane);
    u.a = bytes4(v & 0x0f0f0f0f);
    u.b = bytes4(v >> 4 & 0x0f0f0f0f);
  }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 256 * 144);
    const uint j = c % 256 / 32;
    const float2 s = scale_min(b, j);
    return s.x * bytes4(b.u32(16 + j / 2 * 32 + c % 32) >> (j % 2 * 4) & 0x0f0f0f0f) + s.y;
  }
};

// d, m f16, scales [12], fifth bits [32] (byte l, bit j for group j), nibbles [128]
struct Q5_K {
  enum : uint { StepBytes = 176 };
  ushort first(ushort lane) const { return mins_first(lane); }
  ushort second(ushort lane) const { return mins_first(lane) + 32; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_mins(u, x0, x1, sum); }
  template <typename P> void load(thread Unit &u, P p, ushort lane) const {
    const uint v = p.u32(48 + lane * 4);
    const uint h = p.u32(16 + lane % 8 * 4) >> (lane / 8 * 2);
    scale_mins(u, p, lane);
    u.a = bytes4((v & 0x0f0f0f0f) | (h & 0x01010101) << 4);
    u.b = bytes4((v >> 4 & 0x0f0f0f0f) | (h >> 1 & 0x01010101) << 4);
  }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 256 * 176);
    const uint j = c % 256 / 32;
    const float2 s = scale_min(b, j);
    const uint v = b.u32(48 + j / 2 * 32 + c % 32) >> (j % 2 * 4) & 0x0f0f0f0f;
    return s.x * bytes4(v | (b.u32(16 + c % 32) >> j & 0x01010101) << 4) + s.y;
  }
};

// low nibbles [128], high pairs of bits [64], int8 scales [16], d f16; 32 less each. In each half of 128 weights,
// weight l+32k has nibble k/2 of byte l+32(k%2) and pair k of byte l: lane i takes low bytes 4i to 4i+3.
struct Q6_K {
  enum : uint { StepBytes = 210 };
  ushort first(ushort lane) const { return lane / 16 * 128 + lane % 16 * 4; }
  ushort second(ushort lane) const { return first(lane) + 64; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const {
    return fma(u.db, dot4(u.b, x1, 0.0f), fma(u.da, dot4(u.a, x0, 0.0f), sum));
  }
  template <typename P> float scale(P p, uint c) const { // of the group of 16 that weight c is in
    return p.f16(208) * float(as_type<char>(p.u8(192 + c / 16)));
  }
  template <typename P> void load(thread Unit &u, P p, ushort lane) const {
    const uint v = halves(p, lane * 4);
    const uint h = halves(p, 128 + lane / 16 * 32 + lane % 8 * 4) >> (lane % 16 / 8 * 2);
    u.da = scale(p, first(lane));
    u.db = scale(p, second(lane));
    u.a = bytes4((v & 0x0f0f0f0f) | (h & 0x03030303) << 4) - 32.0f;
    u.b = bytes4((v >> 4 & 0x0f0f0f0f) | (h >> 4 & 0x03030303) << 4) - 32.0f;
  }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 256 * 210);
    const uint n = c % 256 / 128, k = c % 128 / 32, l = c % 32;
    const uint v = halves(b, 64 * n + k % 2 * 32 + l) >> (k / 2 * 4) & 0x0f0f0f0f;
    const uint h = halves(b, 128 + 32 * n + l) >> (2 * k) & 0x03030303;
    return scale(b, c % 256) * (bytes4(v | h << 4) - 32.0f);
  }
};

// Bytes of count columns, whole blocks.
inline uint row_bytes(Q8_0, uint count) { return count / 32 * 34; }
inline uint row_bytes(Q4_0, uint count) { return count / 32 * 18; }
inline uint row_bytes(Q5_0, uint count) { return count / 32 * 22; }
inline uint row_bytes(Q4_K, uint count) { return count / 256 * 144; }
inline uint row_bytes(Q5_K, uint count) { return count / 256 * 176; }
inline uint row_bytes(Q6_K, uint count) { return count / 256 * 210; }
