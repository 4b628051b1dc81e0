// Command kernels multiplies with a quantised matrix: y = W x, without a model around it.
package main

import (
	"fmt"
	"log"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
)

func main() {
	log.SetFlags(0)
	const rows, cols = 256, 512
	variant, err := cpu.Detect() // such as "avx2"; PILOTFISH_CPU chooses another one
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("kernels: %s", variant)

	weights := make([]float32, rows*cols)
	for i := range weights {
		weights[i] = float32(math.Sin(float64(i)))
	}
	elems, bytes := gguf.Q8_0.Block()
	w := cpu.Matrix{Type: gguf.Q8_0, Rows: rows, Cols: cols, Data: make([]byte, rows*cols/elems*bytes)}
	if err := w.Type.Quantize(w.Data, weights); err != nil {
		log.Fatal(err)
	}

	x := make([]float32, cols)
	for i := range x {
		x[i] = float32(math.Cos(float64(i)))
	}
	var acts cpu.Acts // one row of activations, rounded to 8 bits for this type of weight
	acts.Resize(1, cols)
	acts.Set(0, x)
	acts.Round(0)

	workers := pool.New(pool.Threads())
	defer workers.Close()
	y := make([]float32, rows)
	scratch := make([]cpu.Scratch, workers.Threads())
	workers.Begin()
	workers.Run(rows, 32, func(worker, lo, hi int) { // each worker some of the rows
		cpu.MatMul(y, rows, w, lo, hi, &acts, false, &scratch[worker])
	})
	workers.End()

	worst := 0.0
	for o := range y {
		exact := 0.0
		for i := range x {
			exact += float64(weights[o*cols+i]) * float64(x[i])
		}
		worst = max(worst, math.Abs(float64(y[o])-exact))
	}
	fmt.Println("close to the product in float64:", worst < 1)
}
