package main

import (
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// operations are those with mat-vecs.
var operations = [...]string{"add", "qkv", "gateup", "head"}

// rows are the numbers of rows of activations that there are kernels for.
var rows = [...]int{1, 2, 4, 8}

// weightsEach are those that a lane takes in one iteration of the inner loop: its columns of a step, of each row of a
// tile for up to two rows of activations and of half the tile for more; or of half a step, but of all rows of the tile,
// where weights are numbers by themselves.
func weightsEach(weight string, rows int) int {
	n := kernels.TileRows * kernels.StepColumns / 32
	if rows >= 4 || weight == "F32" || weight == "F16" || weight == "BF16" {
		n /= 2
	}
	return n
}

// figures are what a kernel costs.
type figures struct {
	perWeight          float64 // instructions of the inner loop for each weight that a lane takes
	fmas               int     // of the inner loop
	registers, private int     // of a thread: registers of 32 bits, bytes of private memory
}

// measure compiles an operation for a type of weights and all numbers of rows, and returns the text as well.
func measure(c *translate.Compiler, op, weight string) (all []figures, text string, err error) {
	var names []string
	for _, t := range rows {
		names = append(names, fmt.Sprintf("%s_%s_%d", op, strings.ToLower(weight), t))
	}
	if text, err = c.Assembly(kernels.Source(weight), names...); err != nil {
		return nil, "", err
	}
	found := read(text)
	for i, name := range names {
		k := found[name]
		if k == nil || len(k.loops) == 0 {
			return nil, text, fmt.Errorf("%s: no loop in what clang made of it", name)
		}
		l, n := k.busiest()
		all = append(all, figures{float64(n) / float64(weightsEach(weight, rows[i])), l.fmas, k.registers, k.private})
	}
	return all, text, nil
}
