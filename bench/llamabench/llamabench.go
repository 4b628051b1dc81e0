// Package llamabench writes measurements of an engine in the format of llama-bench, the benchmark program of llama.cpp
// (tools/llama-bench), so that the results of both fit into one table. A [Test] is one of its lines: a prompt or a
// generation. Columns for features that only llama.cpp has get their values for unused
// features.
package llamabench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
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

// columns are the columns of llama-bench, in its order, its samples, and a description of the run.
type columns struct {
	BuildCommit   string    `json:"build_commit"`
	BuildNumber   int       `json:"build_number"`
	CPU           string    `json:"cpu_info"`
	GPU           string    `json:"gpu_info"`
	Backends      string    `json:"backends"`
	ModelFilename string    `json:"model_filename"`
	ModelType     string    `json:"model_type"`
	ModelSize     int64     `json:"model_size"`
	ModelParams   int64     `json:"model_n_params"`
	Batch         int       `json:"n_batch"`
	MicroBatch    int       `json:"n_ubatch"`
	Threads       int       `json:"n_threads"`
	CPUMask       string    `json:"cpu_mask"`
	CPUStrict     bool      `json:"cpu_strict"`
	Poll          int       `json:"poll"`
	TypeK         string    `json:"type_k"`
	TypeV         string    `json:"type_v"`
	GPULayers     int       `json:"n_gpu_layers"` // -1: all
	CPUExperts    int       `json:"n_cpu_moe"`
	SplitMode     string    `json:"split_mode"`
	MainGPU       int       `json:"main_gpu"`
	NoKVOffload   bool      `json:"no_kv_offload"`
	FlashAttn     int       `json:"flash_attn"`
	Devices       string    `json:"devices"`
	TensorSplit   string    `json:"tensor_split"`
	Overrides     string    `json:"tensor_buft_overrides"`
	LoadMode      string    `json:"load_mode"`
	Embeddings    bool      `json:"embeddings"`
	NoOpOffload   int       `json:"no_op_offload"`
	NoHost        bool      `json:"no_host"`
	FitTarget     int       `json:"fit_target"`
	FitMinContext int       `json:"fit_min_ctx"`
	Prompt        int       `json:"n_prompt"`
	Decode        int       `json:"n_gen"`
	Depth         int       `json:"n_depth"`
	Time          time.Time `json:"test_time"`
	MeanNS        float64   `json:"avg_ns"`
	DeviationNS   float64   `json:"stddev_ns"`
	MeanTPS       float64   `json:"avg_ts"`
	DeviationTPS  float64   `json:"stddev_ts"`
	SamplesNS     []int64   `json:"samples_ns"`
	SamplesTPS    []float64 `json:"samples_ts"`
	Run           any       `json:"run,omitempty"`
}

// columns returns the columns of a test.
func (t Test) columns() columns {
	c := columns{
		BuildCommit: t.Version, CPU: t.CPU, GPU: t.GPU, Backends: t.Backend, ModelFilename: t.File,
		ModelType: t.model(), ModelSize: t.Bytes, ModelParams: t.Params, Batch: t.Batch, MicroBatch: t.Batch, Threads: t.Threads,
		CPUMask: "0x0", TypeK: t.KV, TypeV: t.KV, SplitMode: "none", FlashAttn: -1, Devices: "auto",
		TensorSplit: "0.00", Overrides: "none", LoadMode: "mmap", Prompt: t.Prompt, Decode: t.Decode, Depth: t.Depth,
		Time: t.Began.UTC().Truncate(time.Second), SamplesNS: t.SamplesNS,
	}
	if t.GPU != "" {
		c.GPULayers = -1
	}
	var all []float64
	for _, ns := range t.SamplesNS {
		all = append(all, float64(ns))
		c.SamplesTPS = append(c.SamplesTPS, float64(t.Prompt+t.Decode)*1e9/float64(ns))
	}
	mean, deviation := stat.MeanDeviation(all)
	c.MeanNS, c.DeviationNS = math.Floor(mean), math.Floor(deviation)
	c.MeanTPS, c.DeviationTPS = stat.MeanDeviation(c.SamplesTPS)
	return c
}

// model describes the model, such as "qwen2 494.03M Q8_0".
func (t Test) model() string {
	params := fmt.Sprintf("%.2fM", float64(t.Params)/1e6)
	if t.Params >= 1e9 {
		params = fmt.Sprintf("%.2fB", float64(t.Params)/1e9)
	}
	return fmt.Sprintf("%s %s %s", t.Arch, params, t.Type)
}

// Write writes a line of JSON for each test, as llama-bench does with -o jsonl. run, if not nil, is an additional field
// of each line.
func Write(w io.Writer, tests []Test, run any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, t := range tests {
		c := t.columns()
		c.Run = run
		if err := e.Encode(c); err != nil {
			return err
		}
	}
	return nil
}
