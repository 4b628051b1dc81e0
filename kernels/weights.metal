// The types of weights. Each has
//   load   what one lane takes of a row at a time: a Unit of 8 weights, in two runs of 4 columns. 32 lanes together
//          take the 256 columns of a step, and their bytes lie side by side.
//   first, second   where in the step the two runs of a lane begin
//   dot    sum + unit · (x0, x1)
//   at     the 4 weights from column c on, c a multiple of 4: for gathers and for tiles
// A row of blocks of 32 may end within a step, a row of floats within a run; the lanes beyond it get zeros. Blocks of
// 18, 22, 34 and 210 bytes lie at any even address, so that nothing wider than two bytes is read from them.

struct Unit {
  float4 a, b;  // the integers, or the weights themselves
  float da, db; // what multiplies them
  float ma, mb; // what is added: weight = da·a + ma
};

inline ushort u16(device const uchar *p) { return *(device const ushort *)p; }
inline uint u32(device const uchar *p) { return *(device const uint *)p; }
inline float f16(device const uchar *p) { return float(*(device const half *)p); }

inline float4 bytes4(uint v) { return float4(float(v & 255), float(v >> 8 & 255), float(v >> 16 & 255), float(v >> 24)); }

// Four bytes at an even address.
inline uint pair(device const uchar *p) { return uint(u16(p)) | uint(u16(p + 2)) << 16; }

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

// Blocks of 32 have one scale, and four lanes take one. Lanes beyond the row get zeros.
inline float dot_block(thread const Unit &u, float4 x0, float4 x1, float sum) {
  return fma(u.da, dot4(u.b, x1, dot4(u.a, x0, 0.0f)), sum);
}
inline void nothing(thread Unit &u) {
  u.a = u.b = float4(0.0f);
  u.da = 0.0f;
}

// d f16, int8 [32]
struct Q8_0 {
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_block(u, x0, x1, sum); }
  ushort first(ushort lane) const { return lane * 8; }
  ushort second(ushort lane) const { return lane * 8 + 4; }
  float4 four(device const uchar *q) const {
    const char2 v = as_type<char2>(u16(q)), w = as_type<char2>(u16(q + 2));
    return float4(float(v.x), float(v.y), float(w.x), float(w.y));
  }
  void load(thread Unit &u, device const uchar *row, uint step, uint cols, ushort lane) const {
    if (step + first(lane) >= cols) {
      nothing(u);
      return;
    }
    device const uchar *b = row + (step / 32 + lane / 4) * 34;
    u.da = f16(b);
    u.a = four(b + 2 + lane % 4 * 8);
    u.b = four(b + 6 + lane % 4 * 8);
  }
  float4 at(device const uchar *row, uint c) const {
    device const uchar *b = row + c / 32 * 34;
    return f16(b) * four(b + 2 + c % 32);
  }
};

// Of 16 bytes of nibbles, the low ones are the first 16 weights.
inline ushort nibbles_first(ushort lane) { return lane / 4 * 32 + lane % 4 * 4; }

// d f16, nibbles [16], 8 less each
struct Q4_0 {
  ushort first(ushort lane) const { return nibbles_first(lane); }
  ushort second(ushort lane) const { return nibbles_first(lane) + 16; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_block(u, x0, x1, sum); }
  void load(thread Unit &u, device const uchar *row, uint step, uint cols, ushort lane) const {
    if (step + first(lane) >= cols) {
      nothing(u);
      return;
    }
    device const uchar *b = row + (step / 32 + lane / 4) * 18;
    const uint v = pair(b + 2 + lane % 4 * 4);
    u.da = f16(b);
    u.a = bytes4(v & 0x0f0f0f0f) - 8.0f;
    u.b = bytes4(v >> 4 & 0x0f0f0f0f) - 8.0f;
  }
  float4 at(device const uchar *row, uint c) const {
    device const uchar *b = row + c / 32 * 18;
    return f16(b) * (bytes4(pair(b + 2 + c % 16) >> (c % 32 / 16 * 4) & 0x0f0f0f0f) - 8.0f);
  }
};

// d f16, fifth bits u32, nibbles [16], 16 less each
struct Q5_0 {
  ushort first(ushort lane) const { return nibbles_first(lane); }
  ushort second(ushort lane) const { return nibbles_first(lane) + 16; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_block(u, x0, x1, sum); }
  void load(thread Unit &u, device const uchar *row, uint step, uint cols, ushort lane) const {
    if (step + first(lane) >= cols) {
      nothing(u);
      return;
    }
    device const uchar *b = row + (step / 32 + lane / 4) * 22;
    const uint v = pair(b + 6 + lane % 4 * 4);
    const uint h = pair(b + 2) >> (lane % 4 * 4);
    u.da = f16(b);
    u.a = bytes4((v & 0x0f0f0f0f) | fifth(h)) - 16.0f;
    u.b = bytes4((v >> 4 & 0x0f0f0f0f) | fifth(h >> 16)) - 16.0f;
  }
  float4 at(device const uchar *row, uint c) const {
    device const uchar *b = row + c / 32 * 22;
    const uint v = pair(b + 6 + c % 16) >> (c % 32 / 16 * 4) & 0x0f0f0f0f;
    return f16(b) * (bytes4(v | fifth(pair(b + 2) >> c % 32)) - 16.0f);
  }
};

// The scales and minima of Q4_K and Q5_K: 6 bits each for 8 groups of 32, in 12 bytes. Groups 0 to 3 have theirs in the
// low six bits of bytes j and j+4; groups 4 to 7 have low nibbles in byte j+4 and the rest at the top of bytes j-4 and j.
// Low nibbles of 32 bytes are one group, high nibbles the next: lanes 8g to 8g+7 take groups 2g and 2g+1.
inline float2 scale_min(device const uchar *block, ushort j) { // d·scale and -m·min of group j
  device const uchar *s = block + 4;
  const uint sc = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
  const uint mn = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
  return float2(f16(block) * float(sc), -(f16(block + 2) * float(mn)));
}
inline void scale_mins(thread Unit &u, device const uchar *block, ushort lane) {
  const float2 a = scale_min(block, lane / 8 * 2), b = scale_min(block, lane / 8 * 2 + 1);
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
  ushort first(ushort lane) const { return mins_first(lane); }
  ushort second(ushort lane) const { return mins_first(lane) + 32; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_mins(u, x0, x1, sum); }
  void load(thread Unit &u, device const uchar *row, uint step, uint, ushort lane) const {
    device const uchar *b = row + step / 256 * 144;
    const uint v = u32(b + 16 + lane * 4);
    scale_mins(u, b, lane);
    u.a = bytes4(v & 0x0f0f0f0f);
    u.b = bytes4(v >> 4 & 0x0f0f0f0f);
  }
  float4 at(device const uchar *row, uint c) const {
    device const uchar *b = row + c / 256 * 144;
    const uint j = c % 256 / 32;
    const float2 s = scale_min(b, j);
    return s.x * bytes4(u32(b + 16 + j / 2 * 32 + c % 32) >> (j % 2 * 4) & 0x0f0f0f0f) + s.y;
  }
};

// d, m f16, scales [12], fifth bits [32] (byte l, bit j for group j), nibbles [128]
struct Q5_K {
  ushort first(ushort lane) const { return mins_first(lane); }
  ushort second(ushort lane) const { return mins_first(lane) + 32; }
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const { return dot_mins(u, x0, x1, sum); }
  void load(thread Unit &u, device const uchar *row, uint step, uint, ushort lane) const {
    device const uchar *b = row + step / 256 * 176;
    const uint v = u32(b + 48 + lane * 4);
    const uint h = u32(b + 16 + lane % 8 * 4) >> (lane / 8 * 2);
    scale_mins(u, b, lane);
    u.a = bytes4((v & 0x0f0f0f0f) | (h & 0x01010101) << 4);
    u.b = bytes4((v >> 4 & 0x0f0f0f0f) | (h >> 1 & 0x01010101) << 4);
  }
  float4 at(device const uchar *row, uint c) const {
    device const uchar *b = row + c / 256 * 176;
    const uint j = c % 256 / 32;
    const float2 s = scale_min(b, j);
    const uint v = u32(b + 48 + j / 2 * 32 + c % 32) >> (j % 2 * 4) & 0x0f0f0f0f;
    return s.x * bytes4(v | (u32(b + 16 + c % 32) >> j & 0x01010101) << 4) + s.y;
  }
};

// low nibbles [128], high pairs of bits [64], int8 scales [16], d f16; 32 less each. In each half of 128 weights, weight
// l+32k has nibble k/2 of byte l+32(k%2) and pair k of byte l: lane i takes low bytes 4i to 4i+3.
struct Q6_K {
  float dot(thread const Unit &u, float4 x0, float4 x1, float sum) const {
    return fma(u.db, dot4(u.b, x1, 0.0f), fma(u.da, dot4(u.a, x0, 0.0f), sum));
  }
  ushort first(ushort lane) const { return lane / 16 * 128 + lane % 16 * 4; }
  ushort second(ushort lane) const { return first(lane) + 64; }
  float scale(device const uchar *block, uint c) const { // of the group of 16 that weight c is in
    return f16(block + 208) * float(as_type<char>(block[192 + c / 16]));
  }
  void load(thread Unit &u, device const uchar *row, uint step, uint, ushort lane) const {
    device const uchar *b = row + step / 256 * 210;
    const uint v = pair(b + lane * 4);
    const uint h = pair(b + 128 + lane / 16 * 32 + lane % 8 * 4) >> (lane % 16 / 8 * 2);
    u.da = scale(b, first(lane));
    u.db = scale(b, second(lane));
    u.a = bytes4((v & 0x0f0f0f0f) | (h & 0x03030303) << 4) - 32.0f;
    u.b = bytes4((v >> 4 & 0x0f0f0f0f) | (h >> 4 & 0x03030303) << 4) - 32.0f;
  }
  float4 at(device const uchar *row, uint c) const {
    device const uchar *b = row + c / 256 * 210;
    const uint n = c % 256 / 128, k = c % 128 / 32, l = c % 32;
    const uint v = pair(b + 64 * n + k % 2 * 32 + l) >> (k / 2 * 4) & 0x0f0f0f0f;
    const uint h = pair(b + 128 + 32 * n + l) >> (2 * k) & 0x03030303;
    return scale(b, c % 256) * (bytes4(v | h << 4) - 32.0f);
  }
};
