// Package speed measures the speed of the engine, and compares it with the limits of the machine's memory and
// multiplication units.
package speed

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// Sample is one run, and the bandwidth measured right after it, or for a run without generation some time before. Rates
// are tokens per second, 0 if that part was left out.
type Sample struct {
	PromptTPS     float64  `json:"prompt_tps"`
	GenerationTPS float64  `json:"generation_tps"`
	Bandwidth     float64  `json:"bandwidth_gbs"`
	Share         *float64 `json:"bandwidth_share,omitempty"` // as in [Report]
	// of one forward pass with this number of rows, by the mean time of [rowCalls]
	RowsTPS float64 `json:"rows_tps,omitempty"`
}

// Report is the result of [Matrix.Run] for one combination. Its JSON format is stable.
type Report struct {
	PromptTPS     float64  `json:"prompt_tps"`     // median of the samples
	GenerationTPS float64  `json:"generation_tps"` // median of the samples
	PromptTokens  int      `json:"prompt_tokens"`
	DecodedTokens int      `json:"generated_tokens"`
	Samples       []Sample `json:"samples"`
	Rows          int      `json:"rows,omitempty"`     // of one forward pass, as for the heads of a draft tree
	RowsTPS       float64  `json:"rows_tps,omitempty"` // rows per second; median of the samples
	// other activity of the machine, from the first sample to the last
	Quiet result.Quiet `json:"machine_quiet"`
	// until model and tokenizer are ready: from before the file is opened. Weights are mapped, not read
	LoadMS float64 `json:"load_ms"`
	// from before opening until the first token after a prompt of 8
	FirstTokenMS float64 `json:"first_token_ms"`
	// peak of the process, including mapped pages of the file; absent if the system does not report it
	PeakRSS     int64  `json:"peak_rss_bytes,omitempty"`
	HugeBytes   int64  `json:"huge_bytes"`             // of the weights, in huge pages when the samples began
	WeightsStay string `json:"weights_stay,omitempty"` // why some weights were not moved into huge pages
	KVBytes     int64  `json:"kv_bytes"`               // of the KV cache of a full context
	TokenBytes  int64  `json:"bytes_per_token"`        // weights that are read for a decoded token
	// keys and values that are read for a token in the middle of the generation
	DepthBytes int64 `json:"depth_bytes,omitempty"`
	// 1e9 bytes per second: streaming reads with as many threads; median of the samples
	Bandwidth float64 `json:"bandwidth_gbs"`
	// generation_tps divided by the bound of the same sample, see [Report.Bound], at most 1; median. Absent if nothing
	// was generated, and if it is above 1 with fits_cache
	Share *float64 `json:"bandwidth_share,omitempty"`
	// the bytes of a token stay in the CPU's cache, so the memory bandwidth is no bound
	FitsCache bool `json:"fits_cache,omitempty"`
	// by the peak of the instructions that multiply, from registers
	PromptBound float64 `json:"prompt_bound_tps,omitempty"`
	Device      string  `json:"device"`
	Threads     int     `json:"threads"`
	// tokens of context before prompt, rows and generation; for rows and generation at least 8
	Depth int    `json:"depth_tokens"`
	KV    string `json:"kv"` // format of the KV cache: f16 or f32
}

// Bound returns the tokens per second that memory allows: its bandwidth divided by the bytes read per token, which are
// weights, keys and values.
func (r *Report) Bound() float64 { return r.Bandwidth * 1e9 / float64(r.TokenBytes+r.DepthBytes) }

// firstPrompt is the length of the prompt before the first token, and the minimum context for generation.
const firstPrompt = 8

// ContextLimit returns the maximum length of a text for a model, in tokens.
func ContextLimit(path string) (int, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	c, err := transformer.ReadConfig(f)
	if err != nil {
		return 0, fmt.Errorf("load %s: %w", path, err)
	}
	return c.Context, nil
}
