package metalplan

import (
	"fmt"
	"slices"
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
	case "conv":
		a := decodeArgs[kernels.ConvArgs](d)
		w.Bytes = 4 * int64(a.Taps) * int64(2*a.KeyHeads*a.KeySize+a.ValueHeads*a.ValueSize) // weights
		return w, nil
	case "delta":
		w.setStateBytes(decodeArgs[kernels.DeltaArgs](d), n)
		return w, nil
	}
	p, is := w.setProductBytes(op, d)
	if !is { // norm, merge
		return w, nil
	}
	kind = kind[:max(0, strings.LastIndexByte(kind, '_'))] // without the number of rows
	each, known := instructionsPerWeight[kind]
	if !known {
		return w, fmt.Errorf("%s: the number of instructions for weights of type %s is unknown", d.Kernel, kind)
	}
	plain := strings.HasSuffix(kind, "f16") || kind == "f32"
	w.countTrips(p, plain)
	w.Instructions, w.Cached = each*float64(p.weights)/(1-w.Idle), p.activations*int64(w.Groups)
	w.fetch = int(kernels.TileRows * kernels.StepColumns * w.Bytes / p.weights)
	if plain {
		w.fetch /= 2 // plain numbers are processed half a step at a time
	}
	return w, nil
}

// setStateBytes sets the bytes of the states before the chunk of token n, and of keys and errors of the chunk. The
// first token of a chunk also computes the state at the end of the one before, from the state before that.
func (w *Work) setStateBytes(a kernels.DeltaArgs, n int) {
	state := int64(a.ValueHeads) * int64(a.KeySize) * int64(a.ValueSize)
	update := sizeOfF16 * int64(a.KeyHeads*a.KeySize+a.ValueHeads*a.ValueSize)
	before, tokens := (n-1)/kernels.ChunkTokens, (n-1)%kernels.ChunkTokens
	reads := min(before, 1)
	if w.Bytes = int64(tokens) * update; before > 0 && tokens == 0 {
		w.Bytes = kernels.ChunkTokens * update
		reads += min(before-1, 1) + 1 // and writes
	}
	w.Bytes += int64(reads) * 4 * state
	w.Instructions = instructionsPerState * float64(reads) * float64(state)
}

// product is a matrix that a dispatch multiplies, and how it is divided.
type product struct {
	weights, activations int64 // weights of all threadgroups, bytes of activations that each fetches
	rows, cols           uint32
	parts, share         uint32 // as in kernels/dot.metal, abreast too; rows are those of a threadgroup
	abreast              uint32
}

// setProductBytes sets the bytes of the weights that an operation multiplies, if it is a product.
func (w *Work) setProductBytes(op string, d record.Dispatch) (p product, is bool) {
	switch op {
	case "qkv":
		a := decodeArgs[kernels.QKVArgs](d)
		p = product{0, 4 * int64(a.Cols), 2 * a.GroupPairs, a.Cols, a.Parts, a.Share, a.Abreast}
		for i, groups := range a.Groups {
			if groups > 0 {
				w.Bytes += 2 * int64(a.Pairs[i]) * int64(a.RowBytes[i])
				p.weights += 2 * int64(a.Pairs[i]) * int64(a.Cols)
			}
		}
	case "add":
		a := decodeArgs[kernels.AddArgs](d)
		activations := 4 * int64(a.Splits) * int64(a.Cols)
		if a.Splits > 1 {
			activations += 8 * int64(a.Splits*a.Heads) // their weights in the merge
		}
		w.Bytes = int64(a.Outs) * int64(a.RowBytes)
		p = product{int64(a.Outs) * int64(a.Cols), activations, a.GroupRows, a.Cols, a.Parts, a.Share, a.Abreast}
	case "gateup":
		a := decodeArgs[kernels.GateUpArgs](d)
		weights := int64(a.Outs) * int64(a.Cols)
		p = product{weights, 4 * int64(a.Cols), 2 * a.GroupPairs, a.Cols, a.Parts, a.Share, a.Abreast}
		w.Bytes = int64(a.Outs) * int64(a.GateBytes)
		if a.Mode == 0 { // both
			w.Bytes, p.weights = w.Bytes+int64(a.Outs)*int64(a.UpBytes), 2*weights
		}
	case "project":
		a := decodeArgs[kernels.ProjectArgs](d)
		p = product{0, 4 * int64(a.Cols), a.GroupRows, a.Cols, a.Parts, a.Share, a.Abreast}
		for i, groups := range a.Groups {
			if groups > 0 {
				w.Bytes += int64(a.Outs[i]) * int64(a.RowBytes[i])
				p.weights += int64(a.Outs[i]) * int64(a.Cols)
			}
		}
	case "head":
		a := decodeArgs[kernels.HeadArgs](d)
		w.Bytes = int64(a.Outs) * int64(a.RowBytes)
		p = product{int64(a.Outs) * int64(a.Cols), 4 * int64(a.Cols), a.GroupRows, a.Cols, a.Parts, a.Share, a.Abreast}
	default:
		return product{}, false
	}
	return p, true
}

// countTrips follows the simdgroups of a threadgroup through their tiles and parts of the columns, as dot.metal does. A
// load is 16 weights for each of 32 lanes: a quarter of a step of a tile.
func (w *Work) countTrips(p product, plain bool) {
	const step, tail = kernels.StepColumns, kernels.TailColumns
	simdgroups := (w.Threads + 31) / 32
	loads, trips := make([]int, simdgroups), make([]int, simdgroups)
	for first := uint32(0); first < p.parts; first += p.abreast {
		for job := range p.rows / kernels.TileRows * p.abreast {
			from := (first + job%p.abreast) * p.share
			cols := int(min(p.share, max(p.cols, from)-from))
			i := int(job) % simdgroups
			switch {
			case plain:
				loads[i] += ceilDiv(cols, tail)
				trips[i] += ceilDiv(cols, step/2)
			case cols%tail > 0: // the last step is not divided among lanes
				loads[i] += ceilDiv(cols, step) * (step / tail)
				trips[i] += ceilDiv(cols, step)
			default:
				loads[i] += cols / tail
				trips[i] += ceilDiv(cols, step)
			}
		}
	}
	w.Trips = slices.Max(trips)
	room := w.Groups * simdgroups * slices.Max(loads) * tail * kernels.TileRows
	w.Idle = 1 - float64(p.weights)/float64(room)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func (w *Work) predictTime(g GPU, memoryBytes int) {
	groups := ceilDiv(w.Groups, g.Cores) // on the busiest core
	resident := max(1, min(groups, coreThreads/w.Threads, coreMemory/max(memoryBytes, 1)))
	simdgroups := (w.Threads + 31) / 32
	w.InFlight = resident * simdgroups * w.fetch
	if w.Trips == 0 {
		w.Trips = ceilDiv(int(w.Bytes), w.Groups*simdgroups*w.fetch)
	}

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
