package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen2"
)

// EngineOptions say what [Engine] measures.
type EngineOptions struct {
	Model    string         // a GGUF file
	Engine   engine.Options // its Context grows to hold the longest run
	Prompt   int            // tokens of a prompt; 0 leaves prompts out
	Decode   int            // tokens generated; 0 leaves generation out. One of the two must be positive
	Depth    int            // tokens of context before those generated; less than 8 means 8
	Scaling  bool           // measure with 1, 2, … threads too
	Repeat   int            // samples of each; at least 1
	OnSample func(done int) // told after each sample, if given
}

// EngineSample is one run, and the bandwidth measured right after it. Rates are tokens per second, 0 where that part was
// left out.
type EngineSample struct {
	PromptTPS     float64  `json:"prompt_tps"`
	GenerationTPS float64  `json:"generation_tps"`
	Bandwidth     float64  `json:"bandwidth_gbs"`
	Share         *float64 `json:"bandwidth_share,omitempty"` // as in [EngineReport]
}

// EngineReport is what [Engine] found. Its JSON is a contract.
type EngineReport struct {
	PromptTPS     float64        `json:"prompt_tps"`     // median of the samples
	GenerationTPS float64        `json:"generation_tps"` // median of the samples
	PromptTokens  int            `json:"prompt_tokens"`
	DecodedTokens int            `json:"generated_tokens"`
	Samples       []EngineSample `json:"samples"`
	LoadMS        float64        `json:"load_ms"`                  // until model and tokenizer are ready: from before the file is opened. Weights are mapped, not read
	FirstTokenMS  float64        `json:"first_token_ms"`           // from before opening until the first token after a prompt of 8
	PeakRSS       int64          `json:"peak_rss_bytes,omitempty"` // of the process, mapped pages of the file included; 0 if the system does not tell
	FileBytes     int64          `json:"file_bytes"`
	HugeBytes     int64          `json:"huge_bytes"`                // of the file, in huge pages when the samples began
	WeightsStay   string         `json:"weights_stay,omitempty"`    // why some weights did not move into huge pages
	MoveMS        float64        `json:"move_ms,omitempty"`         // from the first token until all had
	KVBytes       int64          `json:"kv_bytes"`                  // keys and values of a full context
	TokenBytes    int64          `json:"bytes_per_token"`           // weights that a decoded token reads
	DepthBytes    int64          `json:"depth_bytes,omitempty"`     // keys and values that one reads in the middle of the generation
	Bandwidth     float64        `json:"bandwidth_gbs"`             // 1e9 bytes per second: streaming read with as many threads; median of the samples
	ByThreads     []float64      `json:"bandwidth_by_threads_gbs"`  // the same with 1, 2, … threads, once at the end
	Bound         float64        `json:"generation_bound_tps"`      // bandwidth over the bytes of a token, weights, keys and values
	Share         *float64       `json:"bandwidth_share,omitempty"` // generation_tps over the bound of the same sample, at most 1; median. Absent where nothing was generated, and above 1 with fits_cache
	FitsCache     bool           `json:"fits_cache,omitempty"`      // the bytes of a token stay in the CPU's cache: the bandwidth of memory is no bound
	PromptMACs    float64        `json:"prompt_gmacs,omitempty"`    // 1e9 multiply-adds per second with weights, in prompts
	PeakBytes     float64        `json:"peak_int8_gmacs,omitempty"` // the same of the instruction that multiplies bytes, from registers
	PeakFloats    float64        `json:"peak_float32_gmacs,omitempty"`
	PromptBound   float64        `json:"prompt_bound_tps,omitempty"` // by those peaks
	Device        string         `json:"device"`
	Threads       int            `json:"threads"`
	Dispatches    int            `json:"dispatches_per_token,omitempty"` // of a GPU, for the last token
	Levels        int            `json:"levels_per_token,omitempty"`     // of dispatches that wait for those before
	Scaling       []Scale        `json:"scaling,omitempty"`
}

// Scale is what so many threads reach.
type Scale struct {
	Threads       int      `json:"threads"`
	PromptTPS     float64  `json:"prompt_tps"`
	GenerationTPS float64  `json:"generation_tps"`
	Bandwidth     float64  `json:"bandwidth_gbs"`
	Share         *float64 `json:"bandwidth_share,omitempty"` // as in [EngineReport]
	FitsCache     bool     `json:"fits_cache,omitempty"`      // alike
}

// firstPrompt is the length of the prompt of the first token.
const firstPrompt = 8

// Engine measures prompts, generation, loading and memory of a model, and the bandwidth and the multiplications that bound them, in one run.
func Engine(ctx context.Context, o EngineOptions) (EngineReport, error) {
	if err := o.check(); err != nil {
		return EngineReport{}, err
	}
	r, err := measureEngine(ctx, o)
	if err != nil || !o.Scaling || r.Threads < 1 {
		return r, err
	}
	for threads := 1; threads < r.Threads; threads++ {
		fewer := o
		fewer.Engine.Threads, fewer.OnSample = threads, nil
		part, err := measureEngine(ctx, fewer)
		if err != nil {
			return r, err
		}
		r.Scaling = append(r.Scaling, part.scale())
	}
	r.Scaling = append(r.Scaling, r.scale())
	return r, nil
}

// check refuses what cannot be measured.
func (o EngineOptions) check() error {
	switch {
	case o.Prompt < 0 || o.Decode < 0 || o.Depth < 0:
		return fmt.Errorf("bench: prompt %d, decode %d and depth %d must not be negative", o.Prompt, o.Decode, o.Depth)
	case o.Prompt == 0 && o.Decode == 0:
		return errors.New("bench: prompt and decode are both 0: there is nothing to measure")
	case o.Repeat < 1:
		return fmt.Errorf("bench: repeat %d must be at least 1", o.Repeat)
	}
	return nil
}

// ContextLimit is the longest text that a model holds, in tokens.
func ContextLimit(path string) (int, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	c, err := qwen2.ReadConfig(f)
	if err != nil {
		return 0, fmt.Errorf("load %s: %w", path, err)
	}
	return c.Context, nil
}

// need is the context that the longest run takes, in tokens.
func (o EngineOptions) need() int { return max(o.Prompt+1, o.depth()+o.Decode+1) }

// scale is the line of r among those of other numbers of threads.
func (r *EngineReport) scale() Scale {
	return Scale{
		Threads: r.Threads, PromptTPS: r.PromptTPS, GenerationTPS: r.GenerationTPS, Bandwidth: r.Bandwidth, Share: r.Share, FitsCache: r.FitsCache,
	}
}

// measureEngine is [Engine] with one number of threads.
func measureEngine(ctx context.Context, o EngineOptions) (r EngineReport, err error) {
	o.Engine.Context = max(o.Engine.Context, o.need())
	begin := time.Now()
	e, err := engine.Open(o.Model, o.Engine)
	if err != nil {
		return EngineReport{}, err
	}
	defer e.Close()
	if _, err := e.Tokenizer(); err != nil {
		return EngineReport{}, err
	}
	r = EngineReport{
		LoadMS: milliseconds(time.Since(begin)), FileBytes: e.File().Size(), Device: e.Device(), Threads: e.Threads(),
		PromptTokens: o.Prompt, DecodedTokens: o.Decode,
	}
	m := measurement{o: o, e: e, r: rand.New(rand.NewPCG(0, 0)), free: func() error { return nil }}
	if _, err := m.generate(ctx, firstPrompt, 1); err != nil {
		return r, err
	}
	r.FirstTokenMS = milliseconds(time.Since(begin))
	r.TokenBytes = tokenBytes(e)
	if err := r.awaitWeights(ctx, e); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, m.free()) }()
	if err := m.samples(ctx, &r); err != nil {
		return r, err
	}
	if encoded, ok := e.LastEncoded(); ok {
		r.Dispatches, r.Levels = encoded.Dispatches, encoded.Levels
	}
	for threads := 1; threads < r.Threads; threads++ {
		r.ByThreads = append(r.ByThreads, cpu.ReadBandwidth(threads, m.memory...)/1e9)
	}
	r.summarise()
	r.ByThreads = append(r.ByThreads, r.Bandwidth)
	if r.Dispatches == 0 && o.Prompt > 0 {
		r.boundPrompt(e, o.Prompt)
	}
	return r, nil
}

// awaitWeights waits until the weights are where they stay.
func (r *EngineReport) awaitWeights(ctx context.Context, e *engine.Engine) error {
	begin := time.Now()
	w, err := e.Weights(ctx)
	if err != nil {
		return err
	}
	if r.HugeBytes = w.Huge; w.Stay != nil {
		r.WeightsStay = w.Stay.Error()
	} else {
		r.MoveMS = milliseconds(time.Since(begin))
	}
	return nil
}

// depth is how many tokens are in the context before the first one that is generated.
func (o EngineOptions) depth() int { return max(firstPrompt, o.Depth) }

// samples fills the samples of r and what comes with them, and leaves the memory that the bandwidth was measured with.
func (m *measurement) samples(ctx context.Context, r *EngineReport) error {
	for i := range m.o.Repeat {
		s, err := m.sample(ctx)
		if err != nil {
			return err
		}
		if m.memory == nil {
			r.PeakRSS = peakRSS() // the memory that follows must not count
			r.KVBytes = m.kvBytes
			if m.o.Depth > 0 {
				r.DepthBytes = m.kvBytes / int64(m.e.Context()) * int64(m.o.Depth+m.o.Decode/2)
			}
			m.memory, m.free = sameMemory(m.e, r.HugeBytes > 0)
		}
		s.Bandwidth = cpu.ReadBandwidth(r.Threads, m.memory...) / 1e9
		r.Samples = append(r.Samples, s)
		if m.o.OnSample != nil {
			m.o.OnSample(i + 1)
		}
	}
	return nil
}

// boundPrompt sets the multiply-adds per second of prompts of n tokens and their bound. Each token meets every weight of the layers once,
// the last one also the output matrix; attention does not count.
func (r *EngineReport) boundPrompt(e *engine.Engine, n int) {
	bytes, floats := cpu.Peak(r.Threads)
	macs, seconds := 0.0, 0.0 // of one prompt; at the peaks
	for _, t := range e.File().Tensors() {
		if len(t.Shape) != 2 || strings.HasPrefix(t.Name, "token_embd") && !tied(e) {
			continue
		}
		count := float64(t.Shape[0]) * float64(t.Shape[1])
		if strings.HasPrefix(t.Name, "blk.") {
			count *= float64(n)
		}
		peak := floats
		if (cpu.Matrix{Type: t.Type}).Quantised() {
			peak = bytes
		}
		macs += count
		seconds += count / peak
	}
	r.PeakBytes, r.PeakFloats = bytes/1e9, floats/1e9
	r.PromptMACs = macs * r.PromptTPS / float64(n) / 1e9
	r.PromptBound = float64(n) / seconds
}

// summarise sets the medians, and says whether the bound means anything.
func (r *EngineReport) summarise() {
	r.PromptTPS = median(r.Samples, func(s EngineSample) float64 { return s.PromptTPS })
	r.GenerationTPS = median(r.Samples, func(s EngineSample) float64 { return s.GenerationTPS })
	r.Bandwidth = median(r.Samples, func(s EngineSample) float64 { return s.Bandwidth })
	token := float64(r.TokenBytes + r.DepthBytes)
	r.Bound = r.Bandwidth * 1e9 / token
	share := func(s EngineSample) float64 { return s.GenerationTPS * token / (s.Bandwidth * 1e9) }
	all := median(r.Samples, share)
	r.FitsCache = fitsCache(r.TokenBytes+r.DepthBytes, cacheBytes(), all)
	r.Share = shareOfBound(all, r.FitsCache)
	for i, s := range r.Samples {
		r.Samples[i].Share = shareOfBound(share(s), r.FitsCache)
	}
}

// tokenBytes is what decoding a token reads of the weights: all of them, but of an embedding that is not the output matrix too
// only one row.
func tokenBytes(e *engine.Engine) int64 {
	n := int64(0)
	for _, t := range e.File().Tensors() {
		if t.Name == "token_embd.weight" && !tied(e) {
			n += int64(len(t.Data) / t.Shape[1])
		} else {
			n += int64(len(t.Data))
		}
	}
	return n
}

// tied reports whether the embedding is the output matrix too.
func tied(e *engine.Engine) bool {
	_, untied := e.File().Tensor("output.weight")
	return !untied
}

// measurement runs prompts through an engine.
type measurement struct {
	o       EngineOptions
	e       *engine.Engine
	r       *rand.Rand
	kvBytes int64
	memory  [][]byte     // that the bandwidth is measured with
	free    func() error // gives it back
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
		sum, err := m.generate(ctx, m.o.depth(), m.o.Decode+1) // the first token is the prompt's
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
	for _, err := range s.Generate(ctx, ids, engine.Request{MaxTokens: tokens, IgnoreEnd: true, Lookup: -1}) {
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
