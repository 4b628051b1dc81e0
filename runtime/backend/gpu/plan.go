package gpu

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// A threadgroup of a mat-vec takes leastRows to mostRows weight rows.
const (
	leastRows = 64
	mostRows  = 256
)

// groupRows is how many weight rows a threadgroup takes of a matrix with outs rows of rowBytes bytes and cols columns:
// so many that its copy of a row of activations is under 3 % of the weights that it fetches, unless fewer than fewest
// threadgroups would be left to share the work. It depends on nothing else, as the parts of Σ x² follow from it.
func groupRows(outs, cols, rowBytes int) int {
	const fewest = 12
	n := leastRows
	for n < mostRows && 100*4*cols > 3*n*rowBytes && outs >= 2*n*fewest {
		n *= 2
	}
	return n
}

// narrow is how a mat-vec is run.
type narrow struct {
	pipeline metal.Pipeline
	threads  int
	chunk    int   // columns in threadgroup memory at a time
	memory   []int // bytes of threadgroup memory: activations, rings, results, and what else
}

// The simdgroups of a mat-vec's threadgroup: as many as mostSIMDs where activations of all columns still find room
// beside a ring for each, otherwise no more than fewSIMDs. Results do not depend on how many there are.
const (
	mostSIMDs = 16
	fewSIMDs  = 8
)

// narrow plans a mat-vec of n rows of activations over cols columns, with rows weight rows to a threadgroup, beside
// extra bytes of threadgroup memory.
func (d *Device) narrow(op string, kind gguf.Type, kvF32 bool, n, rows, cols, extra int) (narrow, error) {
	t := bucket(n)
	p, err := d.pipeline(pipelineKey{kind.String(), fmt.Sprintf("%s_%d", kernel(op, kind), t), kvF32})
	if err != nil {
		return narrow{}, err
	}
	possible := power(max(1, min(p.Threads(), d.limits.Threads)/32))
	for _, most := range []int{mostSIMDs, fewSIMDs, 1} {
		groups := min(most, possible)
		plan := narrow{pipeline: p, threads: 32 * groups, memory: []int{0, groups * kernels.RingBytes, 4 * t * rows}}
		if extra > 0 {
			plan.memory = append(plan.memory, extra)
		}
		free := d.limits.ThreadgroupMemory - p.ThreadgroupMemory() - sum(plan.memory) - 128 // each is rounded up
		steps := min(free/(4*t*kernels.StepColumns), ceil(cols, kernels.StepColumns))
		if steps < 1 || most == mostSIMDs && steps*kernels.StepColumns < cols {
			continue
		}
		plan.chunk = min(cols, steps*kernels.StepColumns)
		plan.memory[0] = 4 * t * steps * kernels.StepColumns
		return plan, nil
	}
	return narrow{}, fmt.Errorf("%s: %d bytes of threadgroup memory are too few", p.Name(), d.limits.ThreadgroupMemory)
}
