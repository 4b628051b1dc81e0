package selfcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
)

// Check is an operation of a model, beside the exact CPU.
type Check struct {
	Operation string  `json:"operation"`
	Weights   string  `json:"weights"` // their type
	Heads     string  `json:"heads"`   // queries, keys, and elements of a head
	KV        string  `json:"kv"`      // type of keys and values
	Rows      int     `json:"rows"`    // of the pass
	Off       float64 `json:"off"`     // ‖x-ref‖ / ‖ref‖ over hidden states and logits, the larger one
	Error     string  `json:"error,omitempty"`
}

// Failed reports whether the pass failed, or the GPU was further off than the rounding of sums in float32; where keys
// and values are halves, of a few of them to the next one. The norm in a recurrent layer enlarges all differences where
// its input is near zero: on the software device from 5e-7 to 3e-4.
func (c Check) Failed() bool {
	tolerance := 2e-5
	switch {
	case c.Operation == recurrentLayer:
		tolerance = 1e-3
	case c.KV == gguf.F16.String():
		tolerance = 2e-4
	}
	return c.Error != "" || !(c.Off <= tolerance)
}

// rowCounts are numbers of rows of a pass, for which there are different kernels, and within those different loops.
var rowCounts = []int{1, 2, 3, 4, 5, 8, 9, 33}

// shape is a layer of a model: the kernels of attention depend on the queries of a key and on the size of a head. Heads
// of 256 are those of a Qwen3.5, which also has recurrent layers.
type shape struct {
	heads, kvHeads, size int
	operations           []string
}

// shapes returns those that are checked with a type of weights. As attention reads no weights, one type has all of it.
func shapes(weights string) []shape {
	all := []shape{{1, 1, 256, []string{recurrentLayer}}}
	if weights != attentionWeights {
		return append(all, shape{4, 2, 64, operations})
	}
	all = append(all, shape{4, 2, 64, []string{"embedding and output", "feed-forward"}})
	for _, size := range []int{64, 128, 256} {
		for _, heads := range [][2]int{{2, 2}, {4, 2}, {4, 1}, {7, 1}, {8, 1}} {
			all = append(all, shape{heads[0], heads[1], size, []string{"attention"}})
		}
	}
	return all
}

// attentionWeights is the type of weights with which all shapes and types of keys and values are checked.
const attentionWeights = "F16"

// layer is a model of one layer on a device.
type layer struct {
	device               backend.Device
	kv                   backend.KV
	weights              map[string]backend.Weight
	norms                map[string]backend.Norm
	x, q, k, v, a, inner backend.Tensor
	delta                backend.Delta // of a recurrent layer
}

// operations are passes through parts of a layer.
var operations = []string{"embedding and output", "attention", "feed-forward"}

// queryParts returns how many parts q has: with gates two.
func (s shape) queryParts() int {
	if s.size == 256 {
		return 2
	}
	return 1
}

const recurrentLayer = "recurrent layer"

func (s shape) recurrent() bool { return s.operations[0] == recurrentLayer }

func (c *checker) compareOperations(ctx context.Context) error {
	types := c.o.Types
	if len(types) == 0 {
		types = kernels.Types()
	}
	for _, weights := range types {
		for _, s := range shapes(weights) {
			f, err := s.model(weights)
			if err != nil {
				return err
			}
			if err := c.checkShape(ctx, weights, s, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s shape) model(weights string) (*gguf.File, error) {
	recipe, err := synth.ParseRecipe(weights)
	if err != nil {
		return nil, err
	}
	spec := synth.Tiny(recipe, 7)
	if s.size == 256 {
		spec = synth.Tiny35(recipe, 7)
		if spec.Linear.Interval = 1; s.recurrent() {
			spec.Linear.Interval = 2
		}
	}
	spec.Layers, spec.Vocab = 1, 300
	spec.Heads, spec.KVHeads, spec.HeadSize, spec.Qwen3 = s.heads, s.kvHeads, s.size, s.size == 128
	var b bytes.Buffer
	if err := spec.Write(&b, nil); err != nil {
		return nil, err
	}
	return gguf.Parse(b.Bytes())
}

// checkShape runs the operations of a model of one layer.
func (c *checker) checkShape(ctx context.Context, weights string, s shape, f *gguf.File) (err error) {
	cpu, err := host.New(host.Options{Exact: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	d, made := gpu.New(c.p, gpu.Options{})
	if made == nil {
		defer func() { err = errors.Join(err, d.Close()) }()
	}
	types := []gguf.Type{gguf.F16}
	if weights == attentionWeights {
		types = append(types, gguf.F32)
	}
	for _, kv := range types {
		one := Check{Weights: weights, Heads: fmt.Sprintf("%d/%d of %d", s.heads, s.kvHeads, s.size), KV: kv.String()}
		if s.recurrent() {
			one.Heads = "states"
		}
		ref, err := loadLayer(cpu, f, s, kv)
		if err != nil {
			return err
		}
		var got *layer
		if err = made; err == nil {
			if got, err = loadLayer(d, f, s, kv); err == nil {
				_ = d.CompileKernels() // its error is with the kernels
			}
		}
		if err != nil {
			one.Operation, one.Error = "loading", err.Error()
			c.r.Checks = append(c.r.Checks, one)
			continue
		}
		if err := c.compareLayers(ctx, one, s.operations, got, ref); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) compareLayers(ctx context.Context, one Check, operations []string, got, ref *layer) error {
	for _, one.Operation = range operations {
		for _, one.Rows = range rowCounts {
			want, err := ref.run(ctx, one.Operation, one.Rows)
			if err != nil {
				return err
			}
			have, err := got.run(ctx, one.Operation, one.Rows)
			if one.Error, err = errorText(ctx, err); err != nil {
				return err
			}
			if one.Off = 0; one.Error == "" {
				one.Off = furthestOff(have, want)
			}
			c.r.Checks = append(c.r.Checks, one)
		}
	}
	return nil
}

// A layer has slots for a text before, and the rows of a pass.
const textBefore, maxSlots = 37, 37 + 33

func loadLayer(d backend.Device, f *gguf.File, s shape, kv gguf.Type) (*layer, error) {
	l := &layer{device: d, weights: map[string]backend.Weight{}, norms: map[string]backend.Norm{}}
	vectors := map[string]gguf.Tensor{}
	for _, t := range f.Tensors() {
		name, isWeight := strings.CutSuffix(strings.TrimPrefix(t.Name, "blk.0."), ".weight")
		var err error
		switch {
		case strings.HasPrefix(name, "ssm_") && (!isWeight || len(t.Shape) == 1), name == "ssm_conv1d":
			vectors[name] = t
		case !isWeight: // a bias goes with its matrix
		case len(t.Shape) == 1:
			if name == "post_attention_norm" { // the name in a Qwen3.5
				name = "ffn_norm"
			}
			l.norms[name], err = d.LoadNorm(t, 1e-6)
		default:
			var bias *gguf.Tensor
			if b, ok := f.Tensor(strings.TrimSuffix(t.Name, "weight") + "bias"); ok {
				bias = &b
			}
			l.weights[name], err = d.LoadWeight(t, bias)
		}
		if err != nil {
			return nil, err
		}
	}
	_, dim := l.weights["token_embd"].Shape()
	inner, _ := l.weights["ffn_gate"].Shape()
	width := s.heads * s.size
	if s.recurrent() {
		_, width = l.weights["ssm_out"].Shape()
	}
	for _, t := range []struct {
		to   *backend.Tensor
		cols int
	}{
		{&l.x, dim}, {&l.q, s.heads * s.size * s.queryParts()}, {&l.k, s.kvHeads * s.size}, {&l.v, s.kvHeads * s.size},
		{&l.a, width}, {&l.inner, inner},
	} {
		var err error
		if *t.to, err = d.NewTensor(maxSlots, t.cols); err != nil {
			return nil, err
		}
	}
	c := backend.KVConfig{Layers: 1, Slots: maxSlots, Heads: s.heads, KVHeads: s.kvHeads, HeadSize: s.size,
		Rotated: min(s.size, 128), Gated: s.size == 256, RopeBase: 1e6, Type: kv}
	var err error
	if s.recurrent() {
		c.Delta = deltaConfig(f)
		l.delta, err = d.LoadDelta(c.Delta, backend.DeltaWeights{
			Mixed: l.weights["attn_qkv"], Gate: l.weights["attn_gate"], Beta: l.weights["ssm_beta"],
			Alpha: l.weights["ssm_alpha"], Conv: vectors["ssm_conv1d"], A: vectors["ssm_a"],
			Step: vectors["ssm_dt.bias"], Norm: vectors["ssm_norm"],
		})
		if err != nil {
			return nil, err
		}
	}
	l.kv, err = d.NewKV(c)
	return l, err
}

// deltaConfig returns the shape of the recurrent layer of a file that [shape.model] has made.
func deltaConfig(f *gguf.File) backend.DeltaConfig {
	read := func(name string) int {
		n, _ := f.Int("qwen35.ssm." + name) // it is there
		return int(n)
	}
	c := backend.DeltaConfig{
		Layers: 1, KeyHeads: read("group_count"), ValueHeads: read("time_step_rank"), KeySize: read("state_size"),
		Kernel: read("conv_kernel"), Epsilon: 1e-6,
	}
	c.ValueSize = read("inner_size") / c.ValueHeads
	return c
}

// run runs an operation for rows that follow a text, and returns the output of the head for each of them.
func (l *layer) run(ctx context.Context, operation string, rows int) ([]backend.Output, error) {
	if operation == "attention" || operation == recurrentLayer {
		if _, err := l.pass(ctx, operation, 0, textBefore); err != nil {
			return nil, err
		}
	}
	return l.pass(ctx, operation, textBefore, rows)
}

func (l *layer) pass(ctx context.Context, operation string, from, n int) ([]backend.Output, error) {
	rows, want := make([]backend.Row, n), backend.Want{K: 4, Logits: true, Hidden: true}
	for i := range rows {
		at := int32(from + i)
		rows[i] = backend.Row{Token: (17 * at) % 300, Pos: at, Slot: at, See: []backend.Span{{From: 0, To: at + 1}}}
		want.Rows = append(want.Rows, i)
	}
	out := make([]backend.Output, n)
	p, w := l.device.Begin(l.kv, rows), l.weights
	table := w["ffn_gate"] // the embedding itself has another type where that is usual
	p.Embed(l.x, table)
	switch operation {
	case "attention":
		p.NormProject(l.q, l.k, l.v, l.x, l.norms["attn_norm"], w["attn_q"], w["attn_k"], w["attn_v"])
		p.Attend(l.a, l.q, l.k, l.v, l.norms["attn_q_norm"], l.norms["attn_k_norm"], 0)
		p.ProjectAdd(l.x, w["attn_output"], l.a)
	case recurrentLayer:
		p.Delta(l.a, l.x, l.norms["attn_norm"], l.delta, 0)
		p.ProjectAdd(l.x, w["ssm_out"], l.a)
	case "feed-forward":
		p.NormGateUp(l.inner, l.x, l.norms["attn_norm"], w["ffn_gate"], w["ffn_up"]) // a norm of its own follows
		p.NormGateUp(l.inner, l.x, l.norms["ffn_norm"], w["ffn_gate"], w["ffn_up"])
		p.ProjectAdd(l.x, w["ffn_down"], l.inner)
	}
	p.Head(out, l.x, l.norms["output_norm"], table, want)
	return out, p.End(ctx)
}

// furthestOff returns the largest relative difference of the rows' hidden states and logits.
func furthestOff(got, want []backend.Output) (worst float64) {
	for i := range want {
		for _, off := range []float64{relativeError(got[i].Hidden, want[i].Hidden),
			relativeError(got[i].Logits, want[i].Logits)} {
			if !(off <= worst) { // or it is not a number
				worst = off
			}
		}
	}
	return worst
}

// relativeError returns ‖x-ref‖ / ‖ref‖.
func relativeError(x, ref []float32) float64 {
	if len(x) != len(ref) {
		return math.Inf(1)
	}
	diff, norm := 0.0, 0.0
	for i, r := range ref {
		diff += (float64(x[i]) - float64(r)) * (float64(x[i]) - float64(r))
		norm += float64(r) * float64(r)
	}
	return math.Sqrt(diff / norm)
}
