package metalplan

import (
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal/record"
)

func decodeArgs[T any](d record.Dispatch) (args T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&args)), unsafe.Sizeof(args)), d.Args)
	return args
}

const sizeOfF16 = 2 // bytes of an element of the KV cache

// workOf returns the work of a dispatch for a token that attends to n tokens, with keys and values in F16.
func workOf(d record.Dispatch, n int) (Work, error) {
	w := Work{
		Kernel: d.Kernel, Count: 1, Groups: d.Groups.X * d.Groups.Y * d.Groups.Z,
		Threads: d.Threads.X * d.Threads.Y * d.Threads.Z, fetch: fetch,
	}
	op, kind, _ := strings.Cut(d.Kernel, "_")
	switch op {
	case "embed":
		w.Bytes = int64(decodeArgs[kernels.EmbedArgs](d).RowBytes) // fetched, not multiplied
		return w, nil
	case "attend":
		a := decodeArgs[kernels.AttendArgs](d)
		w.Bytes = 2 * int64(n) * int64(a.Heads/a.Group*a.HeadRoom) * sizeOfF16 // keys and values
		w.Instructions = instructionsPerScore * 2 * float64(n) * float64(a.Heads*a.Head)
		w.Cached = int64(d.Groups.X) * int64(a.Heads*a.HeadRoom) * 4 // queries, for each split
		w.fetch = attendFetch
		return w, nil
	}
	weights, activations, is := w.setProductBytes(op, d)
	if !is { // norm, merge
		return w, nil
	}
	kind = kind[:max(0, strings.LastIndexByte(kind, '_'))] // without the number of rows
	each, known := instructionsPerWeight[kind]
	if !known {
		return w, fmt.Errorf("%s: the number of instructions for weights of type %s is unknown", d.Kernel, kind)
	}
	w.Instructions, w.Cached = each*float64(weights), activations*int64(w.Groups)
	w.fetch = int(kernels.TileRows * kernels.StepColumns * w.Bytes / weights)
	if strings.HasSuffix(kind, "f16") || kind == "f32" {
		w.fetch /= 2 // plain numbers are processed half a step at a time
	}
	return w, nil
}

// setProductBytes sets the bytes of the weights that an operation multiplies, if it is a product. It returns the number
// of these weights, and how many bytes of activations each threadgroup fetches.
func (w *Work) setProductBytes(op string, d record.Dispatch) (weights, activations int64, is bool) {
	switch op {
	case "qkv":
		a := decodeArgs[kernels.QKVArgs](d)
		activations = 4 * int64(a.Cols)
		for i, groups := range a.Groups {
			if groups > 0 {
				w.Bytes += 2 * int64(a.Pairs[i]) * int64(a.RowBytes[i])
				weights += 2 * int64(a.Pairs[i]) * int64(a.Cols)
			}
		}
	case "add":
		a := decodeArgs[kernels.AddArgs](d)
		activations = 4 * int64(a.Splits) * int64(a.Cols)
		if a.Splits > 1 {
			activations += 8 * int64(a.Splits*a.Heads) // their weights in the merge
		}
		w.Bytes, weights = int64(a.Outs)*int64(a.RowBytes), int64(a.Outs)*int64(a.Cols)
	case "gateup":
		a := decodeArgs[kernels.GateUpArgs](d)
		activations = 4 * int64(a.Cols)
		w.Bytes, weights = int64(a.Outs)*int64(a.GateBytes), int64(a.Outs)*int64(a.Cols)
		if a.Mode == 0 { // both
			w.Bytes, weights = w.Bytes+int64(a.Outs)*int64(a.UpBytes), 2*weights
		}
	case "head":
		a := decodeArgs[kernels.HeadArgs](d)
		activations = 4 * int64(a.Cols)
		w.Bytes, weights = int64(a.Outs)*int64(a.RowBytes), int64(a.Outs)*int64(a.Cols)
	default:
		return 0, 0, false
	}
	return weights, activations, true
}

func (w *Work) predictTime(g GPU, memoryBytes int) {
	groups := (w.Groups + g.Cores - 1) / g.Cores // on the busiest core
	resident := max(1, min(groups, coreThreads/w.Threads, coreMemory/max(memoryBytes, 1)))
	simdgroups := (w.Threads + 31) / 32
	w.InFlight = resident * simdgroups * w.fetch
	w.Steps = int(math.Ceil(float64(w.Bytes) / float64(w.Groups*simdgroups*w.fetch)))

	streams := streaming * g.Bandwidth * 1e3 // bytes per µs
	flies := float64(min(w.Groups, resident*g.Cores)*simdgroups*w.fetch) / latency
	w.Limit = "memory"
	if flies < streams {
		streams, w.Limit = flies, "latency"
	}
	takes := float64(w.Bytes) / streams
	busiest := w.Instructions / float64(w.Groups) * float64(groups)
	if arithmetic := busiest / (lanes * g.GHz * 1e3); arithmetic > takes {
		takes, w.Limit = arithmetic, "arithmetic"
	}
	cached := float64(w.Cached) / (cache * float64(min(w.Groups, g.Cores)) * g.GHz * 1e3)
	if cached > takes {
		w.Limit = "caches"
	}
	if max(takes, cached) < step {
		w.Limit = "step"
	}
	w.Micros = step + cached + takes
}
