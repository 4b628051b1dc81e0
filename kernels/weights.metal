// The types of weights. In a mat-vec, 32 lanes together take the 512 columns of a step of a row, and each lane 16 of
// them, as two units of 8 columns beside each other. Each type has
//   StepBytes       bytes of a step
//   first, second   where in the step the two units of a lane begin
//   load            what a lane needs of the step of a row that begins at byte at of w, as it lies in memory
//   unit            8 of its weights as numbers
//   dot             sum + unit · (x0, x1)
//   at              the 4 weights from column c on, c a multiple of 4: for gathers and for tiles
// Blocks of 18, 22, 34 and 210 bytes lie at any even address, so that nothing wider than vectors of two bytes is read
// from them; those of 144 and 176 bytes at any multiple of 4. What several lanes need, such as the scale of a block,
// they load with one instruction.
//
// No integer is converted. The bits of n below 1024, put under the exponent of 1024, are the half 1024 + n, and two of
// them lie in 32 bits: so a mask gives two weights at once, and one exact operation on halves takes off 1024 and the
// offset of the type. Where a nibble is the upper one of its byte, the number is 1024 + 16 n, so that such a unit has
// 16 times its numbers and a sixteenth of its scale.

// What a lane has loaded of a row: words of weights, words of further bits of them, scales.
struct Raw {
  uint2 q, more, high;
  uint4 head;
  half d;
  char s0, s1;
};

// Weights 0 to 7 of a unit. The pairs of halves are 0 and 2, 1 and 3, 4 and 6, 5 and 7.
struct Unit {
  half2 a, b, c, d;
  float scale, least; // weight = scale · number + least, or without least
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

inline float4 bytes4(uint v) {
  return float4(float(v & 255), float(v >> 8 & 255), float(v >> 16 & 255), float(v >> 24));
}

// Four bytes at an even address, and eight.
template <typename P> inline uint halves(P p, uint i) { return uint(p.u16(i)) | uint(p.u16(i + 2)) << 16; }
inline uint2 eight(device const uchar *p) { return as_type<uint2>(ushort4(*(device const packed_ushort4 *)p)); }

// Four bits of h, spread to bit 4 of four bytes.
inline uint fifth(uint h) { return (h & 1) << 4 | (h & 2) << 11 | (h & 4) << 18 | (h & 8) << 25; }

inline float4 load4(device const float *p) { return *(device const float4 *)p; }
inline float4 load4(device const half *p) { return float4(*(device const half4 *)p); }
inline float4 load4(device const ushort *p) { // bfloat16
  const ushort4 v = *(device const ushort4 *)p;
  return float4(as_type<float>(uint(v.x) << 16), as_type<float>(uint(v.y) << 16), as_type<float>(uint(v.z) << 16),
                as_type<float>(uint(v.w) << 16));
}

// Weights that are numbers by themselves, in rows of a multiple of 4: see multiply.
template <typename E> struct Plain {
  float4 at(device const uchar *row, uint c) const { return load4((device const E *)row + c); }
};
typedef Plain<float> F32;
typedef Plain<half> F16;
typedef Plain<ushort> BF16;

constant float Sixteenth = 0.0625f;

// Numbers below 64 in bits 0 to 5 of both halves of low | more, and 16 times such numbers in bits 4 to 9, with the
// offset of a type taken off.
inline half2 lower(uint low, uint more, half less) {
  return as_type<half2>((low | 0x64006400) | more) - half2(1024.0h + less);
}
inline half2 upper(uint low, uint more, half less) {
  return as_type<half2>((low | 0x64006400) | more) - half2(1024.0h + 16.0h * less);
}

// Products of a unit alone.
inline float dot8(thread const Unit &u, float4 x0, float4 x1) {
  float s = fma(float(u.a.x), x0.x, 0.0f);
  s = fma(float(u.b.x), x0.y, s);
  s = fma(float(u.a.y), x0.z, s);
  s = fma(float(u.b.y), x0.w, s);
  s = fma(float(u.c.x), x1.x, s);
  s = fma(float(u.d.x), x1.y, s);
  s = fma(float(u.c.y), x1.z, s);
  return fma(float(u.d.y), x1.w, s);
}
inline float dot_scaled(thread const Unit &u, float4 x0, float4 x1, float sum) {
  return fma(u.scale, dot8(u, x0, x1), sum);
}
// The nibbles of eight bytes: the low ones, or the high ones.
inline void low_nibbles(thread Unit &u, uint2 q, half less) {
  u.a = lower(q.x & 0x000f000f, 0, less);
  u.b = lower(q.x >> 8 & 0x000f000f, 0, less);
  u.c = lower(q.y & 0x000f000f, 0, less);
  u.d = lower(q.y >> 8 & 0x000f000f, 0, less);
}
inline void high_nibbles(thread Unit &u, uint2 q, half less) {
  u.a = upper(q.x & 0x00f000f0, 0, less);
  u.b = upper(q.x >> 8 & 0x00f000f0, 0, less);
  u.c = upper(q.y & 0x00f000f0, 0, less);
  u.d = upper(q.y >> 8 & 0x00f000f0, 0, less);
}

// d f16, int8 [32]. Two lanes take a block. With its sign bit turned, a byte is 128 more than it says.
struct Q8_0 {
  enum : uint { StepBytes = 16 * 34, Least = 0 };
  ushort first(ushort lane) const { return lane * 16; }
  ushort second(ushort lane) const { return lane * 16 + 8; }
  void load(thread Raw &r, device const uchar *w, uint at, ushort lane) const {
    const uint block = at + lane / 2 * 34;
    r.d = *(device const half *)(w + block);
    r.q = eight(w + (block + 2 + lane % 2 * 16));
    r.more = eight(w + (block + 10 + lane % 2 * 16));
  }
  void unit(thread Unit &u, thread const Raw &r, ushort second, ushort) const {
    const uint2 q = second ? r.more : r.q;
    u.scale = float(r.d);
    u.a = bytes(q.x);
    u.b = bytes(q.x >> 8);
    u.c = bytes(q.y);
    u.d = bytes(q.y >> 8);
  }
  half2 bytes(uint v) const { return as_type<half2>((v & 0x00ff00ff) ^ 0x64806480) - half2(1152.0h); }
  float dot(thread const Unit &u, float4 x0, float4 x1, float, float sum) const { return dot_scaled(u, x0, x1, sum); }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 32 * 34);
    const char2 v = as_type<char2>(b.u16(2 + c % 32)), w = as_type<char2>(b.u16(4 + c % 32));
    return b.f16(0) * float4(float(v.x), float(v.y), float(w.x), float(w.y));
  }
};

// Of 16 bytes of nibbles, the low ones are the first 16 weights. Two lanes take a block, 8 bytes each.
inline ushort nibbles_first(ushort lane) { return lane / 2 * 32 + lane % 2 * 8; }

// d f16, nibbles [16], 8 less each
struct Q4_0 {
  enum : uint { StepBytes = 16 * 18, Least = 0 };
  ushort first(ushort lane) const { return nibbles_first(lane); }
  ushort second(ushort lane) const { return nibbles_first(lane) + 16; }
  void load(thread Raw &r, device const uchar *w, uint at, ushort lane) const {
    const uint block = at + lane / 2 * 18;
    r.d = *(device const half *)(w + block);
    r.q = eight(w + (block + 2 + lane % 2 * 8));
  }
  void unit(thread Unit &u, thread const Raw &r, ushort second, ushort) const {
    u.scale = second ? float(r.d) * Sixteenth : float(r.d);
    if (second) {
      high_nibbles(u, r.q, 8.0h);
    } else {
      low_nibbles(u, r.q, 8.0h);
    }
  }
  float dot(thread const Unit &u, float4 x0, float4 x1, float, float sum) const { return dot_scaled(u, x0, x1, sum); }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 32 * 18);
    return b.f16(0) * (bytes4(halves(b, 2 + c % 16) >> (c % 32 / 16 * 4) & 0x0f0f0f0f) - 8.0f);
  }
};

// d f16, fifth bits u32, nibbles [16], 16 less each
struct Q5_0 {
  enum : uint { StepBytes = 16 * 22, Least = 0 };
  ushort first(ushort lane) const { return nibbles_first(lane); }
  ushort second(ushort lane) const { return nibbles_first(lane) + 16; }
  void load(thread Raw &r, device const uchar *w, uint at, ushort lane) const {
    const uint block = at + lane / 2 * 22;
    const packed_ushort2 bits = *(device const packed_ushort2 *)(w + (block + 2));
    r.d = *(device const half *)(w + block);
    r.high.x = as_type<uint>(ushort2(bits)) >> (lane % 2 * 8);
    r.q = eight(w + (block + 6 + lane % 2 * 8));
  }
  // Four fifth bits go by one product to bits 4 to 7 and, 14 further on, 18 to 21. Of these, 4 and 20 are the bits of
  // weights 0 and 2; those of 1 and 3 are one further on. For high nibbles all is 4 further on.
  void unit(thread Unit &u, thread const Raw &r, ushort second, ushort) const {
    u.scale = second ? float(r.d) * Sixteenth : float(r.d);
    if (second) {
      const uint m = (r.high.x >> 16 & 15) * 0x00400100, n = (r.high.x >> 20 & 15) * 0x00400100;
      u.a = upper(r.q.x & 0x00f000f0, m & 0x01000100, 16.0h);
      u.b = upper(r.q.x >> 8 & 0x00f000f0, m >> 1 & 0x01000100, 16.0h);
      u.c = upper(r.q.y & 0x00f000f0, n & 0x01000100, 16.0h);
      u.d = upper(r.q.y >> 8 & 0x00f000f0, n >> 1 & 0x01000100, 16.0h);
    } else {
      const uint m = (r.high.x & 15) * 0x00040010, n = (r.high.x >> 4 & 15) * 0x00040010;
      u.a = lower(r.q.x & 0x000f000f, m & 0x00100010, 16.0h);
      u.b = lower(r.q.x >> 8 & 0x000f000f, m >> 1 & 0x00100010, 16.0h);
      u.c = lower(r.q.y & 0x000f000f, n & 0x00100010, 16.0h);
      u.d = lower(r.q.y >> 8 & 0x000f000f, n >> 1 & 0x00100010, 16.0h);
    }
  }
  float dot(thread const Unit &u, float4 x0, float4 x1, float, float sum) const { return dot_scaled(u, x0, x1, sum); }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 32 * 22);
    const uint v = halves(b, 6 + c % 16) >> (c % 32 / 16 * 4) & 0x0f0f0f0f;
    return b.f16(0) * (bytes4(v | fifth(halves(b, 2) >> c % 32)) - 16.0f);
  }
};

// The scales and minima of Q4_K and Q5_K: 6 bits each for 8 groups of 32, in 12 bytes after d and m. Groups 0 to 3 have
// theirs in the low six bits of bytes j and j+4; groups 4 to 7 have low nibbles in byte j+4 and the rest at the top of
// bytes j-4 and j. Low nibbles of 32 bytes are one group, high nibbles the next: four lanes take groups 2p and 2p+1.
template <typename P> inline float2 scale_min(P p, uint j) { // d·scale and -m·min of group j
  const uint low = p.u8(4 + j % 4), high = p.u8(8 + j % 4), both = j < 4 ? 0 : p.u8(8 + j);
  const uint scale = j < 4 ? low & 63 : (both & 15) | low >> 6 << 4;
  const uint least = j < 4 ? high & 63 : both >> 4 | high >> 6 << 4;
  return float2(p.f16(0) * float(scale), -(p.f16(2) * float(least)));
}
inline ushort mins_first(ushort lane) { return lane / 16 * 256 + lane % 16 / 4 * 64 + lane % 4 * 8; }
// Group 2p or 2p+1 of the lane's pair p. The two are neighbouring bytes of the twelve.
inline void scale_of(thread Unit &u, uint4 head, ushort second, ushort lane) {
  const ushort pair = lane % 16 / 4, to = pair % 2 * 16; // in bits
  const uint keep = pair < 2 ? 0x3f3f : 0x3030, low = pair < 2 ? 0 : 0x0f0f;
  const ushort down = pair < 2 ? to : to + 2;
  const uint scales = (head.y >> down & keep) | (head.w >> to & low);
  const uint leasts = (head.z >> down & keep) | (head.w >> (to + 4) & low);
  const half2 dm = as_type<half2>(head.x);
  u.scale = float(dm.x) * float(second ? scales >> 8 : scales & 255) * (second ? Sixteenth : 1.0f);
  u.least = -(float(dm.y) * float(second ? leasts >> 8 : leasts & 255));
}
inline float dot_least(thread const Unit &u, float4 x0, float4 x1, float total, float sum) {
  return fma(u.least, total, fma(u.scale, dot8(u, x0, x1), sum));
}
inline uint4 sixteen(device const uchar *p) { return uint4(*(device const packed_uint4 *)p); }
inline uint2 eight4(device const uchar *p) { return uint2(*(device const packed_uint2 *)p); } // at a multiple of 4

// d, m f16, scales [12], nibbles [128]
struct Q4_K {
  enum : uint { StepBytes = 2 * 144, Least = 1 };
  ushort first(ushort lane) const { return mins_first(lane); }
  ushort second(ushort lane) const { return mins_first(lane) + 32; }
  void load(thread Raw &r, device const uchar *w, uint at, ushort lane) const {
    const uint block = at + lane / 16 * 144;
    r.head = sixteen(w + block);
    r.q = eight4(w + (block + 16 + lane % 16 * 8));
  }
  void unit(thread Unit &u, thread const Raw &r, ushort second, ushort lane) const {
    scale_of(u, r.head, second, lane);
    if (second) {
      high_nibbles(u, r.q, 0.0h);
    } else {
      low_nibbles(u, r.q, 0.0h);
    }
  }
  float dot(thread const Unit &u, float4 x0, float4 x1, float total, float sum) const {
    return dot_least(u, x0, x1, total, sum);
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
  enum : uint { StepBytes = 2 * 176, Least = 1 };
  ushort first(ushort lane) const { return mins_first(lane); }
  ushort second(ushort lane) const { return mins_first(lane) + 32; }
  void load(thread Raw &r, device const uchar *w, uint at, ushort lane) const {
    const uint block = at + lane / 16 * 176;
    r.head = sixteen(w + block);
    r.high = eight4(w + (block + 16 + lane % 4 * 8));
    r.q = eight4(w + (block + 48 + lane % 16 * 8));
  }
  void unit(thread Unit &u, thread const Raw &r, ushort second, ushort lane) const {
    scale_of(u, r.head, second, lane);
    const uint turn = (36 - lane % 16 / 4 * 2) % 32; // the bits of the lane's groups come to bits 4 and 5 of each byte
    const uint hx = rotate(r.high.x, turn), hy = rotate(r.high.y, turn);
    if (second) {
      u.a = upper(r.q.x & 0x00f000f0, hx << 3 & 0x01000100, 0.0h);
      u.b = upper(r.q.x >> 8 & 0x00f000f0, hx >> 5 & 0x01000100, 0.0h);
      u.c = upper(r.q.y & 0x00f000f0, hy << 3 & 0x01000100, 0.0h);
      u.d = upper(r.q.y >> 8 & 0x00f000f0, hy >> 5 & 0x01000100, 0.0h);
    } else {
      u.a = lower(r.q.x & 0x000f000f, hx & 0x00100010, 0.0h);
      u.b = lower(r.q.x >> 8 & 0x000f000f, hx >> 8 & 0x00100010, 0.0h);
      u.c = lower(r.q.y & 0x000f000f, hy & 0x00100010, 0.0h);
      u.d = lower(r.q.y >> 8 & 0x000f000f, hy >> 8 & 0x00100010, 0.0h);
    }
  }
  float dot(thread const Unit &u, float4 x0, float4 x1, float total, float sum) const {
    return dot_least(u, x0, x1, total, sum);
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
// weight l+32k has nibble k/2 of byte l+32(k%2) and pair k of byte l. 16 lanes take a block, 8 low bytes each.
struct Q6_K {
  enum : uint { StepBytes = 2 * 210, Least = 0 };
  ushort first(ushort lane) const { return lane / 8 * 128 + lane % 8 * 8; }
  ushort second(ushort lane) const { return first(lane) + 64; }
  void load(thread Raw &r, device const uchar *w, uint at, ushort lane) const {
    const uint block = at + lane / 16 * 210;
    const uint scales = block + 192 + lane % 16 / 8 * 8 + lane % 8 / 2;
    r.d = *(device const half *)(w + (block + 208));
    r.s0 = as_type<char>(w[scales]);
    r.s1 = as_type<char>(w[scales + 4]);
    r.q = eight(w + (block + lane % 16 * 8));
    r.high = eight(w + (block + 128 + lane % 16 / 8 * 32 + lane % 4 * 8));
  }
  void unit(thread Unit &u, thread const Raw &r, ushort second, ushort lane) const {
    u.scale = float(r.d) * float(second ? r.s1 : r.s0) * (second ? Sixteenth : 1.0f);
    const uint2 h = r.high >> uint2(lane % 8 / 4 * 2); // bits 0, 1 and 4, 5 of each byte are the lane's
    if (second) {
      u.a = upper(r.q.x & 0x00f000f0, h.x << 4 & 0x03000300, 32.0h);
      u.b = upper(r.q.x >> 8 & 0x00f000f0, h.x >> 4 & 0x03000300, 32.0h);
      u.c = upper(r.q.y & 0x00f000f0, h.y << 4 & 0x03000300, 32.0h);
      u.d = upper(r.q.y >> 8 & 0x00f000f0, h.y >> 4 & 0x03000300, 32.0h);
    } else {
      u.a = lower(r.q.x & 0x000f000f, h.x << 4 & 0x00300030, 32.0h);
      u.b = lower(r.q.x >> 8 & 0x000f000f, h.x >> 4 & 0x00300030, 32.0h);
      u.c = lower(r.q.y & 0x000f000f, h.y << 4 & 0x00300030, 32.0h);
      u.d = lower(r.q.y >> 8 & 0x000f000f, h.y >> 4 & 0x00300030, 32.0h);
    }
  }
  float dot(thread const Unit &u, float4 x0, float4 x1, float, float sum) const { return dot_scaled(u, x0, x1, sum); }
  float4 at(device const uchar *row, uint c) const {
    const Memory b = memory(row + c / 256 * 210);
    const uint n = c % 256 / 128, k = c % 128 / 32, l = c % 32;
    const uint v = halves(b, 64 * n + k % 2 * 32 + l) >> (k / 2 * 4) & 0x0f0f0f0f;
    const uint h = halves(b, 128 + 32 * n + l) >> (2 * k) & 0x03030303;
    const float scale = b.f16(208) * float(as_type<char>(b.u8(192 + c % 256 / 16)));
    return scale * (bytes4(v | h << 4) - 32.0f);
  }
};
