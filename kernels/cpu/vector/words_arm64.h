// Instructions that Go's assembler does not have, on the vector registers of the given numbers; d the destination, as
// in Go's order the last. S4 is 4 float32 or int32, and so on.
#define SSHR(i, n, d) WORD $(0x4f000400 | (64-(i))<<16 | (n)<<5 | (d)) // d.S4 = n.S4 shifted right by i, signed
#define FCVTL(n, d) WORD $(0x0e217800 | (n)<<5 | (d))               // d.S4 = lower half of n.H8 from half precision
#define FCVTL2(n, d) WORD $(0x4e217800 | (n)<<5 | (d))              // d.S4 = upper half of n.H8 from half precision
#define FCVTN(n, d) WORD $(0x0e216800 | (n)<<5 | (d))               // d.H4 = n.S4 in half precision, to nearest even
#define FCVTLD(n, d) WORD $(0x0e617800 | (n)<<5 | (d))              // d.D2 = lower half of n.S4 in double precision
#define FCVTLD2(n, d) WORD $(0x4e617800 | (n)<<5 | (d))             // d.D2 = upper half of n.S4 in double precision
#define FCVTNS(n, d) WORD $(0x4e21a800 | (n)<<5 | (d))              // d.S4 = n.S4 as int32, to nearest even
#define FRINTN(n, d) WORD $(0x4e218800 | (n)<<5 | (d))              // d.S4 = n.S4 as whole numbers, to nearest even
#define FMAX(m, n, d) WORD $(0x4e20f400 | (m)<<16 | (n)<<5 | (d))   // d.S4 = max(n.S4, m.S4), NaN if one is
#define FMIN(m, n, d) WORD $(0x4ea0f400 | (m)<<16 | (n)<<5 | (d))   // d.S4 = min(n.S4, m.S4), NaN if one is
#define FCMGT(m, n, d) WORD $(0x6ea0e400 | (m)<<16 | (n)<<5 | (d))  // d.S4 = all ones where n.S4 > m.S4, else 0
#define FNEG(n, d) WORD $(0x6ea0f800 | (n)<<5 | (d))                // d.S4 = -n.S4
#define FDIV(m, n, d) WORD $(0x6e20fc00 | (m)<<16 | (n)<<5 | (d))   // d.S4 = n.S4/m.S4
#define FADD2(m, n, d) WORD $(0x4e60d400 | (m)<<16 | (n)<<5 | (d)) // d.D2 = n.D2 + m.D2
#define FADDP2(n, d) WORD $(0x7e70d800 | (n)<<5 | (d))              // lane 0 of d = n.D[0] + n.D[1]
#define UMAXV(n, d) WORD $(0x6eb0a800 | (n)<<5 | (d))               // lane 0 of d = the largest of n.S4, unsigned
#define FMUL(m, n, d) WORD $(0x6e20dc00 | (m)<<16 | (n)<<5 | (d))   // d.S4 = n.S4·m.S4
#define FMLA(m, n, d) WORD $(0x4e20cc00 | (m)<<16 | (n)<<5 | (d))   // d.S4 += n.S4·m.S4
#define ZERO(d) WORD $(0x6f00e400 | (d))                            // d = 0
#define FADD(m, n, d) WORD $(0x4e20d400 | (m)<<16 | (n)<<5 | (d))   // d.S4 = n.S4 + m.S4
#define FSUB(m, n, d) WORD $(0x4ea0d400 | (m)<<16 | (n)<<5 | (d))   // d.S4 = n.S4 - m.S4
