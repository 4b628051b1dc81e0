package capacity

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen2"
)

// passSamples is how many passes of each size are measured: the median counts. askSamples is the same of asks.
const passSamples, askSamples = 5, 21

// Measure measures what passes of the large model cost behind a context of depth tokens, at least 1. AskMS is not
// measured. progress is called after each size, if given.
func Measure(ctx context.Context, large *engine.Engine, depth int, progress func(done, of int)) (Costs, error) {
	c := Costs{Device: large.Device(), Threads: max(large.Threads(), 1), Depth: depth}
	cache, err := large.Model().NewCache(depth+serviceRows, gguf.F16)
	if err != nil {
		return c, err
	}
	m := passMeter{model: large.Model(), cache: cache, random: rand.New(rand.NewPCG(0, 0))}
	if err := m.fill(ctx, depth); err != nil {
		return c, err
	}
	sizes := []int{1, 2, 4, 8, 16, 32, 64, serviceRows}
	if _, err := m.time(ctx, 1, 1); err != nil { // not measured: the first pass reads the weights from the disk
		return c, err
	}
	for i, rows := range sizes {
		p := Pass{Rows: rows}
		if p.MS, err = m.time(ctx, rows, 1); err != nil {
			return c, err
		}
		if p.HeadsMS = p.MS; rows > 1 {
			if p.HeadsMS, err = m.time(ctx, rows, rows); err != nil {
				return c, err
			}
		}
		p.HeadsMS = max(p.HeadsMS, p.MS) // less is noise
		if c.Passes = append(c.Passes, p); progress != nil {
			progress(i+1, len(sizes))
		}
	}
	return c, nil
}

// passMeter times passes of a model.
type passMeter struct {
	model  *qwen2.Model
	cache  *qwen2.Cache
	random *rand.Rand
}

func (m *passMeter) token() int32 { return m.random.Int32N(int32(m.model.Config().Vocab)) }

// fill evaluates a context.
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

// time is the median time of passes with so many rows and heads, in milliseconds. Each row follows the same context.
func (m *passMeter) time(ctx context.Context, n, heads int) (_ float64, err error) {
	slots, rows, want := make([]int32, n), make([]backend.Row, n), backend.Want{K: 1}
	for i := range rows {
		if slots[i], err = m.cache.Alloc(m.cache.Len()); err != nil {
			return 0, err
		}
		rows[i] = m.cache.Node(m.token(), slots[i])
	}
	defer m.cache.Free(slots...)
	for i := range heads {
		want.Rows = append(want.Rows, n-heads+i)
	}
	var all []time.Duration
	for range passSamples {
		begin := time.Now()
		if err := m.model.Forward(ctx, m.cache.KV(), rows, make([]backend.Output, heads), want); err != nil {
			return 0, err
		}
		all = append(all, time.Since(begin))
	}
	return median(all), nil
}

// median of times, in milliseconds.
func median(all []time.Duration) float64 {
	slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return result.Milliseconds(all[len(all)/2])
}

// MeasureAsk returns [Costs.AskMS] of a cloud over a link with a round trip, for a model with a vocabulary of at least 2
// tokens: the median time of an ask that was answered before, less the round trip.
func MeasureAsk(ctx context.Context, cloud draft.Cloud, rtt time.Duration) (float64, error) {
	text := []int32{0, 1}
	var all []time.Duration
	for i := range askSamples + 1 {
		begin := time.Now()
		if _, err := cloud.Ask(ctx, draft.Question{Context: text, K: 1}); err != nil {
			return 0, err
		}
		if i > 0 { // the first one has something to compute
			all = append(all, time.Since(begin)-rtt)
		}
	}
	return max(median(all), 0), nil
}
