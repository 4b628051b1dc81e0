package capacity

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen"
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
	cache, err := large.Model().NewCache(depth+passRows, gguf.F16)
	if err != nil {
		return c, err
	}
	m := passMeter{model: large.Model(), cache: cache, random: rand.New(rand.NewPCG(0, 0))}
	if err := m.fill(ctx, depth); err != nil {
		return c, err
	}
	sizes := []int{1, 2, 4, 8, 16, 32, 64, passRows}
	one, each := make([][]time.Duration, len(sizes)), make([][]time.Duration, len(sizes))
	for turn := range passSamples {
		for i, rows := range sizes {
			if err := errors.Join(m.sample(ctx, rows, 1, &one[i]), m.sample(ctx, rows, rows, &each[i])); err != nil {
				return c, err
			}
		}
		if progress != nil {
			progress(turn+1, passSamples)
		}
	}
	for i, rows := range sizes {
		p := Pass{Rows: rows, MS: median(one[i]), HeadsMS: median(each[i])}
		p.HeadsMS = max(p.HeadsMS, p.MS) // a lower time is noise
		c.Passes = append(c.Passes, p)
	}
	return c, nil
}

// passMeter times passes of a model.
type passMeter struct {
	model  *qwen.Model
	cache  *qwen.Cache
	random *rand.Rand
}

func (m *passMeter) token() int32 { return m.random.Int32N(int32(m.model.Config().Vocab)) }

func (m *passMeter) fill(ctx context.Context, depth int) error {
	ids := make([]int32, depth)
	for i := range ids {
		ids[i] = m.token()
	}
	rows, err := m.cache.Extend(ids)
	if err != nil {
		return err
	}
	want := backend.Want{Rows: []int{depth - 1}, K: 1}
	return m.model.Forward(ctx, m.cache.KV(), rows, make([]backend.Output, 1), want)
}

// sample measures one pass with n rows and the given number of heads. Each row follows the same context.
func (m *passMeter) sample(ctx context.Context, n, heads int, to *[]time.Duration) (err error) {
	slots, rows, want := make([]int32, n), make([]backend.Row, n), backend.Want{K: 1}
	for i := range rows {
		if slots[i], err = m.cache.Alloc(m.cache.Len()); err != nil {
			return err
		}
		rows[i] = m.cache.Node(m.token(), slots[i])
	}
	defer m.cache.Free(slots...)
	for i := range heads {
		want.Rows = append(want.Rows, n-heads+i)
	}
	begin := time.Now()
	err = m.model.Forward(ctx, m.cache.KV(), rows, make([]backend.Output, heads), want)
	*to = append(*to, time.Since(begin))
	return err
}

func median(all []time.Duration) float64 {
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
	return max(median(all), 0), nil
}
