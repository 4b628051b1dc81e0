// Package llamabench writes measurements of an engine in the format of llama-bench, the benchmark program of llama.cpp
// (tools/llama-bench), so that the results of both fit into one table. A [Test] is one of its lines: a prompt or a
// generation. Columns for features that only llama.cpp has get their values for unused
// features.
package llamabench

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/stat"
)

// Test is one line.
type Test struct {
	Version   string    // of the program
	CPU       string    // its model name
	GPU       string    // "" if none was used
	Backend   string    // such as CPU or Metal
	File      string    // of the model
	Arch      string    // of the model, such as qwen2
	Type      string    // of most of its weights, such as Q8_0
	Bytes     int64     // of its tensors
	Params    int64     // elements of its tensors
	Batch     int       // maximum number of tokens in one forward pass
	Threads   int       //
	KV        string    // format of the KV cache: f16 or f32
	Prompt    int       // tokens of the prompt; 0 for a generation
	Decode    int       // tokens generated; 0 for a prompt
	Depth     int       // tokens of context before
	Began     time.Time // beginning of the measurement
	SamplesNS []int64   // nanoseconds of each sample, above 0
}

// rates returns the tokens per second of the samples.
func (t Test) rates() (all []float64) {
	for _, ns := range t.SamplesNS {
		all = append(all, float64(t.Prompt+t.Decode)*1e9/float64(ns))
	}
	return all
}

// model describes the model, such as "qwen2 494.03M Q8_0".
func (t Test) model() string {
	params := fmt.Sprintf("%.2fM", float64(t.Params)/1e6)
	if t.Params >= 1e9 {
		params = fmt.Sprintf("%.2fB", float64(t.Params)/1e9)
	}
	return fmt.Sprintf("%s %s %s", t.Arch, params, t.Type)
}

// kind is the format of a column in JSON.
type kind int

const (
	text    kind = iota // in quotes
	number              // unquoted
	boolean             // false or true
)

// column is a column of llama-bench with its value.
type column struct {
	name  string
	kind  kind
	value string
}

// columns returns all columns in llama-bench's order.
func (t Test) columns() []column {
	ns := make([]float64, len(t.SamplesNS))
	for i, n := range t.SamplesNS {
		ns[i] = float64(n)
	}
	meanNS, deviationNS := stat.MeanDeviation(ns)
	meanTS, deviationTS := stat.MeanDeviation(t.rates())
	whole := func(f float64) string { return strconv.FormatFloat(math.Floor(f), 'f', 0, 64) }
	layers := "0" // on a GPU
	if t.GPU != "" {
		layers = "-1" // all
	}
	return []column{
		{"build_commit", text, t.Version}, {"build_number", number, "0"},
		{"cpu_info", text, t.CPU}, {"gpu_info", text, t.GPU}, {"backends", text, t.Backend},
		{"model_filename", text, t.File}, {"model_type", text, t.model()},
		{"model_size", number, strconv.FormatInt(t.Bytes, 10)},
		{"model_n_params", number, strconv.FormatInt(t.Params, 10)},
		{"n_batch", number, strconv.Itoa(t.Batch)}, {"n_ubatch", number, strconv.Itoa(t.Batch)},
		{"n_threads", number, strconv.Itoa(t.Threads)},
		{"cpu_mask", text, "0x0"}, {"cpu_strict", boolean, "0"}, {"poll", number, "0"},
		{"type_k", text, t.KV}, {"type_v", text, t.KV},
		{"n_gpu_layers", number, layers}, {"n_cpu_moe", number, "0"}, {"split_mode", text, "none"},
		{"main_gpu", number, "0"}, {"no_kv_offload", boolean, "0"}, {"flash_attn", number, "-1"},
		{"devices", text, "auto"}, {"tensor_split", text, "0.00"}, {"tensor_buft_overrides", text, "none"},
		{"load_mode", text, "mmap"}, {"embeddings", boolean, "0"}, {"no_op_offload", number, "0"},
		{"no_host", boolean, "0"}, {"fit_target", number, "0"}, {"fit_min_ctx", number, "0"},
		{"n_prompt", number, strconv.Itoa(t.Prompt)}, {"n_gen", number, strconv.Itoa(t.Decode)},
		{"n_depth", number, strconv.Itoa(t.Depth)},
		{"test_time", text, t.Began.UTC().Format(time.RFC3339)},
		{"avg_ns", number, whole(meanNS)}, {"stddev_ns", number, whole(deviationNS)},
		{"avg_ts", number, strconv.FormatFloat(meanTS, 'f', 6, 64)},
		{"stddev_ts", number, strconv.FormatFloat(deviationTS, 'f', 6, 64)},
	}
}
