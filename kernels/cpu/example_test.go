package cpu_test

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
)

// This example multiplies a matrix of two outputs and three columns with the activations of two tokens.
func ExampleMatMul() {
	m := cpu.Floats([]float32{
		1, 2, 3,
		0, 1, 0,
	}, 2, 3)
	var x cpu.Acts
	x.Resize(2, 3)
	x.Set(0, []float32{1, 1, 1})
	x.Set(1, []float32{2, 0, 1})
	var scratch cpu.Scratch
	products := make([]float32, 2*2) // of each token, one for each output
	cpu.MatMul(products, 2, m, 0, 2, &x, false, &scratch)
	fmt.Println(products[:2], products[2:])
	// Output:
	// [6 1] [5 0]
}
