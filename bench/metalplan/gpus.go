package metalplan

// GPU has the figures of a GPU for the model.
type GPU struct {
	Name      string  `json:"name"`
	Chip      string  `json:"chip"`
	Cores     int     `json:"cores"`
	GHz       float64 `json:"ghz"`
	Bandwidth float64 `json:"gb_per_s"` // of memory, as published by Apple
}

// GPUs returns the GPUs with known figures. Cores and bandwidth are Apple's (press releases of November 2020, October
// 2021, June 2022, October 2023, May and October 2024, October 2025); the clocks of M1, M1 Pro and M2 are those of
// metal-benchmarks (github.com/philipturner/metal-benchmarks, table "Overview"), those of M3, M4, M4 Pro and M5 of
// hmc-tech.com. M4 Max is taken to have the clock of M4 Pro.
func GPUs() []GPU {
	return []GPU{
		{"m1", "M1", 8, 1.278, 68.25},
		{"m1pro", "M1 Pro", 16, 1.296, 200},
		{"m2", "M2", 10, 1.398, 100},
		{"m3", "M3", 10, 1.398, 100},
		{"m4", "M4", 10, 1.470, 120},
		{"m4pro", "M4 Pro", 20, 1.470, 273},
		{"m4max", "M4 Max", 40, 1.470, 546},
		{"m5", "M5", 10, 1.740, 153},
	}
}

// Figures for all of these GPUs, with their sources.
const (
	// lanes is how many instructions of single lanes a core starts per cycle: metal-benchmarks, 4 schedulers of 32
	// lanes.
	lanes = 128
	// coreThreads is how many threads a core can hold: kernels/README.md assumes 16 simdgroups, as threads have up to
	// 96 registers. coreMemory is its threadgroup memory in bytes: metal-benchmarks, section on memory.
	coreThreads, coreMemory = 512, 60 << 10
	// streaming is the share of the bandwidth that long reads achieve. llama.cpp with a model of 7 billion weights in
	// Q8_0 achieves 83 % on M1, 87 % on M2, 81 % on M4 and 80 % on M4 Pro
	// (github.com/ggml-org/llama.cpp/discussions/4167: weights × tokens/s over the bandwidth).
	streaming = 0.83
	// latency is the time from a read that misses all caches to its data, in µs. It is assumed, as in the plan of
	// mat-vecs (runtime/backend/gpu/plan.go): an idle M1 takes 0.31 (the source of cache), and busy memory takes
	// longer.
	latency = 0.6
	// cache is how many bytes a core fetches per cycle from the cache that all cores share, here 384 GB/s over 8 cores
	// of 1.278 GHz: measured on an M1 (chipsandcheese.com, "iGPU Cache Setups Compared, Including M1", as in
	// github.com/azhirnov/cpu-gpu-arch, gpu/Apple-M1.md). It is used for all of these GPUs.
	cache = 37.5
	// step is the additional time of a dispatch that waits for the previous one, in µs: measured on an M2 Pro as the
	// slope over 832 dispatches (ferrox, issue 149).
	step = 5.2
	// fetch is how many bytes a simdgroup that copies a row has in flight: 16 per lane.
	fetch = 512
	// attendFetch is the same in attention: kernels/attend.metal, two keys and two values per lane, 8 elements in F16
	// each.
	attendFetch = 32 * 2 * 2 * 16
)

// instructionsPerWeight is the cost of a mat-vec of one row per weight, by the type of the weights: the inner loop of
// the same source, compiled by clang-19 for gfx1100 of AMD as a substitute for Apple's compiler: all instructions of
// its body, without wait hints, divided by the weights that a lane takes in an iteration. They were counted once, on
// 28 November 2026; add, qkv, gateup and head cost the same.
var instructionsPerWeight = map[string]float64{
	"f32": 2.3, "f16": 3.1, "bf16": 3.4, "q8_0": 3.5, "q4_0": 2.8, "q5_0": 4.7, "q4_k": 4.4, "q5_k": 6.0, "q6_k": 5.1,
}

// instructionsPerScore is the cost of attention per product of a query with an element of a key, and of a share with an
// element of a value, with F16 keys, heads of 64 and 7 queries per key: counted like instructionsPerWeight.
const instructionsPerScore = 4.3

// instructionsPerState is the cost of the gated delta rule per element of a state: a load, two products, and their
// share of addresses and loops. It is assumed.
const instructionsPerState = 5
