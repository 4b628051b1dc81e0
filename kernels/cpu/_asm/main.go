// Command _asm writes the microkernels of amd64 as assembly. For quantised weights it has descriptions of instruction
// sets (Set), formats (Format) and shapes: gemv, gemv8, gemm8, gemm4, pack and tile, each a file whose function writes
// a microkernel for any set and format. For float weights it has types (floatType) and the shapes in gemv_float.go and
// gemm_float.go. Which of them there are is listed in quantised.go and floats.go. It writes kernels/cpu/*_gen_amd64.s
// and microkernels_gen_amd64.go with their declarations:
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
