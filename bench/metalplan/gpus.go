package metalplan

import (
	"maps"
	"slices"
)

// GPU is what the model has to know of a GPU.
type GPU struct {
	Name      string  `json:"name"`
	Chip      string  `json:"chip"`
	Cores     int     `json:"cores"`
	GHz       float64 `json:"ghz"`
	Bandwidth float64 `json:"gb_per_s"` // of memory, as Apple publishes it
}

// GPUs returns those that there are figures for. Cores and bandwidth are Apple's (press releases of November 2020, June
// 2022, May and October 2024); the clocks of M1 and M2 are those of metal-benchmarks
// (github.com/philipturner/metal-benchmarks, table "Overview"), those of M4 and M4 Pro of hmc-tech.com.
func GPUs() []GPU {
	return []GPU{
		{"m1", "M1", 8, 1.278, 68.25},
		{"m2", "M2", 10, 1.398, 100},
		{"m4", "M4", 10, 1.470, 120},
		{"m4pro", "M4 Pro", 20, 1.470, 273},
	}
}

// What holds for all of these GPUs, and where it is from.
const (
	// lanes is how many instructions of a lane a core begins in a cycle: metal-benchmarks, 4 schedulers of 32 lanes.
	lanes = 128
	// coreThreads is how many threads a core holds at most, coreMemory the bytes of threadgroup memory that it has:
	// metal-benchmarks, sections on occupancy and on memory.
	coreThreads, coreMemory = 3072, 60 << 10
	// streaming is the share of the bandwidth that long reads reach. llama.cpp on a model of 7 billion weights in Q8_0
	// reaches 83 % on M1, 87 % on M2, 81 % on M4 and 80 % on M4 Pro
	// (github.com/ggml-org/llama.cpp/discussions/4167: weights × tokens/s over the bandwidth).
	streaming = 0.83
	// latency is the time from a read that no cache answers to its data, in µs. It is assumed: nobody has published it
	// for these GPUs.
	latency = 0.5
	// step is what a dispatch adds that waits for the one before it, in µs, beside its own work: measured on an M2 Pro
	// as the slope over 832 dispatches (ferrox, issue 149).
	step = 5.2
	// fetch is how many bytes a simdgroup has under way: kernels/dot.metal, half a ring while the other half is used.
	fetch = 512
)

// instructionsPerWeight is what the mat-vec of one row costs for each weight, by the type of the weights: the inner
// loop of the same source, compiled by clang-19 for amdgcn with -O3 as a stand-in for Apple's compiler.
var instructionsPerWeight = map[string]float64{"q8_0": 17.8, "q4_0": 17.5}

// Types returns the types of weights that there are figures for.
func Types() []string { return slices.Sorted(maps.Keys(instructionsPerWeight)) }

// instructionsPerScore is what attention costs for each product of a query with an element of a key, and of a share
// with an element of a value: the fma, its two loads, and the copy into threadgroup memory shared by the queries of a
// group. It is assumed, not counted.
const instructionsPerScore = 4
