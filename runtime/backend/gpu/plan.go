package gpu

import (
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// Limits of the division of a mat-vec, and of attention.
const (
	minRows  = 16   // weight rows of a threadgroup
	maxRows  = 256  // maximum of them
	maxSIMDs = 16   // maximum simdgroups of a threadgroup
	fewest   = 40   // minimum threadgroups of a dispatch: two for each core of a GPU of 20 cores
	mostIdle = 0.05 // parts of the columns leave less than this share of simdgroups idle
)

// division says how a matrix is divided among threadgroups and their simdgroups. It depends only on the shape of the
// matrix, because it determines bits: the parts of the columns decide the order in which products are added, and the
// threadgroups the order of Σ x².
type division struct {
	rows  int // weight rows of a threadgroup: 16, 32, … 256
	parts int // of the columns: 1, 2 or 4
	share int // columns of a part, a multiple of kernels.TailColumns
}

// divideMatrix plans a mat-vec with a matrix of outs × cols.
//
// Metal does not report how many cores a GPU has, so the plan is made for a GPU of 20 (M4 Pro): at least two
// threadgroups for each core are 40. A GPU of 8 cores then has 5 or more for each, one of 40 cores (M4 Max) one or
// more. The number of rows is halved from 256 until there are 40 threadgroups, but not below 16: a threadgroup fetches
// the activations, 4·cols bytes, for rows · bytes of a row, and with 16 rows of Q4_0 that is 44 % as much as the
// weights. The activations come from a cache, as all threadgroups fetch the same ones.
//
// Two for each of 40 cores would be 8 rows where a matrix has 896: 112 threadgroups instead of 56, which fetch twice as
// many activations from caches. bench/metalplan says what that costs M4 Pro at 4,000 tokens: 1 µs in the second matrix
// of the feed-forward block and 4 µs where attention is joined, in each layer: 4.5 % of a token. And M4 Max would gain
// nothing: its busiest cores have 2 of 56 threadgroups, where 1.4 would be even, and compute 2.3 µs of Q4_0 while
// memory takes 5.4 µs for all (TestDivide: it is so for every matrix); under way are 40 · 18 KB, 2.7 times what it
// streams in 600 ns.
//
// If a load takes 600 ns, which is assumed, a core gets its share of 273 GB/s (M4 Pro) when 600 ns · 13.7 GB/s = 8 KB
// are under way; there should be twice as much, as a simdgroup computes for a part of its time. One simdgroup has a
// step of TileRows rows under way, 4 · 512 columns: 1,152 bytes with Q4_0, 2,176 with Q8_0. Two threadgroups for each
// core with 8 simdgroups each have 2 · 8 · 1,152 = 18 KB. A threadgroup of 16 rows has 4 tiles, which are 4 simdgroups.
// So the columns are divided, too, into 2 or 4 parts, until there are 16 simdgroups, if each has a step at least and
// less than a twentieth of their time goes by waiting for the longest part. The 896 columns of Qwen2.5-0.5B are 7 · 128
// and stay whole: with 4 simdgroups, a core of 20 has 12.6 KB of the second matrix of attention under way (of 25).
func divideMatrix(outs, cols int) division {
	rows := maxRows
	for rows > minRows && ceilDiv(outs, rows) < fewest {
		rows /= 2
	}
	return divideColumns(rows, cols)
}

// divideColumns divides the columns for a threadgroup of so many weight rows.
func divideColumns(rows, cols int) division {
	units := ceilDiv(cols, kernels.TailColumns)
	c := division{rows: rows, parts: 1, share: units * kernels.TailColumns}
	for parts := 2; parts*rows/kernels.TileRows <= maxSIMDs; parts *= 2 {
		share := ceilDiv(units, parts)
		idle := 1 - float64(units)/float64(parts*share)
		if share*kernels.TailColumns >= kernels.StepColumns && idle < mostIdle {
			c.parts, c.share = parts, share*kernels.TailColumns
		}
	}
	return c
}

// divideHead plans the output matrix. It has rows for more threadgroups than any GPU has cores, so its columns are not
// divided.
func divideHead(cols int) division {
	return division{rows: headRows, parts: 1, share: ceilDiv(cols, kernels.TailColumns) * kernels.TailColumns}
}

// narrowPlan is the plan of a mat-vec.
type narrowPlan struct {
	division
	pipeline metal.Pipeline
	threads  int
	abreast  int   // parts of the columns at a time
	chunk    int   // columns of each of them in threadgroup memory at a time
	memory   []int // bytes of threadgroup memory: activations, results, others
}

// columnArgs returns the arguments for Cut in dot.metal.
func (p narrowPlan) columnArgs() (parts, share, abreast, chunk uint32) {
	return uint32(p.parts), uint32(p.share), uint32(p.abreast), uint32(p.chunk)
}

// planNarrow plans a mat-vec of n rows of activations over cols columns, divided as c says, beside extra bytes of
// threadgroup memory. Where the activations do not fit into what there is of it, they pass through it in chunks, if
// need be of fewer parts at a time. Results do not depend on that, nor on the number of threads.
//
// For 8 rows a step of one part is 16 KB, half of that memory: the second matrix of the feed-forward block goes one
// part after the other, by 4 simdgroups with 2 rows each under way. With the shape of Qwen2.5-0.5B and Q4_0 that is
// 56 · 4 · 576 bytes in 600 ns, 215 GB/s, of the 227 that M4 Pro streams; Q8_0 has twice as much.
func (d *Device) planNarrow(
	op string, kind gguf.Type, kvF32 bool, n, cols int, c division, extra int,
) (narrowPlan, error) {
	i, _ := slices.BinarySearch(buckets, n) // n is at most maxNarrow
	t := buckets[i]
	p, err := d.findPipeline(pipelineKey{kind.String(), fmt.Sprintf("%s_%d", kernelName(op, kind), t), kvF32})
	if err != nil {
		return narrowPlan{}, err
	}
	plan := narrowPlan{
		division: c, pipeline: p, abreast: c.parts, chunk: c.share,
		memory: []int{4 * t * ceilDiv(cols, 4) * 4, 4 * t * c.rows * c.parts},
	}
	if extra > 0 {
		plan.memory = append(plan.memory, extra)
	}
	free := d.limits.ThreadgroupMemory - p.ThreadgroupMemory() - sumInts(plan.memory[1:]) - 64 // each is rounded up
	if plan.memory[0] > free {
		step := 4 * t * kernels.StepColumns // bytes of one part
		for plan.abreast > 1 && plan.abreast*step > free {
			plan.abreast /= 2
		}
		plan.chunk = min(c.share, free/(plan.abreast*step)*kernels.StepColumns)
		plan.memory[0] = 4 * t * plan.abreast * plan.chunk
	}
	if plan.chunk == 0 {
		return plan, fmt.Errorf("%s: %d bytes of threadgroup memory are too few", p.Name(), d.limits.ThreadgroupMemory)
	}
	possible := max(1, min(p.Threads(), d.limits.Threads)/32)
	plan.threads = 32 * min(maxSIMDs, c.rows/kernels.TileRows*plan.abreast, possible)
	return plan, nil
}
