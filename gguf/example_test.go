package gguf_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// This example writes a file with one number and one tensor, and reads it again.
func Example() {
	var out bytes.Buffer
	w := gguf.NewWriter(&out)
	gguf.Put(w, "qwen2.block_count", uint32(24))
	w.Declare("token_embd.weight", gguf.F32, 2, 3)
	if err := w.WriteFloats([]float32{1, 2, 3, 4, 5, 6}); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	f, err := gguf.Parse(out.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	layers, err := f.Int("qwen2.block_count")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(layers, "layers")
	for _, t := range f.Tensors() {
		fmt.Println(t.Name, t.Type, t.Shape, len(t.Data), "bytes")
	}
	// Output:
	// 24 layers
	// token_embd.weight F32 [2 3] 24 bytes
}
