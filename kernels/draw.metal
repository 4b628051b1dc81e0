// The noise by which tokens are drawn, as runtime/sample has it: 52 random bits for each seed, position and token, the
// same to the last bit as on the host, and from them in float what is there computed in double. A token that is drawn
// here is a guess at the one that the host draws: almost always the same, and never shown.
enum : uint {
  PhiloxHigh = 0xD2B74407, // the multiplier of Philox2x64-10
  PhiloxLow = 0xB1CE6E93,
  WeylHigh = 0x9E3779B9, // is added to the key in each round
  WeylLow = 0x7F4A7C15,
};

// a · b as 128 bits: the upper 64, and the lower ones in low.
inline ulong draw_product(ulong a, ulong b, thread ulong &low) {
  const ulong a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const ulong lowest = a0 * b0, middle = a1 * b0 + (lowest >> 32), other = a0 * b1 + (middle & 0xffffffffu);
  low = other << 32 | (lowest & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

// The first word of Philox2x64-10 of a token at a position.
inline ulong draw_bits(ulong token, ulong pos, ulong seed) {
  const ulong multiplier = ulong(PhiloxHigh) << 32 | PhiloxLow, weyl = ulong(WeylHigh) << 32 | WeylLow;
  for (ushort round = 0; round < 10; round++) {
    ulong low;
    const ulong high = draw_product(multiplier, token, low);
    token = high ^ seed ^ pos;
    pos = low;
    seed += weyl;
  }
  return token;
}

// (n + 1/2) / 2^52 for the upper 52 of 64 bits.
inline float draw_unit(ulong bits) {
  const float small = (float(uint(bits) >> 12) + 0.5f) * (1.0f / 4294967296.0f / 1048576.0f);
  return fma(float(uint(bits >> 32)), 1.0f / 4294967296.0f, small);
}

// Standard Gumbel noise -ln(-ln u). Near u = 1, -ln u comes from 1 - u, whose bits are those of u inverted: with
// z = (1-u)/(1+u) it is 2·atanh z, of which no part cancels another.
inline float draw_noise(uint token, uint pos, uint seed_low, uint seed_high) {
  const ulong bits = draw_bits(token, pos, ulong(seed_high) << 32 | seed_low);
  float e;
  if (bits >> 63) {
    const float below = draw_unit(~bits), z = below / (2.0f - below), t = z * z;
    float series = 1.0f / 15.0f; // z is at most 1/3: what is left out is 10^-9 of the sum
    for (float n = 13.0f; n > 0.0f; n -= 2.0f) {
      series = fma(series, t, 1.0f / n);
    }
    e = 2.0f * z * series;
  } else {
    e = -precise::log(draw_unit(bits));
  }
  return -precise::log(e);
}
