package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// errTrouble is the error of a pass that must fail.
var errTrouble = errors.New("the device has trouble")

// plain is a device with passes that fail on request.
type plain struct {
	backend.Device
	begun   int              // number of passes
	fails   map[int]struct{} // passes that fail, by number
	why     error            // nil: errTrouble
	open    int              // flights that were neither waited for nor dropped
	maxOpen int              // max open flights

	guesses, wrong int // draws that were guessed; every wrong-th guess is wrong, 0: none
}

// failing makes the nth pass from now on fail; 1 is the next one.
func (d *plain) failing(n int) {
	if d.fails == nil {
		d.fails = map[int]struct{}{}
	}
	d.fails[d.begun+n] = struct{}{}
}

// pass is a pass of this device, and a flight on a device with flights.
type pass struct {
	backend.Pass
	d    *plain
	err  error
	out  []backend.Output
	want backend.Want
	row  backend.Row
	over bool // waited for or dropped
}

func (d *plain) Begin(kv backend.KV, rows []backend.Row) backend.Pass { return d.begin(kv, rows) }

func (d *plain) begin(kv backend.KV, rows []backend.Row) *pass {
	d.begun++
	p := &pass{Pass: d.Device.Begin(kv, rows), d: d, row: rows[0]}
	if _, bad := d.fails[d.begun]; bad {
		p.err = fmt.Errorf("pass %d: %w", d.begun, cmpErr(d.why, errTrouble))
	}
	return p
}

func (p *pass) Head(out []backend.Output, x backend.Tensor, g backend.Norm, w backend.Weight, want backend.Want) {
	p.out, p.want = out, want
	p.Pass.Head(out, x, g, w, want)
}

func (p *pass) End(ctx context.Context) error { return cmpErr(p.err, p.Pass.End(ctx)) }

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// eager is a device with flights. A pass is computed when it is committed. Sampled tokens are guessed right, except for
// every wrong-th one.
type eager struct{ *plain }

// guess returns the token that the device continues with.
func (d eager) guess(p *flying) int32 {
	o := &p.out[0]
	if p.want.Draw.Greedy() {
		return o.Top[0].ID
	}
	d.guesses++
	if d.wrong > 0 && d.guesses%d.wrong == 0 {
		return (o.Top[0].ID + 1) % 300
	}
	s, err := sample.New(p.want.Draw.Sampling)
	if err != nil {
		panic(err)
	}
	return s.PickBy(int(p.row.Pos)+1, o, &terms.Settings{MinP: p.want.Draw.MinP}, sample.Place{})
}

func (d eager) Begin(kv backend.KV, rows []backend.Row) backend.Pass {
	return &flying{pass: d.begin(kv, rows)}
}

func (d eager) BeginAlone(kv backend.KV, row backend.Row) backend.Flight {
	return &flying{pass: d.begin(kv, []backend.Row{row})}
}

func (d eager) BeginAfter(before backend.Flight, kv backend.KV, row backend.Row) backend.Flight {
	b := before.(*flying)
	if b.over {
		panic("a pass after one that is over")
	}
	row.Token = b.out[0].Next
	return &flying{pass: d.begin(kv, []backend.Row{row})}
}

// flying is a flight of this device.
type flying struct{ *pass }

func (p *flying) Commit() {
	p.d.open++
	p.d.maxOpen = max(p.d.maxOpen, p.d.open)
	p.err = cmpErr(p.err, p.Pass.End(context.Background()))
	if p.err == nil && len(p.out) == 1 {
		p.out[0].Next = eager{p.d}.guess(p)
	}
}

func (p *flying) Wait(ctx context.Context) error {
	p.land()
	return cmpErr(p.err, context.Cause(ctx))
}

func (p *flying) Drop() { p.land() }

func (p *flying) land() {
	if p.over {
		panic("a flight lands twice")
	}
	p.over = true
	p.d.open--
}

// smallest writes a model with very fast passes.
func smallest(t testing.TB, edit func(*synth.Spec)) *gguf.File {
	t.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	s := synth.Tiny(recipe, 4)
	s.Dim, s.FFN, s.Heads, s.KVHeads, s.Vocab, s.Context = 64, 64, 2, 1, 300, 64
	if edit != nil {
		edit(&s)
	}
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	return f
}

// small opens the smallest model.
func small(t testing.TB, o Options, edit func(*synth.Spec)) *Engine {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = 1
	}
	e, err := New(smallest(t, edit), "small", o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// session returns a new session of an engine.
func session(t testing.TB, e *Engine) *Session {
	t.Helper()
	s, err := e.NewSession()
	require.NoError(t, err)
	return s
}

// troubled opens the smallest model on a device that fails on request, with flights if wanted.
func troubled(t testing.TB, o Options, flights bool) (*Engine, *plain) {
	t.Helper()
	return troubledAs(t, o, flights, nil)
}

func troubledAs(t testing.TB, o Options, flights bool, edit func(*synth.Spec)) (*Engine, *plain) {
	t.Helper()
	e := small(t, o, edit)
	e.model.Close()
	d := &plain{Device: e.device}
	e.device = d
	if flights {
		e.device = eager{d}
	}
	var err error
	e.model, err = transformer.Load(e.file, e.device)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !e.isClosed() { // closing a device waits for what is left
			assert.Zero(t, d.open, "a flight was neither waited for nor dropped")
		}
	})
	return e, d
}

// headAfter returns the head after a text that is evaluated from the start.
func headAfter(t testing.TB, e *Engine, text []int32, want backend.Want) *backend.Output {
	t.Helper()
	cache, err := e.newCache(t.Context(), len(text))
	require.NoError(t, err)
	out := make([]backend.Output, 1)
	require.NoError(t, e.evaluateTokens(t.Context(), newBatchSession(), cache, text, out, want))
	return &out[0]
}

// scratch evaluates texts from the start, and caches the heads.
type scratch struct {
	t   testing.TB
	e   *Engine
	all map[string]backend.Output
}

// after returns the head after a text, with its three best tokens.
func (s *scratch) after(text []int32) backend.Output {
	key := fmt.Sprint(text)
	out, ok := s.all[key]
	if !ok {
		out = copied(*headAfter(s.t, s.e, text, backend.Want{K: 3}))
		s.all[key] = out
	}
	return out
}

// copied returns a copy of the parts of a head that are compared.
func copied(o backend.Output) backend.Output {
	return backend.Output{Top: slices.Clone(o.Top), LogSumExp: o.LogSumExp, Entropy: o.Entropy}
}

// statsOf returns the statistics of a service between steps. They are updated after each step, so that a question may
// already be answered but not yet counted.
func statsOf(t testing.TB, s *Service) ServiceStats {
	t.Helper()
	const unusedSession = 1 << 60
	require.NoError(t, s.Service.Forget(t.Context(), unusedSession))
	return s.Stats()
}
