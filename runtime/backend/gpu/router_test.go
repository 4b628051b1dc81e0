package gpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestRouter: the confidence from the device equals that of package router for the same head, for networks of one to
// three layers, with and without features of the head. It needs no dispatch and no level, few multiplications, and is
// the same to the last bit with other rows.
func TestRouter(t *testing.T) {
	racing.Spare(t)
	f := file(t, "q8_0", nil)
	for _, v := range []soft.Variant{soft.Fast, soft.Check} {
		t.Run(string(v), func(t *testing.T) { compareRouters(t, f, v) })
	}
}

func compareRouters(t *testing.T, f *gguf.File, v soft.Variant) {
	r := rand.New(rand.NewPCG(8, 8))
	m, d := load(t, f, gpu.OpenMetal(t, soft.Options{Variant: v, Seed: 4}), gpu.Options{})
	ids := randomTokens(r, 10, 512)
	c, err := m.NewCache(10, gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend(ids)
	require.NoError(t, err)
	plain := make([]backend.Output, 10)
	want := backend.Want{Rows: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, K: 3, Hidden: true}
	require.NoError(t, m.Forward(t.Context(), c.KV(), rows, plain, want))
	before := d.LastPass()
	for _, widths := range [][]int{{1}, {300, 1}, {33, 17, 1}} {
		for _, features := range []bool{false, true} {
			if v == soft.Check && features != (len(widths) > 1) {
				continue // every access is checked in one network of each depth
			}
			layers, net := network(t, r, 256, widths, features)
			loaded, err := d.LoadRouter(layers, features)
			require.NoError(t, err)
			assert.Equal(t, 256, loaded.Dim())
			want := want
			want.Router, want.K = loaded, 1
			out := make([]backend.Output, 10)
			require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
			after := d.LastPass()
			assert.Equal(t, before.Levels, after.Levels)
			assert.Equal(t, before.Dispatches, after.Dispatches)
			for i := range out {
				assert.Len(t, out[i].Top, 1)
				assert.InDelta(t, net.Confidence(&plain[i]), out[i].Confidence, 2e-5,
					"%v %v row %d", widths, features, i)
			}
			again, err := d.LoadRouter(layers, features)
			require.NoError(t, err)
			assert.Same(t, loaded, again)
			policy, err := router.New(router.Options{Policy: router.Learned, Net: net})
			require.NoError(t, err)
			there := policy.On(d)
			assert.False(t, there.Want(backend.Want{}).Hidden, "the device does not need it")
			assert.InDelta(t, policy.Confidence(3, &plain[3]), there.Confidence(3, &out[3]), 2e-5)
			want.Rows, want.K = []int{2, 5}, 70 // best tokens are sorted on the CPU, the confidence is not
			some := make([]backend.Output, 2)
			require.NoError(t, m.Forward(t.Context(), c.KV(), rows, some, want))
			assert.Equal(t, out[2].Confidence, some[0].Confidence)
			assert.Equal(t, out[5].Confidence, some[1].Confidence)
			assert.Len(t, some[0].Top, 70)
		}
	}
}

// TestRoutersOfOtherWidths: a router must have the width of the hidden state, and layers that are a network.
func TestRoutersOfOtherWidths(t *testing.T) {
	racing.Spare(t)
	m, d := load(t, file(t, "q8_0", nil), gpu.OpenMetal(t, soft.Options{}), gpu.Options{})
	layers, _ := network(t, rand.New(rand.NewPCG(8, 8)), 100, []int{5, 1}, false)
	narrow, err := d.LoadRouter(layers, false)
	require.NoError(t, err)
	other, err := d.LoadRouter(layers, true)
	require.NoError(t, err)
	assert.Equal(t, 100, narrow.Dim())
	assert.Equal(t, 98, other.Dim(), "the same layers, with features of the head")
	c, err := m.NewCache(1, gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend([]int32{1})
	require.NoError(t, err)
	want := backend.Want{Rows: []int{0}, K: 1, Router: narrow}
	require.ErrorContains(t,
		m.Forward(t.Context(), c.KV(), rows, make([]backend.Output, 1), want), "width 100")
	for name, bad := range map[string][]backend.RouterLayer{
		"none":       nil,
		"two ends":   {{In: 3, Out: 2, Weight: make([]float32, 6), Bias: make([]float32, 2)}},
		"no weights": {{In: 3, Out: 1, Bias: make([]float32, 1)}},
		"too wide":   {{In: 1, Out: 5000, Weight: make([]float32, 5000), Bias: make([]float32, 5000)}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.LoadRouter(bad, false)
			assert.Error(t, err)
		})
	}
}

// network returns a random router for a hidden state of dim, for the device and for package router.
func network(t *testing.T, r *rand.Rand, dim int, widths []int, features bool) ([]backend.RouterLayer, *router.Net) {
	in := dim
	if features {
		in += 2
	}
	var layers []backend.RouterLayer
	var same []router.Layer
	for _, out := range widths {
		l := backend.RouterLayer{In: in, Out: out, Weight: make([]float32, in*out), Bias: make([]float32, out)}
		for i := range l.Weight {
			l.Weight[i] = float32(r.NormFloat64() / 16)
		}
		for i := range l.Bias {
			l.Bias[i] = float32(r.NormFloat64() / 4)
		}
		layers, same, in = append(layers, l), append(same, router.Layer(l)), out
	}
	net, err := router.NewNet(same, features)
	require.NoError(t, err)
	return layers, net
}
