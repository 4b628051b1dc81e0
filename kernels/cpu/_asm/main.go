// Command _asm writes the microkernels of matrix products as assembly, from descriptions of
//
//	                   amd64                                       arm64
//	instruction sets   Set: avx2.go, avxvnni.go, vnni.go           armSet: arm64_sets.go
//	formats            Format: q8_0.go, q4_0.go, q5_0.go, q4_k.go, q5_k.go, q6_k.go, for both
//	shapes             gemv.go, gemv8.go, gemm8.go, gemm4.go,      arm64_gemv.go, arm64_pack.go, arm64_tile.go
//	                   pack.go, tile.go, amx.go
//	float weights      float.go, gemv_float.go, gemm_float.go      arm64_float.go
//	all formats        round.go, epilogue.go                       arm64_round.go
//	which there are    quantised.go, floats.go                     arm64_microkernels.go
//
// A shape's function writes a microkernel for any set and format. The program writes kernels/cpu/*_gen_amd64.s and
// *_gen_arm64.s, and microkernels_gen_amd64.go and microkernels_gen_arm64.go with their declarations and their rows of
// the table:
//
//	go run . [-check] [directory]
//
// On amd64 a new pair of format and set is a name in the list of quantised.go if both are described. A new format
// describes its block, how one is unpacked (Unpack, for all sets and for rows as for panels), its scales (StoreScales,
// ContiguousScales; those of a block of 32 columns are there, oneScale), and for gemm4 of AVX-512 how four of its
// blocks come to the quarters of a register. Q4_0 is 33 lines for three sets, Q5_K 39; the longest is the first format
// with blocks of 256 columns, Q4_K, 117 lines: 39 for a pair. A new set of the family of AVX2 says how it multiplies:
// AVX-VNNI is 78 lines for six formats. Then kernels/cpu/dispatch_amd64.go calls the method that fills the table, and
// the tests of kernels/cpu find the pair there.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "compare with the files that are there, write nothing")
	flag.Parse()
	directory := ".."
	if flag.NArg() > 0 {
		directory = flag.Arg(0)
	}
	written := generateFiles()
	there, err := filepath.Glob(filepath.Join(directory, "*_gen_a*64.*"))
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range there {
		if written[filepath.Base(path)] == nil {
			log.Fatalf("%s is not written by kernels/cpu/_asm any more: delete it", path)
		}
	}
	for name, text := range written {
		path := filepath.Join(directory, name)
		if *check {
			if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text) {
				log.Fatalf("%s is not what go run . writes in kernels/cpu/_asm", path)
			}
			continue
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			log.Fatal(err)
		}
		fmt.Println(path)
	}
}
