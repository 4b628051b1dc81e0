package main

import (
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// operations are the operations with mat-vecs.
var operations = [...]string{"add", "qkv", "gateup", "head"}

// rows are the numbers of rows of activations that have kernels.
var rows = [...]int{1, 2, 4, 8}

// weightsEach returns the number of weights that a lane processes in one iteration of the inner loop: its columns of a
// step, of each row of a tile for up to two rows of activations and of half the tile for more. If weights are stored as
// plain numbers, it is half a step, but of all rows of the tile.
func weightsEach(weight string, rows int) int {
	n := kernels.TileRows * kernels.StepColumns / 32
	if rows >= 4 || weight == "F32" || weight == "F16" || weight == "BF16" {
		n /= 2
	}
	return n
}

// figures are the costs of a kernel.
type figures struct {
	perWeight          float64 // instructions of the inner loop per weight
	fmas               int     // of the inner loop
	registers, private int     // per thread: registers of 32 bits, bytes of private memory
	divides            []string
}

// measure compiles operations for a type of weights and all numbers of rows, in one run of the compiler. It also
// returns the assembly.
func measure(
	c *translate.Compiler, weight string, operations []string,
) (all map[string][]figures, text string, err error) {
	var names []string
	for _, op := range operations {
		for _, t := range rows {
			names = append(names, fmt.Sprintf("%s_%s_%d", op, strings.ToLower(weight), t))
		}
	}
	found, text, err := compile(c, kernels.Source(weight, false), names)
	if err != nil {
		return nil, text, err
	}
	all = map[string][]figures{}
	for i, name := range names {
		k, op, t := found[name], operations[i/len(rows)], rows[i%len(rows)]
		header, n := k.busiest(1)
		all[op] = append(all[op], figures{
			perWeight: float64(n) / float64(weightsEach(weight, t)), fmas: k.loops[header].fmas,
			registers: k.registers, private: k.private, divides: k.divides(),
		})
	}
	return all, text, nil
}

// compile returns the assembly of some kernels by clang.
func compile(c *translate.Compiler, source string, names []string) (map[string]*code, string, error) {
	text, err := c.Assembly(source, names...)
	if err != nil {
		return nil, "", err
	}
	found := read(text)
	for _, name := range names {
		if k := found[name]; k == nil || len(k.loops) == 0 {
			return nil, text, fmt.Errorf("%s: no loop in the assembly", name)
		}
	}
	return found, text, nil
}
