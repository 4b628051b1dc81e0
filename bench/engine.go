package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// EngineOptions say what [Engine] measures.
type EngineOptions struct {
	Model    string         // a GGUF file
	Engine   engine.Options // its Context grows to hold the longest run
	Prompt   int            // tokens of a prompt; 0 leaves prompts out
	Decode   int            // tokens generated; 0 leaves generation out
	Repeat   int            // samples of each; at least 1
	Seed     uint64         // of the random prompts
	OnSample func(done int) // told after each sample, if given
}

// EngineSample is one run, and the bandwidth measured right after it. Rates are tokens per second, 0 where that part was
// left out.
type EngineSample struct {
	PromptTPS     float64 `json:"prompt_tps"`
	GenerationTPS float64 `json:"generation_tps"`
	Bandwidth     float64 `json:"bandwidth_gbs"`
	Share         float64 `json:"bandwidth_share"`
}

// EngineReport is what [Engine] found. Its JSON is a contract.
type EngineReport struct {
	PromptTPS     float64        `json:"prompt_tps"`     // median of the samples
	GenerationTPS float64        `json:"generation_tps"` // median of the samples
	Samples       []EngineSample `json:"samples"`
	LoadMS        float64        `json:"load_ms"`                  // opening the file and its tokenizer
	FirstTokenMS  float64        `json:"first_token_ms"`           // from before opening until the first token after a prompt of 8
	PeakRSS       int64          `json:"peak_rss_bytes,omitempty"` // of the process, mapped pages of the file included; 0 if the system does not tell
	FileBytes     int64          `json:"file_bytes"`
	KVBytes       int64          `json:"kv_bytes"`        // keys and values of a full context
	TokenBytes    int64          `json:"bytes_per_token"` // weights that a decoded token reads
	Bandwidth     float64        `json:"bandwidth_gbs"`   // 1e9 bytes per second: streaming read with as many threads; median of the samples
	Bound         float64        `json:"generation_bound_tps"`
	Share         float64        `json:"bandwidth_share"` // generation_tps over the bound by the bandwidth of the same sample; median
	Device        string         `json:"device"`
	Threads       int            `json:"threads"`
	Dispatches    int            `json:"dispatches_per_token,omitempty"` // of a GPU, for the last token
	Levels        int            `json:"levels_per_token,omitempty"`     // of dispatches that wait for those before
}

// firstPrompt is the length of the prompt of the first token.
const firstPrompt = 8

// Engine measures prompts, generation, loading and memory of a model, and the bandwidth that bounds generation, in one run.
func Engine(ctx context.Context, o EngineOptions) (EngineReport, error) {
	if o.Prompt < 0 || o.Decode < 0 || o.Repeat < 1 {
		return EngineReport{}, fmt.Errorf("bench: prompt %d, decode %d and repeat %d: the first two must not be negative, the last is at least 1", o.Prompt, o.Decode, o.Repeat)
	}
	o.Engine.Context = max(o.Engine.Context, o.Prompt+1, firstPrompt+o.Decode+1)
	begin := time.Now()
	e, err := engine.Open(o.Model, o.Engine)
	if err != nil {
		return EngineReport{}, err
	}
	defer e.Close()
	if _, err := e.Tokenizer(); err != nil {
		return EngineReport{}, err
	}
	r := EngineReport{LoadMS: milliseconds(time.Since(begin)), FileBytes: e.File().Size(), Device: e.Device(), Threads: e.Threads()}
	m := measurement{o: o, e: e, r: rand.New(rand.NewPCG(o.Seed, 0))}
	if _, err := m.generate(ctx, firstPrompt, 1); err != nil {
		return r, err
	}
	r.FirstTokenMS = milliseconds(time.Since(begin))
	r.TokenBytes = tokenBytes(e)
	var memory []byte // to measure the bandwidth with
	for i := range o.Repeat {
		s, err := m.sample(ctx)
		if err != nil {
			return r, err
		}
		if memory == nil {
			r.PeakRSS = peakRSS() // the memory that follows must not count
			memory = touched()
		}
		s.Bandwidth = cpu.ReadBandwidth(r.Threads, memory) / 1e9
		s.Share = s.GenerationTPS * float64(r.TokenBytes) / (s.Bandwidth * 1e9)
		r.Samples = append(r.Samples, s)
		if o.OnSample != nil {
			o.OnSample(i + 1)
		}
	}
	if encoded, ok := e.LastEncoded(); ok {
		r.Dispatches, r.Levels = encoded.Dispatches, encoded.Levels
	}
	r.KVBytes = m.kvBytes
	r.summarise()
	return r, nil
}

// summarise sets the medians.
func (r *EngineReport) summarise() {
	r.PromptTPS = median(r.Samples, func(s EngineSample) float64 { return s.PromptTPS })
	r.GenerationTPS = median(r.Samples, func(s EngineSample) float64 { return s.GenerationTPS })
	r.Bandwidth = median(r.Samples, func(s EngineSample) float64 { return s.Bandwidth })
	r.Share = median(r.Samples, func(s EngineSample) float64 { return s.Share })
	r.Bound = r.Bandwidth * 1e9 / float64(r.TokenBytes)
}

// tokenBytes is what decoding a token reads of the weights: all of them, but of an embedding that is not the output matrix too
// only one row.
func tokenBytes(e *engine.Engine) int64 {
	_, untied := e.File().Tensor("output.weight")
	n := int64(0)
	for _, t := range e.File().Tensors() {
		if t.Name == "token_embd.weight" && untied {
			n += int64(len(t.Data) / t.Shape[1])
		} else {
			n += int64(len(t.Data))
		}
	}
	return n
}

// touched returns memory far larger than caches, of which every page was written: pages that were not may all be one page of
// zeros.
func touched() []byte {
	b := make([]byte, 256<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// measurement runs prompts through an engine.
type measurement struct {
	o       EngineOptions
	e       *engine.Engine
	r       *rand.Rand
	kvBytes int64
}

// sample runs one long prompt and, separately, one generation after a short prompt.
func (m *measurement) sample(ctx context.Context) (s EngineSample, err error) {
	if m.o.Prompt > 0 {
		sum, err := m.generate(ctx, m.o.Prompt, 1)
		if err != nil {
			return s, err
		}
		s.PromptTPS = float64(m.o.Prompt) / sum.PromptTime.Seconds()
	}
	if m.o.Decode > 0 {
		sum, err := m.generate(ctx, firstPrompt, m.o.Decode+1) // the first token is the prompt's
		if err != nil {
			return s, err
		}
		s.GenerationTPS = float64(m.o.Decode) / sum.DecodeTime.Seconds()
	}
	return s, nil
}

// generate runs a random prompt in a session of its own.
func (m *measurement) generate(ctx context.Context, prompt, tokens int) (engine.Summary, error) {
	s, err := m.e.NewSession()
	if err != nil {
		return engine.Summary{}, err
	}
	m.kvBytes = s.KVBytes()
	ids := make([]int32, prompt)
	for i := range ids {
		ids[i] = m.r.Int32N(int32(m.e.Model().Config().Vocab))
	}
	for _, err := range s.Generate(ctx, ids, engine.Request{MaxTokens: tokens, IgnoreEnd: true}) {
		if err != nil {
			return engine.Summary{}, err
		}
	}
	if sum := s.Summary(); sum.Tokens == tokens {
		return sum, nil
	}
	return engine.Summary{}, errors.New("bench: the generation ended early")
}

// median of one figure over all samples; of an even number, the mean of the two in the middle.
func median(samples []EngineSample, of func(EngineSample) float64) float64 {
	var x []float64
	for _, s := range samples {
		x = append(x, of(s))
	}
	slices.Sort(x)
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
