package main

import (
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// The shape of Qwen2.5-0.5B, for which the figures are.
const (
	heads        = 14
	layerWeights = 2*896*896 + 2*128*896 + 3*4864*896
	context      = 4096 // tokens that a row of a prompt attends to
	attendKeys   = 2    // AttendKeys of attend.metal
)

// long has the costs of attention and of the matrix products of long passes, with keys in F16 and weights in Q8_0.
type long struct {
	few      float64 // instructions of a lane per multiplication, in attention of 1 to 8 rows
	many     float64 // of a simdgroup per row, key and head, in attention of more rows
	products float64 // of a simdgroup per weight and row of a matrix product
	halves   float64 // the same with weights in F16
	private  int     // maximum private memory of a thread in these kernels, in bytes
	divides  []string
}

// attends returns thousands of instructions of a simdgroup for a layer and a row of a prompt that attends to the whole
// context; multiplies returns those of the matrix products of that layer and row.
func (l long) attends() float64    { return l.many * context * heads / 1e3 }
func (l long) multiplies() float64 { return l.products * layerWeights / 1e3 }

// measureLong compiles these kernels and counts. With equal, products of matrices have operands of one type.
func measureLong(c *translate.Compiler, equal bool) (l long, err error) {
	const few, many, product, half = "attend_8_64", "attend_wide_64", "add_wide_q8_0", "add_wide_f16"
	const constant = "constant bool kv_f32 [[function_constant(0)]];"
	source := kernels.Source("", equal)
	if !strings.Contains(source, constant) {
		return l, fmt.Errorf("the kernels have no %s", constant)
	}
	found, _, err := compile(c, strings.Replace(source, constant, "constant bool kv_f32 = false;", 1),
		[]string{few, many})
	if err != nil {
		return l, err
	}
	wide, _, err := compile(c, kernels.Source("Q8_0", equal), []string{product})
	if err != nil {
		return l, err
	}
	halves, _, err := compile(c, kernels.Source("F16", equal), []string{half})
	if err != nil {
		return l, err
	}
	// A lane processes attendKeys keys at a time, 8 elements of each, and multiplies them and as many values for 8
	// heads. The search for the slot of a key is an inner loop, which counts once.
	_, n := found[few].busiest(1)
	l.few = float64(n) / (attendKeys * 8 * 2 * 8)
	// A simdgroup processes a band of rows and a block of slots at a time. Each of the threads of 7 simdgroups copies
	// little more than one piece of keys and values, in inner loops.
	_, n = found[many].busiest(1)
	l.many = float64(n) / (kernels.BandRows * kernels.BlockSlots)
	// Four simdgroups process a step of 64 rows and 64 outputs at a time. Each thread copies four pieces of
	// activations, in the inner loop.
	step := func(k *code) float64 {
		_, n := k.busiest(4)
		return 4 * float64(n) / (kernels.WideRows * kernels.WideOuts * kernels.WideStep)
	}
	l.products, l.halves = step(wide[product]), step(halves[half])
	for _, k := range []*code{found[few], found[many], wide[product], halves[half]} {
		l.private = max(l.private, k.private)
		l.divides = append(l.divides, k.divides()...)
	}
	return l, nil
}
