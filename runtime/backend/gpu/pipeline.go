package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// pipelineKey identifies a kernel by its name, the type of its weights, which is empty if it reads none, and its
// function constants.
type pipelineKey struct {
	weight, name string
	kvF32        bool
}

// storeKey holds the properties of a KV store that kernels depend on.
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

// ruleKernels are those of layers with recurrent states that read no weights. Those layers also need project_wide and
// project, which are like the typed and the narrow ones.
var ruleKernels = []string{"conv", "delta"}

// touchesKV reports whether a kernel reads or writes a KV store, so that there is one for each of its types.
func touchesKV(kernel string) bool {
	return strings.HasPrefix(kernel, "qkv") || strings.HasPrefix(kernel, "attend") ||
		slices.Contains(ruleKernels, kernel)
}

// findPipeline returns the pipeline of a kernel, and compiles it if that has not been done yet.
func (d *Device) findPipeline(key pipelineKey) (metal.Pipeline, error) {
	key.kvF32 = key.kvF32 && touchesKV(key.name)
	return d.pipelines.get(key)
}

// preparePipelines has the pipelines that passes of any number of rows may need compiled in the background: for all
// types of weights and all KV stores so far.
func (d *Device) preparePipelines() {
	var keys []pipelineKey
	for weight := range d.libraries {
		for _, name := range d.kernelNames(weight) {
			if !touchesKV(name) {
				keys = append(keys, pipelineKey{weight, name, false})
				continue
			}
			for s := range d.stores {
				keys = append(keys, pipelineKey{weight, name, s.kvF32})
			}
		}
	}
	for s := range d.stores {
		for _, name := range []string{attendKernel(s.heads, s.room), attendWideKernel(s.room)} {
			keys = append(keys, pipelineKey{"", name, s.kvF32})
		}
	}
	d.pipelines.prepare(keys)
}

// CompileKernels waits until all kernels for the weights and the KV stores so far are compiled, and returns the first
// error. Passes need not wait: each waits for its own kernels.
func (d *Device) CompileKernels() error { return d.pipelines.await() }

func (d *Device) kernelNames(weight string) (names []string) {
	plain, typed, narrow := plainKernels, typedKernels, narrowKernels
	if d.recurrent {
		plain, typed = slices.Concat(plain, ruleKernels), append(slices.Clone(typed), "project_wide")
		narrow = append(slices.Clone(narrow), "project")
	}
	if weight == "" {
		return plain
	}
	suffix := "_" + strings.ToLower(weight)
	for _, op := range typed {
		names = append(names, op+suffix)
	}
	for _, op := range narrow {
		for _, rows := range buckets {
			names = append(names, fmt.Sprintf("%s%s_%d", op, suffix, rows))
		}
	}
	return names
}

// attendKernel is the name of the kernel for the attention of few rows, with heads query heads at a time that have room
// elements; attendWideKernel is that of the one for many rows.
func attendKernel(heads, room int) string { return fmt.Sprintf("attend_%d_%d", heads, room) }
func attendWideKernel(room int) string    { return fmt.Sprintf("attend_wide_%d", room) }

// compareKey orders pipelines by when they are needed: a prompt comes first, then single tokens, then a few at a time.
func (k pipelineKey) compareKey(other pipelineKey) int {
	return cmp.Or(cmp.Compare(k.needRank(), other.needRank()), strings.Compare(k.weight, other.weight),
		strings.Compare(k.name, other.name), cmp.Compare(boolToUint32(k.kvF32), boolToUint32(other.kvF32)))
}

func (k pipelineKey) needRank() int {
	switch {
	case strings.HasPrefix(k.name, "embed"), strings.Contains(k.name, "_wide"):
		return 0
	case k.weight == "", strings.HasSuffix(k.name, "_1"):
		return 1
	}
	return 2
}

// compilePipeline compiles a kernel whose library has been made. Its device may add libraries meanwhile.
func (d *Device) compilePipeline(key pipelineKey) (metal.Pipeline, error) {
	d.mu.Lock()
	l, ok := d.libraries[key.weight]
	d.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%s: no weight of its type was loaded", key.name)
	}
	return newPipeline(l, key)
}

// newPipeline compiles a kernel and checks its simdgroup width, which all kernels depend on.
func newPipeline(l metal.Library, key pipelineKey) (metal.Pipeline, error) {
	p, err := l.NewPipeline(key.name, metal.Constant{Index: 0, Value: key.kvF32})
	if err != nil {
		return nil, err
	}
	if w := p.SIMDWidth(); w != 32 {
		p.Close()
		return nil, fmt.Errorf("%s: simdgroups of %d threads, the kernels need 32", key.name, w)
	}
	return p, nil
}

func kernelName(op string, t gguf.Type) string { return op + "_" + strings.ToLower(t.String()) }

// buckets are the numbers of rows for which there are kernels for short passes.
var buckets = []int{1, 2, 4, maxNarrow}

// maxNarrow is the maximum number of rows that share one pass over the weights in order.
const maxNarrow = 8
