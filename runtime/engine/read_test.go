package engine_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// read collects the results of reading a text.
func read(t testing.TB, s *engine.Session, text []int32, from int) (all []engine.Seen) {
	t.Helper()
	require.NoError(t, s.Read(t.Context(), text, from, 0, func(one engine.Seen) error {
		one.Hidden = slices.Clone(one.Hidden)
		all = append(all, one)
		return nil
	}))
	return all
}

// TestRead: at each position a session reports the logits after the tokens before it, whatever it read or wrote
// earlier, and can then continue the text.
func TestRead(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{Context: 200})
	r := rand.New(rand.NewPCG(1, 2))
	s := session(t, e)
	margin, err := router.New(router.Options{Policy: router.Margin})
	require.NoError(t, err)
	var text []int32
	for _, n := range []int{2, 90, 200, 70} {
		text = text[:min(len(text), r.IntN(n))]
		for len(text) < n {
			text = append(text, r.Int32N(900))
		}
		from := 1 + r.IntN(n-1)
		all := read(t, s, text, from)
		require.Len(t, all, n-from)
		for _, i := range []int{0, len(all) / 2, len(all) - 1} {
			pos := from + i
			logits, top, err := e.Logits(t.Context(), text[:pos], 2)
			require.NoError(t, err)
			head := &backend.Output{Top: top}
			head.LogSumExp, head.Entropy = sums(logits)
			got := all[i]
			assert.Equal(t, pos, got.Pos)
			assert.Equal(t, top[0].ID, got.Choice)
			assert.InDelta(t, top[0].Logit-head.LogSumExp, got.LogProb, 1e-5)
			assert.InDelta(t, logits[text[pos]]-head.LogSumExp, got.Given, 1e-5)
			assert.InDelta(t, margin.Confidence(pos, head), got.Margin, 1e-5)
			assert.InDelta(t, head.Entropy, got.Entropy, 1e-4)
			assert.Len(t, got.Hidden, 64)
		}
		fresh := session(t, e)
		assert.Equal(t, read(t, fresh, text, 1)[from-1:], all, "the same bits, with and without reuse")
		if n < 200 {
			again := terms.Settings{MaxTokens: 5}
			assert.Equal(t, generate(t, fresh, text, again), generate(t, s, text, again))
		}
	}
}

// TestReadWhole: from position 0 on, no token precedes the first result. Each of the others has as many of the best
// tokens as are asked for.
func TestReadWhole(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{Context: 50})
	s, text := session(t, e), []int32{1, 2, 3, 4}
	for _, top := range []int{0, 1, 3} {
		var all []engine.Seen
		require.NoError(t, s.Read(t.Context(), text, 0, top, func(one engine.Seen) error {
			all = append(all, one)
			return nil
		}))
		require.Len(t, all, 4)
		assert.True(t, math.IsNaN(float64(all[0].Given)))
		all[0].Given = 0
		assert.Equal(t, engine.Seen{}, all[0])
		for pos, one := range all[1:] {
			logits, best, err := e.Logits(t.Context(), text[:pos+1], 3)
			require.NoError(t, err)
			lse, _ := sums(logits)
			assert.Equal(t, pos+1, one.Pos)
			require.Len(t, one.Top, top)
			for i, c := range one.Top {
				assert.Equal(t, best[i].ID, c.ID)
				assert.InDelta(t, best[i].Logit-lse, c.LogProb, 1e-5)
			}
		}
	}
}

// TestReadAgain: a session forgets its text when it reads another one.
func TestReadAgain(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{Context: 50})
	s := session(t, e)
	a, b := []int32{1, 2, 3, 4, 5, 6, 7, 8}, []int32{1, 2, 9, 10, 11, 12, 13, 14, 15}
	want := read(t, s, a, 7)
	read(t, s, b, 4)
	assert.Equal(t, want, read(t, s, a, 7))
}

// TestReadHidden: the hidden state equals the one that a router sees during decoding.
func TestReadHidden(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{})
	var confidences []float32
	net, err := router.NewNet([]router.Layer{{In: 66, Out: 1, Weight: ramp(66), Bias: []float32{0.1}}}, true)
	require.NoError(t, err)
	policy, err := router.New(router.Options{Policy: router.Learned, Net: net, Threshold: new(float64)})
	require.NoError(t, err)
	s := session(t, e)
	text := []int32{5, 6, 7}
	for tok, err := range s.Routed(t.Context(), text, engine.Route{
		Settings: terms.Settings{MaxTokens: 20, IgnoreEnd: true}, Router: policy, Cloud: cloudOf(t, e),
	}) {
		require.NoError(t, err)
		text, confidences = append(text, tok.ID), append(confidences, tok.Confidence)
	}
	other := session(t, e)
	for i, one := range read(t, other, text, 3) {
		assert.Len(t, one.Hidden, e.Width())
		head := &backend.Output{Hidden: one.Hidden, Entropy: one.Entropy}
		head.Top = []backend.Candidate{{ID: one.Choice, Logit: float32(math.Log(float64(one.Margin)))}}
		assert.InDelta(t, confidences[i], net.Confidence(head), 1e-6)
	}
}

// cloudOf returns a cloud that answers with the model itself.
func cloudOf(t *testing.T, e *engine.Engine) engine.Cloud {
	s, err := e.Serve(engine.ServeOptions{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s.Local(1)
}

// ramp returns weights that rise from -1 to 1.
func ramp(n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = 2*float32(i)/float32(n-1) - 1
	}
	return w
}

func TestReadRefused(t *testing.T) {
	e := open(t, model(t, nil), engine.Options{Context: 8})
	s := session(t, e)
	none := func(engine.Seen) error { return nil }
	fails := func(why string) func(engine.Seen) error {
		return func(engine.Seen) error { return errors.New(why) }
	}
	for want, call := range map[string]func() error{
		"from position -1 on":         func() error { return s.Read(t.Context(), []int32{1, 2}, -1, 0, none) },
		"from position 3 on":          func() error { return s.Read(t.Context(), []int32{1, 2}, 3, 0, none) },
		"a text needs at least one":   func() error { return s.Read(t.Context(), nil, 0, 0, none) },
		"-1 best tokens":              func() error { return s.Read(t.Context(), []int32{1, 2}, 1, -1, none) },
		"21 best tokens":              func() error { return s.Read(t.Context(), []int32{1, 2}, 1, 21, none) },
		"at once":                     func() error { return s.Read(t.Context(), []int32{1}, 0, 0, fails("at once")) },
		"does not fit":                func() error { return s.Read(t.Context(), make([]int32, 9), 1, 0, none) },
		"token 1 of the text is 1000": func() error { return s.Read(t.Context(), []int32{1, 1000}, 1, 0, none) },
		"token 0 of the text is -1":   func() error { return s.Read(t.Context(), []int32{-1, 1}, 1, 0, none) },
		"token 1 of the text is -2":   func() error { return s.Read(t.Context(), []int32{1, -2}, 1, 0, none) },
		"the session is in use": func() error {
			return s.Read(t.Context(), []int32{1, 2}, 1, 0, func(engine.Seen) error {
				return s.Read(t.Context(), []int32{1}, 1, 0, none)
			})
		},
		"enough": func() error {
			return s.Read(t.Context(), []int32{1, 2}, 1, 0, fails("enough"))
		},
		context.Canceled.Error(): func() error { return s.Read(canceled(), []int32{7, 2, 3}, 1, 0, none) },
	} {
		assert.ErrorContains(t, call(), want)
	}
	read(t, s, []int32{3, 4, 5}, 1)
	assert.Equal(t, 2, s.KVTokens(), "no head after the last one")
	require.Error(t, s.Read(canceled(), []int32{3, 4, 5, 6}, 1, 0, none))
	assert.Equal(t, 0, s.KVTokens(), "the common prefix of the texts before the first position")
	assert.NoError(t, s.Read(t.Context(), []int32{1, 2}, 2, 0, fails("no result expected")))
	assert.Len(t, read(t, s, []int32{1, 2, 3, 4, 5, 6, 7, 8}, 1), 7, "a full context, after errors")
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
