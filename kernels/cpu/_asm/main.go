// Command _asm writes the microkernels for quantised weights, as assembly, from descriptions of instruction sets (Set),
// formats (Format) and shapes: gemv, gemv8, gemm8, gemm4, pack and tile, each a file whose function writes a
// microkernel for any set and format. Which of them there are is the list in quantised.go. It writes
// kernels/cpu/*_gen_amd64.s and microkernels_gen_amd64.go with their declarations:
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
	for name, text := range files() {
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
