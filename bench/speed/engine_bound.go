package speed

import (
	"math"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/internal/stat"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// setPromptBound sets the bound of prompts, at peaks in multiply-adds per second. Each token is multiplied by every
// weight of the layers once, the last one also by the output matrix; attention does not count.
func (r *Report) setPromptBound(e *engine.Engine, bytes, floats float64) {
	n := r.PromptTokens
	seconds := 0.0 // of one prompt at the peaks
	for _, t := range e.File().Tensors() {
		if len(t.Shape) != 2 || strings.HasPrefix(t.Name, "token_embd") && !hasTiedOutput(e) {
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

func (r *Report) summarizeSamples() {
	r.PromptTPS = sampleMedian(r.Samples, func(s Sample) float64 { return s.PromptTPS })
	r.GenerationTPS = sampleMedian(r.Samples, func(s Sample) float64 { return s.GenerationTPS })
	r.RowsTPS = sampleMedian(r.Samples, func(s Sample) float64 { return s.RowsTPS })
	r.Bandwidth = sampleMedian(r.Samples, func(s Sample) float64 { return s.Bandwidth })
	token := float64(r.TokenBytes + r.DepthBytes)
	share := func(s Sample) float64 { return s.GenerationTPS * token / (s.Bandwidth * 1e9) }
	all := sampleMedian(r.Samples, share)
	r.FitsCache = fitsCache(r.TokenBytes+r.DepthBytes, record.CacheBytes(), all)
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
		if t.Name == "token_embd.weight" && !hasTiedOutput(e) {
			n += int64(len(t.Data) / t.Shape[1])
		} else {
			n += int64(len(t.Data))
		}
	}
	return n
}

func hasTiedOutput(e *engine.Engine) bool {
	_, untied := e.File().Tensor("output.weight")
	return !untied
}

// Spread is the variation of the times of samples, as shares of their median.
type Spread struct {
	MAD   float64 // median of the distances from the median
	Range float64 // the maximum less the minimum
}

// SpreadOf returns the spread of the times of one rate over all samples; nil for fewer than two, or if it was not
// measured.
func SpreadOf(samples []Sample, rate func(Sample) float64) *Spread {
	if len(samples) < 2 || rate(samples[0]) == 0 {
		return nil
	}
	took := func(s Sample) float64 { return 1 / rate(s) }
	middle := sampleMedian(samples, took)
	low, high := math.Inf(1), 0.
	for _, s := range samples {
		low, high = min(low, took(s)), max(high, took(s))
	}
	mad := sampleMedian(samples, func(s Sample) float64 { return math.Abs(took(s) - middle) })
	return &Spread{MAD: mad / middle, Range: (high - low) / middle}
}

// tokensPerSecond returns tokens per second; 0 if nothing was measured.
func tokensPerSecond(tokens int, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(tokens) / float64(took) * 1e9
}

// sampleMedian returns the median of one figure over all samples; of an even number, the mean of the two in the middle.
func sampleMedian(samples []Sample, of func(Sample) float64) float64 {
	var x []float64
	for _, s := range samples {
		x = append(x, of(s))
	}
	return stat.Median(x)
}
