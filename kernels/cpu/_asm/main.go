// Command _asm writes the microkernels for weights in blocks, as assembly, from descriptions of instruction sets (Set),
// formats (Format) and shapes: gemv, gemv, gemm8, gemm4, pack and tile are functions that write
// one microkernel for any set and format. Which of them there are is the list in files.go. It writes
// kernels/cpu/*_gen_*.s and their declarations:
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
