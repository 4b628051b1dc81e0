package gpu

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

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

// touchesKV reports whether a kernel reads or writes a KV store, so that there is one for each of its types.
func touchesKV(kernel string) bool {
	return strings.HasPrefix(kernel, "qkv") || strings.HasPrefix(kernel, "attend")
}

// findPipeline returns a kernel that [Device.preparePipelines] has compiled.
func (d *Device) findPipeline(key pipelineKey) (metal.Pipeline, error) {
	key.kvF32 = key.kvF32 && touchesKV(key.name)
	p, ok := d.pipelines[key]
	if !ok {
		return nil, fmt.Errorf("%s: no pipeline was made of this kernel at loading", key.name)
	}
	return p, nil
}

// preparePipelines compiles the pipelines that passes of any number of rows may need: for all types of weights and all
// KV stores so far. No pipeline is compiled while a pass is encoded.
func (d *Device) preparePipelines() error {
	var keys []pipelineKey
	for _, weight := range slices.Sorted(maps.Keys(d.libraries)) {
		for _, name := range kernelNames(weight) {
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
	return d.makePipelines(keys)
}

func kernelNames(weight string) (names []string) {
	if weight == "" {
		return plainKernels
	}
	suffix := "_" + strings.ToLower(weight)
	for _, op := range typedKernels {
		names = append(names, op+suffix)
	}
	for _, op := range narrowKernels {
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

// makePipelines compiles kernels, each once and several at a time, because Metal compiles each of them for the GPU.
func (d *Device) makePipelines(keys []pipelineKey) error {
	slices.SortFunc(keys, pipelineKey.compareKey)
	keys = slices.DeleteFunc(slices.Compact(keys), func(k pipelineKey) bool { return d.pipelines[k] != nil })
	made := make([]metal.Pipeline, len(keys))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, key := range keys {
		l, err := d.kernelLibrary(key.weight)
		all.Go(func() error {
			if err == nil {
				made[i], err = newPipeline(l, key)
			}
			return err
		})
	}
	err := all.Wait()
	for i, p := range made {
		if p != nil {
			d.pipelines[keys[i]] = p
		}
	}
	return err
}

func (k pipelineKey) compareKey(other pipelineKey) int {
	return cmp.Or(strings.Compare(k.weight, other.weight), strings.Compare(k.name, other.name),
		cmp.Compare(boolToUint32(k.kvF32), boolToUint32(other.kvF32)))
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
