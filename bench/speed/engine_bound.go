package speed

import (
	"math"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/stat"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// boundPrompt sets the bound of prompts, at peaks in multiply-adds per second. Each token is multiplied by every weight
// of the layers once, the last one also by the output matrix; attention does not count.
func (r *Report) boundPrompt(e *engine.Engine, bytes, floats float64) {
	n := r.PromptTokens
	seconds := 0.0 // of one prompt at the peaks
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
		seconds += count / peak
	}
	r.PromptBound = float64(n) / seconds
}

func (r *Report) summarise() {
	r.PromptTPS = median(r.Samples, func(s Sample) float64 { return s.PromptTPS })
	r.GenerationTPS = median(r.Samples, func(s Sample) float64 { return s.GenerationTPS })
	r.RowsTPS = median(r.Samples, func(s Sample) float64 { return rate(r.Rows, s.RowsNS) })
	r.Bandwidth = median(r.Samples, func(s Sample) float64 { return s.Bandwidth })
	r.Noise = Noise{
		Prompt: spreadOf(r.Samples, func(s Sample) int64 { return s.PromptNS }),
		Decode: spreadOf(r.Samples, func(s Sample) int64 { return s.GenerationNS }),
		Rows:   spreadOf(r.Samples, func(s Sample) int64 { return s.RowsNS }),
	}
	token := float64(r.TokenBytes + r.DepthBytes)
	r.Bound = r.Bandwidth * 1e9 / token
	share := func(s Sample) float64 { return s.GenerationTPS * token / (s.Bandwidth * 1e9) }
	all := median(r.Samples, share)
	r.FitsCache = fitsCache(r.TokenBytes+r.DepthBytes, result.CacheBytes(), all)
	r.Share = shareOfBound(all, r.FitsCache)
	for i, s := range r.Samples {
		r.Samples[i].Share = shareOfBound(share(s), r.FitsCache)
	}
}

// tokenBytes returns the bytes of weights that decoding a token reads: all of them, but only one row of an embedding
// that is not also the output matrix.
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

// tied reports whether the embedding is also the output matrix.
func tied(e *engine.Engine) bool {
	_, untied := e.File().Tensor("output.weight")
	return !untied
}

// Noise describes the variation between samples. Parts that were not measured, or only once, are absent.
type Noise struct {
	Prompt *Spread `json:"prompt,omitempty"`
	Decode *Spread `json:"generation,omitempty"`
	Rows   *Spread `json:"rows,omitempty"`
}

// Spread is the variation of times, as shares of their median.
type Spread struct {
	MAD   float64 `json:"mad_share"`   // median of the distances from the median
	Range float64 `json:"range_share"` // the maximum less the minimum
}

// spreadOf returns the spread of one time over all samples; nil for fewer than two.
func spreadOf(samples []Sample, of func(Sample) int64) *Spread {
	if len(samples) < 2 || of(samples[0]) == 0 {
		return nil
	}
	value := func(s Sample) float64 { return float64(of(s)) }
	middle := median(samples, value)
	low, high := math.Inf(1), 0.
	for _, s := range samples {
		low, high = min(low, value(s)), max(high, value(s))
	}
	mad := median(samples, func(s Sample) float64 { return math.Abs(value(s) - middle) })
	return &Spread{MAD: mad / middle, Range: (high - low) / middle}
}

// rate returns tokens per second; 0 if nothing was measured.
func rate(tokens int, ns int64) float64 {
	if ns <= 0 {
		return 0
	}
	return float64(tokens) / float64(ns) * 1e9
}

// median returns the median of one figure over all samples; of an even number, the mean of the two in the middle.
func median(samples []Sample, of func(Sample) float64) float64 {
	var x []float64
	for _, s := range samples {
		x = append(x, of(s))
	}
	return stat.Median(x)
}
