// Package cpu multiplies weights of every type of a GGUF file with activations: [MatMul], on slices, in plain Go and in
// assembly for amd64 and arm64. Other packages have the rest of a forward pass: kernels/cpu/vector has norm, rotary
// positions, exponentials and attention, kernels/cpu/pool the workers, and kernels/cpu/isa chooses the instruction set.
//
// A weight has N outputs, its rows, of as many columns as a token has activations. T tokens are multiplied at once: one
// in plain decoding, a few in drafts, many in prompts. Weights of the common quantised types (Q8_0, Q5_0, Q4_0, Q4_K,
// Q5_K, Q6_K) are multiplied with activations rounded to 8 bits in blocks of 32, in integers, and summed in float32.
// All other types are multiplied with float32 activations: F32, F16 and BF16 as they are stored if a microkernel reads
// them so, the others after converting their rows.
//
//	MatMul (matmul.go): chooseAlgorithm chooses
//	│
//	├── quantised, one token ─────── quantisedGEMV (quantised.go)
//	│                                  gemv    a row of weights × a token: unpack, multiply, add to accumulators
//	├── quantised, few tokens ────── quantisedSmallGEMM (quantised.go); some types and instruction sets: one token too
//	│                                  gemv8   one token, 8 rows at a time
//	│                                  gemm8   up to 16 tokens, 8 rows at a time ┐ unpack a block once, in registers,
//	│                                  gemm4   up to 8 tokens, 4 rows at a time  ┘ and multiply it with every token
//	├── quantised, many tokens ───── packedGEMM (packed.go)
//	│                                  pack    8 or 16 rows: unpack, interleave, store as a panel
//	│                                  tile    a panel × up to 16 tokens, in register tiles: load, multiply, add
//	│                                  horizontalSum or epilogue: accumulators to results; AMX: by tile, see passes.go
//	├── float, one token ─────────── floatGEMV (float.go)
//	│                                  gemv    a row of weights × a token
//	└── float, several tokens ────── floatGEMM (float.go)
//	                                   gemm8   8 rows × 6 or 8 tokens; prefetches the next weights
//	                                   gemm    4 rows × 4 tokens
//	                                   gemv    remaining rows and tokens
//
// One table for each instruction set says which microkernel computes what ([kernels], filled by dispatch_amd64.go and
// dispatch_arm64.go). For each type, number of tokens and instruction set, `pilotfish-bench kernels` prints function
// and file, from the code that chooses ([Microkernels]); testdata/microkernels_amd64.txt and microkernels_arm64.txt
// hold the table for review. A name describes its function: gemm8Q4_0AVX2 multiplies few tokens with 8 rows of Q4_0, on
// AVX2. The instruction sets are AVX2, AVX-VNNI (AVXVNNI), AVX-512 VNNI (VNNI, AVX512) and AMX; NEON, SDOT and SMMLA.
//
// A Go program in a separate module (kernels/cpu/_asm) writes the assembly of products. It has a description of each
// instruction set, of each format and of each shape. Its quantised.go, floats.go and arm64_microkernels.go list the
// microkernels: gemm8Q4_0AVX2 is gemm8.go with q4_0.go and avx2.go; its code is in q4_0_avx2_gen_amd64.s, its
// declaration and its row of the table in microkernels_gen_amd64.go. On arm64 packQ4_0By8 packs for SMMLA, which has
// registers of eight columns, By4 for SDOT, By16 for NEON. make generate writes these files, make lint checks that they
// are up to date. All other assembly is written by hand. Every microkernel takes a pointer to its arguments (args.go).
//
// Every microkernel has a twin in plain Go with its formula (generic.go, generic_packed.go, generic_float.go), and fuzz
// tests compare the two. testdata/bits_amd64.txt and bits_arm64.txt hold results to the last bit. The instruction set
// is chosen at first use by the features of the CPU, or by [Env]; the build tag noasm leaves only Go. [Detect] returns
// its name.
//
// [tried.md] lists what did not make it faster, with figures.
//
// Promise: a result depends only on the instruction set, the weight and the activations of the one token. The number of
// tokens in a call, the division of the outputs into ranges and the number of workers never change a bit of it.
//
// [tried.md]: https://github.com/pilotfish-ai/pilotfish/blob/main/docs/study/tried.md
package cpu
