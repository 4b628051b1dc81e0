// Command gguf looks into a model file: metadata, tensors, and the first weights of one of them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

func main() {
	log.SetFlags(0)
	path := flag.String("m", "bench/demo/large.gguf", "a GGUF file")
	name := flag.String("tensor", "blk.0.ffn_down.weight", "the tensor whose first weights are shown")
	flag.Parse()

	f, err := gguf.Open(*path) // maps it: nothing is read that is not looked at
	if bad := (*gguf.FormatError)(nil); errors.As(err, &bad) {
		log.Fatalf("%s cannot be read: %s at byte %d: %v", bad.Path, bad.Field, bad.Offset, bad.Err)
	} else if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	architecture, err := f.String("general.architecture")
	if err != nil {
		log.Fatal(err)
	}
	layers, err := f.Int(architecture + ".block_count")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %d layers, %d tensors\n", architecture, layers, len(f.Tensors()))

	t, ok := f.Tensor(*name)
	if !ok {
		log.Fatalf("%s has no tensor %s", *path, *name)
	}
	elems, bytes := t.Type.Block() // so many weights are stored in so many bytes
	weights := make([]float32, elems)
	t.Type.Dequantize(weights, t.Data[:bytes])
	fmt.Printf("%s is %s of %v: %.4f …\n", t.Name, t.Type, t.Shape, weights[:4])
}
