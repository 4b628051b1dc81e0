// Package metalplan predicts the time of a token on GPUs that are not available. The dispatches come from encoding a
// pass for a device that executes nothing, and their times from a small model of a GPU. All its figures are
// predictions; the constants and their sources are in gpus.go.
//
// # Model
//
// A dispatch takes step + caches + max(memory, arithmetic). Caches is the time of the data that each threadgroup
// fetches before it begins with weights or keys: activations, with all their splits where the parts of attention are
// merged. Memory is its bytes over the smaller of the GPU's bandwidth and the bytes in flight per latency; arithmetic
// is the instructions of the threadgroups on the busiest core, over what that core starts per second. Dispatches of one
// level are modelled as sequential, which is too slow for the few levels that have several.
//
// # What a first measurement would correct
//
// In the order of their weight for small models:
//
//   - step, 8 to 43 % of a token of the 0.5B: measured on one chip, for dispatches other than these;
//   - streaming, as short reads may achieve less than the long ones that it was measured with;
//   - latency, which is assumed, and with it that trips of one simdgroup hide behind those of 15 others;
//   - instructions, which are those of another compiler, and that idle lanes cost as much as others;
//   - cache, that of M1 for all, and that lines which two loads of a simdgroup share stay near it in between;
//   - the host, which costs nothing here, as a pass is committed before the one before it has ended.
package metalplan

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// Plan is the predicted cost of a token.
type Plan struct {
	GPU        GPU     `json:"gpu"`
	Context    int     `json:"context"`    // tokens that it attends to, including itself
	Dispatches []Work  `json:"dispatches"` // equal ones combined
	Bytes      int64   `json:"bytes"`
	Levels     int     `json:"levels"` // sequential levels of dispatches
	Micros     float64 `json:"us"`
	Tokens     float64 `json:"tokens_per_s"`
}

// Work is one dispatch or several equal ones, in the order of the first. All figures are per dispatch.
type Work struct {
	Kernel       string  `json:"kernel"`
	Count        int     `json:"count"`
	Groups       int     `json:"threadgroups"`
	Threads      int     `json:"threads"` // per threadgroup
	Bytes        int64   `json:"bytes"`   // of weights, or of keys and values
	Cached       int64   `json:"cached"`  // bytes of shared activations that all threadgroups fetch
	Instructions float64 `json:"instructions"`
	InFlight     int     `json:"in_flight"` // bytes per core
	Trips        int     `json:"trips"`     // sequential fetches of a simdgroup: of the busiest one of a product
	Idle         float64 `json:"idle"`      // share of a product's lanes without work until that simdgroup is done
	Micros       float64 `json:"us"`
	Limit        string  `json:"limit"` // the limiting factor: memory, latency, arithmetic, caches or step

	fetch int // bytes that a simdgroup has in flight
}

// Predict predicts the last token of a text of n tokens, for a model with a shape.
func Predict(ctx context.Context, g GPU, shape synth.Spec, n int) (Plan, error) {
	all, err := recordToken(ctx, shape, n)
	if err != nil {
		return Plan{}, err
	}
	return predictDispatches(g, all, n)
}

// PredictFile predicts the last token of a text of n tokens, for the model of a file.
func PredictFile(ctx context.Context, g GPU, f *gguf.File, n int) (Plan, error) {
	all, err := recordDispatches(ctx, f, f.Mappings(), n)
	if err != nil {
		return Plan{}, err
	}
	return predictDispatches(g, all, n)
}

// PromptBound returns how many tokens of a long prompt a GPU can read per second at most: each of its lanes multiplies
// and adds once per cycle, and each weight once per token. The output matrix is multiplied for one token of a prompt,
// and attention is left out.
func PromptBound(g GPU, f *gguf.File) float64 {
	weights := 0
	for _, t := range f.Tensors() {
		if len(t.Shape) == 2 && strings.HasPrefix(t.Name, "blk.") {
			weights += t.Shape[0] * t.Shape[1]
		}
	}
	return lanes * float64(g.Cores) * g.GHz * 1e9 / float64(weights)
}

func predictDispatches(g GPU, all []record.Dispatch, n int) (Plan, error) {
	p := Plan{GPU: g, Context: n}
	for _, d := range all {
		w, err := workOf(d, n)
		if err != nil {
			return p, err
		}
		w.predictTime(g, d.Memory)
		p.Bytes += w.Bytes
		p.Micros += w.Micros
		p.Levels = d.Level + 1
		p.addDispatch(w)
	}
	p.Tokens = 1e6 / p.Micros
	return p, nil
}

func (p *Plan) addDispatch(w Work) {
	for i := range p.Dispatches {
		same := p.Dispatches[i]
		if same.Count = 1; same == w {
			p.Dispatches[i].Count++
			return
		}
	}
	p.Dispatches = append(p.Dispatches, w)
}

func recordToken(ctx context.Context, shape synth.Spec, n int) ([]record.Dispatch, error) {
	blank, err := shape.Blank()
	if err != nil {
		return nil, err
	}
	f, err := gguf.Parse(blank)
	if err != nil {
		return nil, err
	}
	return recordDispatches(ctx, f, [][]byte{blank[:cap(blank)]}, n)
}

func recordDispatches(ctx context.Context, f *gguf.File, mapped [][]byte, n int) ([]record.Dispatch, error) {
	under := record.Open()
	err := evaluateText(ctx, under, f, mapped, n, func() { under.Take() })
	return under.Take(), err
}

func evaluateText(
	ctx context.Context, under metal.Device, f *gguf.File, mapped [][]byte, n int, beforePass func(),
) (err error) {
	d, err := gpu.New(under, gpu.Options{Mapped: mapped})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	m, err := transformer.Load(f, d)
	if err != nil {
		return err
	}
	c, err := m.NewCache(n, gguf.F16)
	if err != nil {
		return err
	}
	for _, rows := range []int{n - 1, 1} {
		if rows == 0 {
			continue
		}
		beforePass()
		ids, err := c.Extend(make([]int32, rows))
		if err != nil {
			return err
		}
		want := backend.Want{Rows: []int{rows - 1}, K: 1}
		err = m.Forward(ctx, c.KV(), ids, make([]backend.Output, 1), want)
		if err != nil && !errors.Is(err, transformer.ErrNotFinite) { // a device that records computes nothing
			return fmt.Errorf("encode a token: %w", err)
		}
	}
	return nil
}
