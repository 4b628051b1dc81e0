// Package metalplan predicts the speed of a token on GPUs that are not at hand: what is dispatched is taken from a pass
// that is encoded for a device which runs nothing, and time from a small model of a GPU. All its figures are
// predictions; the constants and their sources are in gpus.go.
//
// # Model
//
// A dispatch takes step + caches + max(memory, arithmetic). Caches give what each threadgroup fetches for itself before
// it begins with weights or keys: activations, with all their splits where attention is joined. Memory is its bytes
// over the smaller of what the GPU streams and what is in flight per latency; arithmetic is the instructions of the
// threadgroups that the busiest core gets, over what that core begins in a second. Dispatches of one level run one
// after the other here, which is too slow for the few levels that have several.
package metalplan

import (
	"context"
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen2"
)

// Plan is what a token costs.
type Plan struct {
	GPU        GPU     `json:"gpu"`
	Context    int     `json:"context"`    // tokens that it sees, itself among them
	Dispatches []Work  `json:"dispatches"` // equal ones together
	Bytes      int64   `json:"bytes"`
	Levels     int     `json:"levels"` // of dispatches that wait for each other
	Micros     float64 `json:"us"`
	Tokens     float64 `json:"tokens_per_s"`
}

// Work is one dispatch or several equal ones, in the order of the first. All figures are those of one.
type Work struct {
	Kernel       string  `json:"kernel"`
	Count        int     `json:"count"`
	Groups       int     `json:"threadgroups"`
	Threads      int     `json:"threads"` // of a threadgroup
	Bytes        int64   `json:"bytes"`   // of weights, or of keys and values
	Cached       int64   `json:"cached"`  // bytes that all threadgroups fetch of the same activations
	Instructions float64 `json:"instructions"`
	InFlight     int     `json:"in_flight"` // bytes per core
	Steps        int     `json:"steps"`     // fetches of a simdgroup that wait for each other
	Micros       float64 `json:"us"`
	Limit        string  `json:"limit"` // what decides the time: memory, latency, arithmetic, caches or step

	fetch int // bytes that a simdgroup has under way
}

// Predict plans the last token of a text of n tokens, of a model of a shape.
func Predict(ctx context.Context, g GPU, shape synth.Spec, n int) (Plan, error) {
	blank, err := shape.Blank()
	if err != nil {
		return Plan{}, err
	}
	f, err := gguf.Parse(blank)
	if err != nil {
		return Plan{}, err
	}
	return predict(ctx, g, f, [][]byte{blank[:cap(blank)]}, gguf.F16, n)
}

// PredictFile plans it for the model of a file, with keys and values of type kv.
func PredictFile(ctx context.Context, g GPU, f *gguf.File, kv gguf.Type, n int) (Plan, error) {
	return predict(ctx, g, f, f.Mappings(), kv, n)
}

func predict(ctx context.Context, g GPU, f *gguf.File, mapped [][]byte, kv gguf.Type, n int) (Plan, error) {
	p := Plan{GPU: g, Context: n}
	all, err := encode(ctx, f, mapped, kv, n)
	if err != nil {
		return p, err
	}
	_, kvBytes := kv.Block()
	for _, d := range all {
		w, err := workOf(d, n, kvBytes)
		if err != nil {
			return p, err
		}
		w.time(g, d.Memory)
		p.Bytes += w.Bytes
		p.Micros += w.Micros
		p.Levels = d.Level + 1
		p.add(w)
	}
	p.Tokens = 1e6 / p.Micros
	return p, nil
}

// add counts a dispatch, with equal ones if there are such.
func (p *Plan) add(w Work) {
	for i := range p.Dispatches {
		same := p.Dispatches[i]
		if same.Count = 1; same == w {
			p.Dispatches[i].Count++
			return
		}
	}
	p.Dispatches = append(p.Dispatches, w)
}

// encode returns what the last token of a text of n tokens dispatches.
func encode(
	ctx context.Context, f *gguf.File, mapped [][]byte, kv gguf.Type, n int,
) (all []record.Dispatch, err error) {
	under := record.Open()
	d, err := gpu.New(under, gpu.Options{Mapped: mapped})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	m, err := qwen2.Load(f, d)
	if err != nil {
		return nil, err
	}
	c, err := m.NewCache(n, kv)
	if err != nil {
		return nil, err
	}
	for _, rows := range []int{n - 1, 1} {
		if rows == 0 {
			continue
		}
		under.Take()
		ids, err := c.Extend(make([]int32, rows))
		if err != nil {
			return nil, err
		}
		want := backend.Want{Rows: []int{rows - 1}, K: 1}
		err = m.Forward(ctx, c.KV(), ids, make([]backend.Output, 1), want)
		if err != nil && !errors.Is(err, qwen2.ErrNotFinite) { // nothing is computed
			return nil, fmt.Errorf("encode a token: %w", err)
		}
	}
	return under.Take(), nil
}
