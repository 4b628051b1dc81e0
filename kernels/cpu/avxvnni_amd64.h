// VPDPBUSD adds four products of an unsigned byte, in Yw, and a signed one, in Yq, to an int32 of Yp. The assembler
// knows only the form of AVX-512; this is that of AVX-VNNI.
#define DPBUSD(q, w, p) \
	BYTE $0xc4;                              \
	BYTE $(0xe2 - 128*(p/8) - 32*(q/8));     \
	BYTE $(8*(15-w) + 5);                    \
	BYTE $0x50;                              \
	BYTE $(0xc0 + 8*(p%8) + q%8)
