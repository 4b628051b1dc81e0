// Instructions that Go's assembler does not have, on the vector registers of the given numbers; d the destination, as
// in Go's order the last. S4 is 4 float32 or int32, and so on.
#define SDOT(m, n, d) WORD $(0x4e809400 | (m)<<16 | (n)<<5 | (d))   // d.S4 += sums of four products n.B16·m.B16
#define SDOTE(i, m, n, d) WORD $(0x4f80e000 | ((i)&1)<<21 | ((i)>>1)<<11 | (m)<<16 | (n)<<5 | (d)) // SDOT, m.S[i]
#define SMMLA(m, n, d) WORD $(0x4e80a400 | (m)<<16 | (n)<<5 | (d))  // d.S[2i+j] += sum of products n.D[i]·m.D[j]
#define SMULL(m, n, d) WORD $(0x0e20c000 | (m)<<16 | (n)<<5 | (d))  // d.H8 = n.B8·m.B8
#define SMLAL2(m, n, d) WORD $(0x4e208000 | (m)<<16 | (n)<<5 | (d)) // d.H8 += upper half of n.B16·m.B16
#define MLS(m, n, d) WORD $(0x6ea09400 | (m)<<16 | (n)<<5 | (d))    // d.S4 -= n.S4·m.S4, integers
#define SADDLP(n, d) WORD $(0x4e602800 | (n)<<5 | (d))              // d.S4 = sums of neighbours in n.H8
#define SADALP(n, d) WORD $(0x4e606800 | (n)<<5 | (d))              // d.S4 += sums of neighbours in n.H8
#define SXTLB(n, d) WORD $(0x0f08a400 | (n)<<5 | (d))               // d.H8 = lower half of n.B16
#define SXTLB2(n, d) WORD $(0x4f08a400 | (n)<<5 | (d))              // d.H8 = upper half of n.B16
#define SXTLH(n, d) WORD $(0x0f10a400 | (n)<<5 | (d))               // d.S4 = lower half of n.H8
#define SXTLH2(n, d) WORD $(0x4f10a400 | (n)<<5 | (d))              // d.S4 = upper half of n.H8
#define SSHR(i, n, d) WORD $(0x4f000400 | (64-(i))<<16 | (n)<<5 | (d)) // d.S4 = n.S4 shifted right by i, signed
#define SCVTF(n, d) WORD $(0x4e21d800 | (n)<<5 | (d))               // d.S4 = n.S4 from int32 to float32
#define FCVTL(n, d) WORD $(0x0e217800 | (n)<<5 | (d))               // d.S4 = lower half of n.H8 from half precision
#define FCVTL2(n, d) WORD $(0x4e217800 | (n)<<5 | (d))              // d.S4 = upper half of n.H8 from half precision
#define FCVTNS(n, d) WORD $(0x4e21a800 | (n)<<5 | (d))              // d.S4 = n.S4 as int32, to nearest even
#define FABS(n, d) WORD $(0x4ea0f800 | (n)<<5 | (d))                // d.S4 = |n.S4|
#define UMAXV(n, d) WORD $(0x6eb0a800 | (n)<<5 | (d))               // lane 0 of d = the largest of n.S4, unsigned
#define FMUL(m, n, d) WORD $(0x6e20dc00 | (m)<<16 | (n)<<5 | (d))   // d.S4 = n.S4·m.S4
#define FMULE(m, n, d) WORD $(0x4f809000 | (m)<<16 | (n)<<5 | (d))  // d.S4 = n.S4·m.S[0]
#define FMULE1(m, n, d) WORD $(0x4fa09000 | (m)<<16 | (n)<<5 | (d)) // d.S4 = n.S4·m.S[1]
#define FMLSE(m, n, d) WORD $(0x4f805000 | (m)<<16 | (n)<<5 | (d))  // d.S4 -= n.S4·m.S[0]
#define FMLA(m, n, d) WORD $(0x4e20cc00 | (m)<<16 | (n)<<5 | (d))   // d.S4 += n.S4·m.S4
#define ZERO(d) WORD $(0x6f00e400 | (d))                            // d = 0
#define FADD(m, n, d) WORD $(0x4e20d400 | (m)<<16 | (n)<<5 | (d))   // d.S4 = n.S4 + m.S4
#define FADDP(n, d) WORD $(0x7e30d800 | (n)<<5 | (d))               // lane 0 of d = n.S[0] + n.S[1]
