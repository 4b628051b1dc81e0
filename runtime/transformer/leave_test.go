package transformer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// counting is a device that counts the operations of its passes, and ends a context during a pass.
type counting struct {
	backend.Device
	layers, heads int
	onLayer       func(layer int)
	ended         []error // of the contexts with which passes were ended
}

type countingPass struct {
	backend.Pass
	d *counting
}

func (d *counting) Begin(kv backend.KV, rows []backend.Row) backend.Pass {
	return countingPass{d.Device.Begin(kv, rows), d}
}

func (p countingPass) Attend(a, q, k, v backend.Tensor, gq, gk backend.Norm, layer int) {
	p.d.layers++
	p.d.onLayer(layer)
	p.Pass.Attend(a, q, k, v, gq, gk, layer)
}

func (p countingPass) End(ctx context.Context) error {
	p.d.ended = append(p.d.ended, ctx.Err())
	return p.Pass.End(ctx)
}

func (p countingPass) Head(
	out []backend.Output, x backend.Tensor, g backend.Norm, w backend.Weight, want backend.Want,
) {
	p.d.heads++
	p.Pass.Head(out, x, g, w, want)
}

// TestForwardIsLeft: when its context ends, a forward pass computes no further layer, and returns the cause. A pass
// with an operation that panics is ended, too, with a context that has ended: a device that runs later must not run it.
func TestForwardIsLeft(t *testing.T) {
	h, err := host.New(host.Options{Threads: 2})
	require.NoError(t, err)
	defer h.Close()
	d := &counting{Device: h}
	m, err := transformer.Load(file(t, "q8_0", nil), d)
	require.NoError(t, err)
	c, err := m.NewCache(10, gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend([]int32{1, 2, 3})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	bored := errors.New("bored")
	d.onLayer = func(int) { cancel(bored) }
	want := backend.Want{Rows: []int{2}, K: 1}
	require.ErrorIs(t, m.Forward(ctx, c.KV(), rows, make([]backend.Output, 1), want), bored)
	assert.Equal(t, 1, d.layers)
	assert.Zero(t, d.heads)
	d.onLayer, d.ended = func(int) { panic("an operation") }, nil
	assert.PanicsWithValue(t, "an operation", func() {
		_ = m.Forward(t.Context(), c.KV(), rows, make([]backend.Output, 1), want)
	})
	assert.Equal(t, []error{context.Canceled}, d.ended)
	d.onLayer, d.ended = func(int) {}, nil
	require.NoError(t, m.Forward(t.Context(), c.KV(), rows, make([]backend.Output, 1), want), "the device still works")
	assert.Equal(t, []error{nil}, d.ended)
	m.Close() // no pass is left
}
