package transformer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/files"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// ErrContext is returned for a token after the longest context of the model or after the slots of its KV cache.
var ErrContext = errors.New("context overflow")

// ErrNotFinite is returned if logits are infinite or NaN, as with damaged weights.
var ErrNotFinite = errors.New("logits are not finite: are the weights damaged?")

// MaxRows is the maximum number of rows that go through the layers together; [Model.Forward] splits longer batches.
// Models wider than any known one use fewer, so that a small file cannot cause a large allocation.
const MaxRows = 512

// maxActivations is the maximum number of elements of one tensor of activations: 64 MB.
const maxActivations = 1 << 24

// Model is a model of the family on a device. It runs one forward pass at a time.
type Model struct {
	uses files.Lease // of weights and device

	config Config
	device backend.Device
	w      weights
	rows   int  // maximum rows of a pass
	mixes  bool // passes may have rows of several KV stores

	x, a    backend.Tensor // [T, D] residual stream; [T, H·Dh] attention
	q, k, v backend.Tensor // [T, H·Dh], or with gates [T, 2·H·Dh]; [T, Hkv·Dh] twice
	o       backend.Tensor // [T, value width] of recurrent layers
	m       backend.Tensor // [T, F] inside the feed-forward block
}

// Load reads the configuration of f and loads its weights on d, which may alias them: f must stay open as long as the
// model is used. Errors name the metadata key or the tensor.
func Load(f *gguf.File, d backend.Device) (*Model, error) {
	c, err := ReadConfig(f)
	if err != nil {
		return nil, err
	}
	m := &Model{config: c, device: d}
	_, m.mixes = d.(backend.Mixer)
	if m.w, err = loadWeights(f, d, c); err != nil {
		return nil, err
	}
	m.rows = max(1, min(MaxRows, maxActivations/max(c.FFN, c.Dim, c.queryWidth(), c.Delta.Channels())))
	for _, l := range m.w.layers {
		if l.delta != nil {
			m.rows = min(m.rows, l.delta.MaxRows())
		}
	}
	for _, t := range []struct {
		to   *backend.Tensor
		cols int
	}{
		{&m.x, c.Dim}, {&m.a, c.Heads * c.HeadSize}, {&m.q, c.queryWidth()},
		{&m.k, c.KVHeads * c.HeadSize}, {&m.v, c.KVHeads * c.HeadSize}, {&m.o, c.Delta.ValueWidth()}, {&m.m, c.FFN},
	} {
		if t.cols == 0 {
			continue
		}
		if *t.to, err = d.NewTensor(m.rows, t.cols); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Close waits for the running pass. Later passes return [gguf.ErrClosed]. It does not close the device and the file.
func (m *Model) Close() { m.uses.Close() }

// Config returns the shape of the model.
func (m *Model) Config() Config { return m.config }

// NewKV makes a KV store for this model: slots rows of type F16 or F32 in each layer.
func (m *Model) NewKV(slots int, t gguf.Type) (backend.KV, error) {
	if !m.uses.Take() {
		return nil, gguf.ErrClosed
	}
	defer m.uses.Give()
	return m.device.NewKV(m.KVConfig(slots, t))
}

// KVConfig returns the shape of such a KV store.
func (m *Model) KVConfig(slots int, t gguf.Type) backend.KVConfig {
	c := m.config
	return backend.KVConfig{
		Layers: c.Layers - c.Delta.Layers, Slots: slots, Heads: c.Heads, KVHeads: c.KVHeads, HeadSize: c.HeadSize,
		Rotated: c.Rotated, Gated: c.Arch.Recurrent, RopeBase: c.RopeBase, Type: t, Delta: c.Delta,
	}
}

// Forward evaluates rows in order, stores their keys and values in kv, and sets out[i] for row want.Rows[i]. A row may
// attend to rows before it in the batch; rows within the same [MaxRows] may attend to each other. After an error the
// slots of the rows are undefined. Everything is checked before any work: a position or slot out of range is
// [ErrContext].
func (m *Model) Forward(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	if !m.uses.Take() {
		return gguf.ErrClosed
	}
	defer m.uses.Give()
	if err := m.checkBatch(kv, rows, out, want); err != nil {
		return err
	}
	want.Draw = backend.Draw{} // only flights draw
	for first := 0; first < len(rows); first += m.rows {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		piece := rows[first:min(first+m.rows, len(rows))]
		n := 0 // wanted rows of this piece
		part := want
		part.Rows = nil
		for n < len(want.Rows) && want.Rows[n] < first+len(piece) {
			part.Rows = append(part.Rows, want.Rows[n]-first)
			n++
		}
		if len(want.Each) > 0 {
			part.Each, want.Each = want.Each[:n], want.Each[n:]
		}
		err := m.replayStates(ctx, kv, piece)
		if err == nil {
			err = m.runPass(ctx, kv, piece, out[:n], part)
		}
		m.trimStates(kv, piece) // a checkpoint can have 19 MB and more
		if err != nil {
			return err
		}
		out, want.Rows = out[n:], want.Rows[n:]
	}
	return nil
}

// Mixes reports whether rows of several KV stores may go through one forward call: [backend.Row].KV.
func (m *Model) Mixes() bool { return m.mixes }

// runPass repeats a pass in which the device has failed, once.
func (m *Model) runPass(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	err := m.runPassOnce(ctx, kv, rows, out, want)
	if errors.Is(err, backend.ErrFault) {
		err = m.runPassOnce(ctx, kv, rows, out, want)
	}
	return err
}

func (m *Model) runPassOnce(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	p := backend.Watched(ctx, m.device.Begin(kv, rows), len(rows))
	m.encodePass(ctx, p, out, want)
	if err := p.End(ctx); err != nil {
		return err
	}
	backend.TellRun(ctx, p, len(rows))
	return checkFinite(rows, out, want)
}

// encodePass issues the operations of a pass. Shapes: T rows, width D, H query and Hkv key-value heads of size Dh, F
// inside. When ctx ends it stops before the next layer, and End reports the cause. If an operation panics, the pass
// ends without running: a server recovers, and a GPU's pass has a thread and an encoder.
func (m *Model) encodePass(ctx context.Context, p backend.Pass, out []backend.Output, want backend.Want) {
	whole := false
	defer func() {
		if !whole {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_ = p.End(ended) // the panic says more
		}
	}()
	m.encodeOperations(ctx, p, out, want)
	whole = true
}

func (m *Model) encodeOperations(ctx context.Context, p backend.Pass, out []backend.Output, want backend.Want) {
	x, q, k, v, a, ff := m.x, m.q, m.k, m.v, m.a, m.m
	p.Embed(x, m.w.embedding) // x = E[token]                                    [T, D]
	recurrent := 0
	for i := range m.w.layers {
		if ctx.Err() != nil {
			return
		}
		l := &m.w.layers[i]
		if l.delta != nil {
			p.Delta(m.o, x, l.attnNorm, l.delta, recurrent) // o: the gated delta rule    [T, Hv·Dv]
			p.ProjectAdd(x, l.wo, m.o)
			recurrent++
		} else {
			// h = x/rms(x) ⊙ g; q = Wq h + bq, and so k and v                   [T, H·Dh], [T, Hkv·Dh]
			p.NormProject(q, k, v, x, l.attnNorm, l.wq, l.wk, l.wv)
			// Qwen3: each head of q and k: q = q/rms(q) ⊙ gq, k = k/rms(k) ⊙ gk
			// rotate (i, i+R/2) by pos·base^(-2i/R); a = softmax(q Kᵀ/√Dh) V
			p.Attend(a, q, k, v, l.qNorm, l.kNorm, i-recurrent)
			p.ProjectAdd(x, l.wo, a) // x = x + Wo a                             [T, D]
		}
		p.NormGateUp(ff, x, l.ffnNorm, l.wGate, l.wUp) // m = silu(Wg h) ⊙ Wu h  [T, F]
		p.ProjectAdd(x, l.wDown, ff)                   // x = x + Wd m           [T, D]
	}
	p.Head(out, x, m.w.norm, m.w.output, want) // logits = W (x/rms(x) ⊙ g), only for the wanted rows [V]
}

// checkFinite returns an error if a logit is not finite.
func checkFinite(rows []backend.Row, out []backend.Output, want backend.Want) error {
	for i, o := range out {
		if lse := float64(o.LogSumExp); math.IsNaN(lse) || math.IsInf(lse, 0) {
			return fmt.Errorf("position %d: %w", rows[want.Rows[i]].Pos, ErrNotFinite)
		}
	}
	return nil
}

func (m *Model) checkBatch(kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want) error {
	whole := int32(kv.Config().Slots)
	for i, r := range rows {
		slots := whole
		if r.KV != nil {
			if !m.mixes {
				return fmt.Errorf("row %d: %s takes no rows of several KV stores", i, m.device.Name())
			}
			slots = int32(r.KV.Config().Slots)
		}
		switch {
		case r.Token < 0 || int(r.Token) >= m.config.Vocab:
			return fmt.Errorf("row %d: token %d is not in the vocabulary of %d", i, r.Token, m.config.Vocab)
		case r.Pos < 0 || int(r.Pos) >= m.config.Context:
			return fmt.Errorf("row %d: position %d lies beyond the model's context of %d tokens: %w",
				i, r.Pos, m.config.Context, ErrContext)
		case r.Slot < 0 || r.Slot >= slots:
			return fmt.Errorf("row %d: slot %d does not exist, the KV cache has %d: %w", i, r.Slot, slots, ErrContext)
		}
		if err := checkVisibleSlots(r, slots); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		if m.config.Recurrent != nil && backend.CountVisible(r.See) != int(r.Pos)+1 {
			return fmt.Errorf("row %d at position %d: it sees %d tokens, and recurrent layers take the whole text", i,
				r.Pos, backend.CountVisible(r.See))
		}
	}
	if len(out) != len(want.Rows) {
		return fmt.Errorf("%d outputs for %d wanted rows", len(out), len(want.Rows))
	}
	if n := len(want.Each); n > 0 && n != len(want.Rows) {
		return fmt.Errorf("it is said of %d rows what is wanted, but %d are", n, len(want.Rows))
	}
	for i := range want.Rows {
		if k := want.Of(i).K; k < 1 {
			return fmt.Errorf("%d best tokens wanted, at least 1 is possible", k)
		}
	}
	last := -1
	for _, r := range want.Rows {
		if r <= last || r >= len(rows) {
			return fmt.Errorf("wanted row %d after %d of %d rows: they must rise", r, last, len(rows))
		}
		last = r
	}
	return nil
}

// checkVisibleSlots checks that the spans lie in the cache and that the row sees itself last.
func checkVisibleSlots(r backend.Row, slots int32) error {
	if len(r.See) == 0 || r.See[len(r.See)-1].To != r.Slot+1 {
		return fmt.Errorf("it has to see its own slot %d, last of all", r.Slot)
	}
	for _, s := range r.See {
		if s.From < 0 || s.From >= s.To || s.To > slots {
			return fmt.Errorf("visible slots [%d, %d) of %d", s.From, s.To, slots)
		}
	}
	return nil
}
