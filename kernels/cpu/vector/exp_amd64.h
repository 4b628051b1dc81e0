// The constants of exp.go as bits.
DATA expc<>+0(SB)/4, $0x3fb8aa3b  // log2 e
DATA expc<>+4(SB)/4, $0x3f317200  // ln 2, high part
DATA expc<>+8(SB)/4, $0x35bfbe8e  // ln 2, low part
DATA expc<>+12(SB)/4, $0x3efffffe // p0
DATA expc<>+16(SB)/4, $0x3e2aaa49 // p1
DATA expc<>+20(SB)/4, $0x3d2aac79 // p2
DATA expc<>+24(SB)/4, $0x3c091cf9 // p3
DATA expc<>+28(SB)/4, $0x3ab5120d // p4
DATA expc<>+32(SB)/4, $0x3f800000 // 1
DATA expc<>+36(SB)/4, $127
DATA expc<>+40(SB)/4, $0xc2d20000 // -105
DATA expc<>+44(SB)/4, $0x42b20000 // 89
GLOBL expc<>(SB), RODATA|NOPTR, $48
