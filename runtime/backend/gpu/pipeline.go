package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// pipelineKey is a kernel for a type of weights, which is empty if it reads none, and its function constants.
type pipelineKey struct {
	weight, name string
	kvF32        bool
}

// storeKey is what kernels have to know of a KV store.
type storeKey struct {
	kvF32       bool
	heads, room int // of its attendPlan
}

// The kernels that passes ask for: those that read no weights, and for each type of weights those for any number of
// rows or for many, and those for each of buckets. A name is op, op_type or op_type_rows. Attention has kernels for
// each kind of KV stores.
var (
	plainKernels  = []string{"norm", "merge"}
	typedKernels  = []string{"embed", "qkv_wide", "add_wide", "gateup_wide"}
	narrowKernels = []string{"qkv", "add", "gateup", "head"}
)

// touchesKV reports whether a kernel reads or writes a KV store, so that there is one for each of its types.
func touchesKV(kernel string) bool {
	return strings.HasPrefix(kernel, "qkv") || strings.HasPrefix(kernel, "attend")
}

// pipeline returns a kernel that [Device.ready] has made.
func (d *Device) pipeline(key pipelineKey) (metal.Pipeline, error) {
	key.kvF32 = key.kvF32 && touchesKV(key.name)
	p, ok := d.pipelines[key]
	if !ok {
		return nil, fmt.Errorf("%s: no pipeline was made of this kernel at loading", key.name)
	}
	return p, nil
}

// ready makes the pipelines that passes may ask for, whatever their number of rows: of all types of weights and all KV
// stores there are so far. None is made while a pass is encoded.
func (d *Device) ready() error {
	for _, weight := range slices.Sorted(maps.Keys(d.libraries)) {
		names := plainKernels
		if weight != "" {
			names = nil
			suffix := "_" + strings.ToLower(weight)
			for _, op := range typedKernels {
				names = append(names, op+suffix)
			}
			for _, op := range narrowKernels {
				for _, rows := range buckets {
					names = append(names, fmt.Sprintf("%s%s_%d", op, suffix, rows))
				}
			}
		}
		for _, name := range names {
			if err := d.makePipelines(weight, name); err != nil {
				return err
			}
		}
	}
	for s := range d.stores {
		for _, name := range []string{attendKernel(s.heads, s.room), attendWideKernel(s.room)} {
			if err := d.makePipeline(pipelineKey{"", name, s.kvF32}); err != nil {
				return err
			}
		}
	}
	return nil
}

// attendKernel is the name of the kernel for the attention of few rows, with heads query heads at a time that have room
// elements; attendWideKernel is that of the one for many rows.
func attendKernel(heads, room int) string { return fmt.Sprintf("attend_%d_%d", heads, room) }
func attendWideKernel(room int) string    { return fmt.Sprintf("attend_wide_%d", room) }

// makePipelines makes a kernel ready to run, for each type of KV stores if it touches one.
func (d *Device) makePipelines(weight, name string) error {
	if !touchesKV(name) {
		return d.makePipeline(pipelineKey{weight, name, false})
	}
	for s := range d.stores {
		if err := d.makePipeline(pipelineKey{weight, name, s.kvF32}); err != nil {
			return err
		}
	}
	return nil
}

// makePipeline makes a kernel ready to run, once, with the width of simdgroups that all kernels rely on.
func (d *Device) makePipeline(key pipelineKey) error {
	if _, made := d.pipelines[key]; made {
		return nil
	}
	l, err := d.library(key.weight)
	if err != nil {
		return err
	}
	p, err := l.NewPipeline(key.name, metal.Constant{Index: 0, Value: key.kvF32})
	if err != nil {
		return err
	}
	if w := p.SIMDWidth(); w != 32 {
		p.Close()
		return fmt.Errorf("%s: simdgroups of %d threads, the kernels need 32", key.name, w)
	}
	d.pipelines[key] = p
	return nil
}

// kernel is the name of an operation's kernel for a type of weights.
func kernel(op string, t gguf.Type) string { return op + "_" + strings.ToLower(t.String()) }

// buckets are the numbers of rows that there are kernels for where a pass has few.
var buckets = []int{1, 2, 4, maxNarrow}

// bucket is the number of rows that the kernels for n ≤ maxNarrow rows are made for.
func bucket(n int) int {
	for _, rows := range buckets {
		if n <= rows {
			return rows
		}
	}
	return maxNarrow
}

// maxNarrow is the most rows that share one pass over the weights in order.
const maxNarrow = 8
