// Panels from rows, four rows at a time: where sixteen columns of them lie in four registers of the panel, and what belongs into each, is up to
// the variant.

// V4-V7 = the same four columns of all four rows each, from V0-V3, sixteen columns of a row each: the panel of SDOT, and that of scales.
#define BY4 \
	VTRN1 V1.S4, V0.S4, V16.S4; \
	VTRN2 V1.S4, V0.S4, V17.S4; \
	VTRN1 V3.S4, V2.S4, V18.S4; \
	VTRN2 V3.S4, V2.S4, V19.S4; \
	VTRN1 V18.D2, V16.D2, V4.D2; \
	VTRN1 V19.D2, V17.D2, V5.D2; \
	VTRN2 V18.D2, V16.D2, V6.D2; \
	VTRN2 V19.D2, V17.D2, V7.D2

// V4-V7 = the first eight columns of rows 0 and 1, of rows 2 and 3, then the other eight: the panel of SMMLA.
#define BY8 \
	VZIP1 V1.D2, V0.D2, V4.D2; \
	VZIP1 V3.D2, V2.D2, V5.D2; \
	VZIP2 V1.D2, V0.D2, V6.D2; \
	VZIP2 V3.D2, V2.D2, V7.D2

// V4-V7 = the rows: the panel of plain NEON.
#define BY16 \
	VMOV V0.B16, V4.B16; \
	VMOV V1.B16, V5.B16; \
	VMOV V2.B16, V6.B16; \
	VMOV V3.B16, V7.B16
