package backend_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// width is the width of a layer in these tests: two heads, which share one KV head. The vocabulary has the same size.
const width = 32

// layer holds a device with the operands of a pass over one row.
type layer struct {
	t *testing.T
	backend.Device
	watched             bool
	x, q, k, v, a, m, y backend.Tensor
	norm                backend.Norm
	square, narrow      backend.Weight // [width, width], [width/2, width]
	kv, states          backend.KV     // states has a recurrent layer, too
	delta               backend.Delta
	out, next           []backend.Output
	token               int32 // of the row
}

// drawn requests a head with a sampled token.
var drawn = backend.Want{
	Rows: []int{0}, K: 3, Draw: backend.Draw{Sampling: terms.Sampling{Temperature: 50, Seed: 5}},
}

// devices runs f on each backend, watched and not.
func devices(t *testing.T, f func(l *layer)) {
	for name, open := range map[string]func(t *testing.T) backend.Device{
		"host":       func(t *testing.T) backend.Device { return onHost(t, host.Options{Threads: 2}) },
		"host exact": func(t *testing.T) backend.Device { return onHost(t, host.Options{Threads: 1, Exact: true}) },
		"gpu":        onGPU,
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			for _, watched := range []bool{false, true} {
				f(newLayer(t, d, watched))
			}
		})
	}
}

func onHost(t *testing.T, o host.Options) backend.Device {
	d, err := host.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func onGPU(t *testing.T) backend.Device {
	m, err := soft.Open(soft.Options{Variant: soft.Check, Seed: 1})
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	d, err := gpu.New(m, gpu.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// newLayer returns tensors, and weights of random numbers.
func newLayer(t *testing.T, d backend.Device, watched bool) *layer {
	r := rand.New(rand.NewPCG(1, 2))
	stored := func(shape ...int) gguf.Tensor {
		n := 1
		for _, s := range shape {
			n *= s
		}
		var b []byte
		for range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(r.NormFloat64())))
		}
		return gguf.Tensor{Name: "t", Type: gguf.F32, Shape: shape, Data: b}
	}
	l := &layer{
		t: t, Device: d, watched: watched, token: 3,
		out: make([]backend.Output, 1), next: make([]backend.Output, 1),
	}
	var err error
	for _, to := range []*backend.Tensor{&l.x, &l.q, &l.a, &l.m, &l.y} {
		*to, err = d.NewTensor(1, width)
		require.NoError(t, err)
	}
	for _, to := range []*backend.Tensor{&l.k, &l.v} {
		*to, err = d.NewTensor(1, width/2)
		require.NoError(t, err)
	}
	l.norm, err = d.LoadNorm(stored(width), 1e-6)
	require.NoError(t, err)
	l.square, err = d.LoadWeight(stored(width, width), nil)
	require.NoError(t, err)
	l.narrow, err = d.LoadWeight(stored(width, width/2), nil)
	require.NoError(t, err)
	c := backend.KVConfig{
		Layers: 1, Slots: 1, Heads: 2, KVHeads: 1, HeadSize: width / 2, RopeBase: 1e4, Type: gguf.F32,
	}
	l.kv, err = d.NewKV(c)
	require.NoError(t, err)
	c.Delta = backend.DeltaConfig{
		Layers: 1, KeyHeads: 2, ValueHeads: 2, KeySize: 8, ValueSize: width / 2, Kernel: 2, Epsilon: 1e-6,
	}
	l.states, err = d.NewKV(c)
	require.NoError(t, err)
	of := backend.DeltaWeights{
		Gate: l.square, Conv: stored(2, c.Delta.Channels()), A: stored(2), Step: stored(2), Norm: stored(width / 2),
	}
	of.Mixed, err = d.LoadWeight(stored(width, c.Delta.Channels()), nil)
	require.NoError(t, err)
	of.Beta, err = d.LoadWeight(stored(width, 2), nil)
	require.NoError(t, err)
	of.Alpha = of.Beta
	l.delta, err = d.LoadDelta(c.Delta, of)
	require.NoError(t, err)
	return l
}

// call calls an operation of a pass by its name in these tests.
func (l *layer) call(p backend.Pass, name string) error {
	switch name {
	case "embed":
		p.Embed(l.x, l.square)
	case "project":
		p.NormProject(l.q, l.k, l.v, l.x, l.norm, l.square, l.narrow, l.narrow)
	case "attend":
		p.Attend(l.a, l.q, l.k, l.v, nil, nil, 0)
	case "delta":
		p.Delta(l.a, l.x, l.norm, l.delta, 0)
	case "add": // output of attention, or of the recurrent layer
		p.ProjectAdd(l.x, l.square, l.a)
	case "gate":
		p.NormGateUp(l.m, l.x, l.norm, l.square, l.square)
	case "down":
		p.ProjectAdd(l.x, l.square, l.m)
	case "head":
		p.Head(l.out, l.x, l.norm, l.square, backend.Want{Rows: []int{0}, K: 3})
	case "draw":
		p.Head(l.out, l.x, l.norm, l.square, drawn)
	case "draw-all": // and returns all logits
		want := drawn
		want.Logits = true
		p.Head(l.out, l.x, l.norm, l.square, want)
	case "end":
		return p.End(l.t.Context())
	case "commit":
		p.(backend.Flight).Commit()
	case "wait":
		return p.(backend.Flight).Wait(l.t.Context())
	case "drop":
		p.(backend.Flight).Drop()
	case "next":
		row := backend.Row{Token: 1000, Pos: 1, See: []backend.Span{{From: 0, To: 1}}} // the token is ignored
		f := l.Device.(backend.Runner).BeginAfter(p.(backend.Flight), l.kv, row)
		f.Embed(l.y, l.square)
		f.Head(l.next, l.y, l.norm, l.square, drawn)
		f.Commit()
		return f.Wait(l.t.Context())
	default:
		l.t.Fatalf("there is no %s", name)
	}
	return nil
}

// run makes a pass with the named calls, and returns their errors.
func (l *layer) run(calls string) (err error) {
	l.out[0] = backend.Output{}
	ctx := l.t.Context()
	if l.watched {
		ctx = backend.Watch(ctx, &backend.Watcher{Zero: time.Now(), Tell: func(backend.Op) {}})
	}
	rows := []backend.Row{{Token: l.token, See: []backend.Span{{From: 0, To: 1}}}}
	store := l.kv
	if strings.Contains(calls, "delta") {
		store = l.states
	}
	p := backend.Watched(ctx, l.Begin(store, rows), 1)
	for name := range strings.FieldsSeq(calls) {
		err = errors.Join(err, l.call(p, name))
	}
	return err
}

// TestOrder: every backend accepts the calls of a pass in the orders that [backend.Pass] allows, and gives the same
// results afterwards.
func TestOrder(t *testing.T) {
	devices(t, func(l *layer) {
		l.holds(
			"end",
			"embed end",
			"embed head end",
			"embed project attend add gate down draw end",
			"embed project attend add gate down project attend add gate down head end",
			"embed gate down down gate embed gate down head end",
			"embed project attend end",
			"embed project attend gate add head end", // the output of attention waits for the next sum
			"embed project attend project attend add head end",
			"embed delta add gate down project attend add gate down draw end",
			"embed delta end",
			"embed delta gate add head end",
			"embed project attend delta add head end",
			"embed delta project attend add head end",
		)
	})
}

// TestFlightOrder: the same for the calls that replace End.
func TestFlightOrder(t *testing.T) {
	l := newLayer(t, onGPU(t), false)
	l.holds(
		"embed head commit wait",
		"embed head commit drop",
		"embed head commit next wait",
		"embed draw commit next wait",
		"embed draw commit next next drop",
	)
	require.ErrorContains(t, l.run("embed commit next wait"), "does not find its token")
}

// TestRecurrentOrder: a recurrent layer gives the same after other operations, and with its result used late.
func TestRecurrentOrder(t *testing.T) {
	devices(t, func(l *layer) {
		require.NoError(t, l.run("embed delta add head end"))
		want := l.out[0]
		for _, calls := range []string{
			"embed delta gate add head end", "embed project attend delta add head end",
			"embed delta delta add head end",
		} {
			require.NoError(t, l.run(calls))
			require.Equal(t, want.Top, l.out[0].Top, calls)
		}
		require.NoError(t, l.run("embed head end"))
		require.NotEqual(t, want.Top, l.out[0].Top)
	})
}

// holds makes passes with these calls, and checks after each that the device computes what it did before.
func (l *layer) holds(all ...string) {
	const whole = "embed project attend add gate down head end"
	require.NoError(l.t, l.run(whole))
	before := l.out[0]
	for _, calls := range all {
		require.NoError(l.t, l.run(calls), calls)
		require.NoError(l.t, l.run(whole), "after %s", calls)
		require.Equal(l.t, before, l.out[0], "after %s", calls)
	}
}

// TestAskedFor: a reused output contains the requested values, and no earlier ones.
func TestAskedFor(t *testing.T) {
	devices(t, func(l *layer) {
		out := make([]backend.Output, 1)
		pass := func(want backend.Want) {
			p := l.Begin(l.kv, []backend.Row{{Token: 3, See: []backend.Span{{From: 0, To: 1}}}})
			p.Embed(l.x, l.square)
			want.Rows, want.K = []int{0}, 1
			p.Head(out, l.x, l.norm, l.square, want)
			require.NoError(t, p.End(t.Context()))
		}
		for range 2 {
			pass(backend.Want{Logits: true, Hidden: true})
			require.Len(t, out[0].Logits, width)
			require.Len(t, out[0].Hidden, width)
			pass(backend.Want{})
			require.Empty(t, out[0].Logits)
			require.Empty(t, out[0].Hidden)
		}
	})
}

// TestDrawChangesNothing: the results of a head are the same with and without a draw. A flight passes on the best token
// without one, and with one the token that package sample draws, which the next row uses.
func TestDrawChangesNothing(t *testing.T) {
	devices(t, func(l *layer) {
		_, flies := l.Device.(backend.Runner)
		require.NoError(t, l.run("embed head end"))
		found := l.out[0]
		require.NoError(t, l.run("embed draw end"))
		if flies {
			require.Equal(t, found.Top[0].ID, found.Next)
			s, err := sample.New(drawn.Draw.Sampling)
			require.NoError(t, err)
			require.NoError(t, l.run("embed draw-all end"))
			require.Equal(t, s.Pick(1, &l.out[0]), l.out[0].Next)
			require.NotEqual(t, found.Next, l.out[0].Next, "with a share of a single token")
			next := l.out[0].Next
			require.NoError(t, l.run("embed draw commit next wait"))
			after := l.next[0]
			l.token = next
			require.NoError(t, l.run("embed head end"))
			require.Equal(t, l.out[0].Top, after.Top, "for that token")
			l.token = 3
		}
		found.Next, l.out[0].Next = 0, 0
		require.NoError(t, l.run("embed draw end"))
		l.out[0].Next = 0
		require.Equal(t, found, l.out[0])
	})
}
