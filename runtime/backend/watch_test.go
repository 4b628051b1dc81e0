package backend

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// slow is a pass with operations of a millisecond each; it records its calls, with their arguments.
type slow struct {
	did  []string
	args [][]any
}

func (p *slow) do(what string, args ...any) {
	time.Sleep(time.Millisecond)
	p.did, p.args = append(p.did, what), append(p.args, args)
}

func (p *slow) Embed(x Tensor, table Weight) { p.do("embed", x, table) }
func (p *slow) NormProject(q, k, v, x Tensor, g Norm, wq, wk, wv Weight) {
	p.do("norm+project", q, k, v, x, g, wq, wk, wv)
}
func (p *slow) Attend(a, q, k, v Tensor, gq, gk Norm, layer int) {
	p.do("attend", a, q, k, v, gq, gk, layer)
}
func (p *slow) Delta(a, x Tensor, g Norm, d Delta, layer int) { p.do("delta", a, x, g, d, layer) }
func (p *slow) ProjectAdd(x Tensor, m Weight, h Tensor)       { p.do("project+add", x, m, h) }
func (p *slow) NormGateUp(m, x Tensor, g Norm, gate, up Weight) {
	p.do("norm+gate+up", m, x, g, gate, up)
}
func (p *slow) Head(out []Output, x Tensor, g Norm, m Weight, want Want) {
	p.do("head", len(out), x, g, m, want)
}
func (p *slow) End(context.Context) error       { return nil }
func (p *slow) Ran() (begin, end time.Duration) { return 3 * time.Hour, 3*time.Hour + 1 }

// flight is a pass that runs later.
type flight struct{ slow }

func (*flight) Commit()                    {}
func (*flight) Wait(context.Context) error { return nil }
func (*flight) Drop()                      {}

// arg is a tensor, a weight or a norm, by its name.
type arg string

func (arg) Shape() (int, int) { return 0, 0 }
func (arg) Len() int          { return 0 }

// layers runs a pass of two layers with attention, the first of them after one with a recurrent state.
func layers(p Pass) {
	p.Embed(arg("x"), arg("table"))
	p.Delta(arg("a"), arg("x"), arg("g"), nil, 0)
	for l := range 2 {
		p.NormProject(arg("q"), arg("k"), arg("v"), arg("x"), arg("g"), arg("wq"), arg("wk"), arg("wv"))
		p.Attend(arg("a"), arg("q"), arg("k"), arg("v"), arg("gq"), arg("gk"), l)
		p.ProjectAdd(arg("x"), arg("wo"), arg("a"))
		p.NormGateUp(arg("m"), arg("x"), arg("g"), arg("gate"), arg("up"))
		p.ProjectAdd(arg("x"), arg("down"), arg("m"))
	}
	p.Head(make([]Output, 3), arg("x"), arg("g"), arg("head"), Want{K: 2})
}

// TestWatched: each operation is forwarded with its arguments, and reported with its layer and its times; a pass that
// runs later is reported as a whole.
func TestWatched(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ops []Op
		time.Sleep(time.Second)
		w := &Watcher{Zero: time.Now().Add(-time.Minute), Tell: func(o Op) { ops = append(ops, o) }}
		ctx := Watch(t.Context(), w)
		p := new(slow)
		layers(Watched(ctx, p, 3))
		require.Len(t, ops, 13)
		wantLayers := []int16{-1, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, -1}
		for i, o := range ops {
			at := time.Minute + time.Duration(i)*time.Millisecond
			assert.Equal(t, p.did[i], o.Kind.String())
			o.Kind = 0
			assert.Equal(t, Op{Layer: wantLayers[i], Rows: 3, Begin: at, End: at + time.Millisecond}, o)
		}
		assert.Equal(t, "run", OpRun.String())

		later := new(flight)
		assert.Same(t, Pass(later), Watched(ctx, later, 3))
		ops = nil
		TellRun(ctx, later, 5)
		now := time.Minute + 13*time.Millisecond
		begin, end := later.Ran()
		whole := Op{Kind: OpRun, Layer: -1, Rows: 5, Begin: now, End: now, DeviceBegin: begin, DeviceEnd: end}
		assert.Equal(t, []Op{whole}, ops)
		TellRun(ctx, "a pass that does not say", 5)
		assert.Len(t, ops, 1)
		plain := new(slow)
		layers(plain)
		assert.Equal(t, plain.args, p.args)
	})
}

// TestUnwatched: without a watcher a pass is not wrapped, and nothing is allocated.
func TestUnwatched(t *testing.T) {
	p := Pass(new(slow))
	ctx := t.Context()
	assert.Same(t, p, Watched(ctx, p, 1))
	TellRun(ctx, p, 1)
	assert.Zero(t, testing.AllocsPerRun(100, func() { Watched(ctx, p, 1); TellRun(ctx, p, 1) }))
}

// TestWatchShare: reporting takes at most its share: 13 operations of 70 ns are 0.007% of a pass of 13 ms, and at most
// 0.0025% of three such passes.
func TestWatchShare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		reported := 0
		ctx := Watch(t.Context(), &Watcher{Zero: time.Now(), Tell: func(Op) { reported++ }, Share: 0.000025})
		p := new(slow)
		for i := range 9 {
			before := reported
			pass := Watched(ctx, p, 1)
			layers(pass)
			require.NoError(t, pass.End(ctx))
			want := 0
			if i%3 == 0 {
				want = 13
			}
			require.Equal(t, want, reported-before, "call %d", i)
		}
	})
}

// TestWatchPaced: the time between passes counts, too: after the first passes have shown that a pass with its
// surroundings takes three times as long, all are reported.
func TestWatchPaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var reported []int
		at := 0
		ctx := Watch(t.Context(), &Watcher{Zero: time.Now(), Share: 0.000025, Tell: func(o Op) {
			if o.Kind == OpHead {
				reported = append(reported, at)
			}
		}})
		for at = range 8 {
			pass := Watched(ctx, new(slow), 1)
			layers(pass)
			require.NoError(t, pass.End(ctx))
			time.Sleep(25 * time.Millisecond)
		}
		assert.Equal(t, []int{0, 3, 4, 5, 6, 7}, reported)
	})
}

// TestWatchTimes: the longer counts of the last pass and of the mean time between two. Passes of no time are all
// reported.
func TestWatchTimes(t *testing.T) {
	w := &Watcher{Share: 0.01}
	w.skipPasses(100, 0, 70*time.Microsecond)
	assert.Equal(t, 10, w.skip, "7 of 70 microseconds are tenfold its share")
	w.skipPasses(100, 110*time.Microsecond, 250*time.Microsecond)
	assert.Equal(t, 5, w.skip, "140 microseconds, if 11 passes took 110")
	w.skipPasses(100, 6110*time.Microsecond, 6111*time.Microsecond)
	assert.Equal(t, 0, w.skip, "six passes took 6 ms")
	w = &Watcher{Share: 0.01}
	w.skipPasses(100, 5, 5)
	assert.Equal(t, 0, w.skip)
	w = &Watcher{} // of any share
	w.skipPasses(100, 0, 70*time.Microsecond)
	assert.Zero(t, w.skip)
}

// TestWatchLong: long passes are all reported.
func TestWatchLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		reported := 0
		ctx := Watch(t.Context(), &Watcher{Zero: time.Now(), Tell: func(Op) { reported++ }, Share: 0.001})
		for range 5 {
			pass := Watched(ctx, new(slow), 1)
			layers(pass)
			require.NoError(t, pass.End(ctx))
		}
		require.Equal(t, 5*13, reported)
	})
}
