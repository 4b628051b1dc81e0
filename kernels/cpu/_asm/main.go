// Command _asm writes microkernels as assembly. For quantised weights it has descriptions of instruction sets, of
// formats (q8_0.go to q6_k.go) and of shapes, each a file whose function writes a microkernel for any set and format.
// For amd64 these are Set (avx2.go, avxvnni.go, vnni.go), Format, and gemv, gemv8, gemm8, gemm4, pack and tile; for
// float weights there are types (floatType) and the shapes in gemv_float.go and gemm_float.go. For arm64 they are
// armSet (arm64_sets.go), armFormat, and the shapes in arm64_gemv.go, arm64_pack.go, arm64_tile.go and arm64_float.go.
// Which microkernels there are is listed in quantised.go, floats.go and arm64_microkernels.go. It writes
// kernels/cpu/*_gen_amd64.s and *_gen_arm64.s, and microkernels_gen_amd64.go and microkernels_gen_arm64.go with their
// declarations and rows of the table:
//
//	go run . [-check] [directory]
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
	written := files()
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
