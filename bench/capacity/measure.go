package capacity

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// passRows is the maximum number of rows of a measured pass: that of a step of the service, the default of package
// batch.
const passRows = 128

// passSamples is how many passes of each kind are measured, askSamples how many asks: the median counts.
const passSamples, askSamples = 5, 21

// Measure measures the costs of passes of the large model after a context of depth tokens, at least 1. It does not
// measure AskMS. Passes of all sizes are measured in turns, so that a machine that slows down affects all of them.
// progress is called after each turn, if set.
func Measure(ctx context.Context, large *engine.Engine, depth int, progress func(done, of int)) (Costs, error) {
	c := Costs{Device: large.Device(), Threads: max(large.Threads(), 1), Depth: depth}
	passes, err := speed.NewPasses(ctx, large.Model(), gguf.F16, depth, passRows)
	if err != nil {
		return c, err
	}
	sizes := []int{1, 2, 4, 8, 16, 32, 64, passRows}
	one, each := make([][]time.Duration, len(sizes)), make([][]time.Duration, len(sizes))
	for turn := range passSamples {
		for i, rows := range sizes {
			last, err := passes.Time(ctx, rows, 1, 1)
			if err != nil {
				return c, err
			}
			all, err := passes.Time(ctx, rows, rows, 1)
			if err != nil {
				return c, err
			}
			one[i], each[i] = append(one[i], last), append(each[i], all)
		}
		if progress != nil {
			progress(turn+1, passSamples)
		}
	}
	for i, rows := range sizes {
		p := Pass{Rows: rows, MS: medianMilliseconds(one[i]), HeadsMS: medianMilliseconds(each[i])}
		p.HeadsMS = max(p.HeadsMS, p.MS) // a lower time is noise
		c.Passes = append(c.Passes, p)
	}
	return c, nil
}

func medianMilliseconds(all []time.Duration) float64 {
	slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return result.Milliseconds(all[len(all)/2])
}

// MeasureAsk returns [Costs.AskMS] of a cloud over a link with a round trip, for a model of at least 2 tokens: the
// median time of an ask that was answered before, less the round trip.
func MeasureAsk(ctx context.Context, cloud draft.Cloud, rtt time.Duration) (float64, error) {
	text := []int32{0, 1}
	var all []time.Duration
	for i := range askSamples + 1 {
		begin := time.Now()
		if _, err := cloud.Ask(ctx, draft.Question{Context: text, K: 1}); err != nil {
			return 0, err
		}
		if i > 0 { // the first one has to compute the context
			all = append(all, time.Since(begin)-rtt)
		}
	}
	return max(medianMilliseconds(all), 0), nil
}
