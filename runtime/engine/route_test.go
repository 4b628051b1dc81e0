package engine_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// pair opens a small and a large random model with one vocabulary, and the large one's service.
func pair(t testing.TB) (edge, large *engine.Engine, cloud *engine.Service) {
	t.Helper()
	edge = open(t, model(t, nil), engine.Options{})
	large = open(t, model(t, func(s *synth.Spec) { s.Layers = 3 }), engine.Options{})
	cloud, err := large.Serve(engine.ServeOptions{})
	require.NoError(t, err)
	t.Cleanup(cloud.Close)
	return edge, large, cloud
}

// definition returns the result of routed decoding by its definition, evaluating everything from the start.
func definition(
	t testing.TB, edge, large *engine.Engine, o router.Options, prompt []int32, n int,
) (ids []int32, origins []string) {
	t.Helper()
	r, err := router.New(o)
	require.NoError(t, err)
	text, state := append([]int32(nil), prompt...), uint64(0)
	for range n {
		logits, top, err := edge.Logits(t.Context(), text, 5)
		require.NoError(t, err)
		out := &backend.Output{Top: top, Logits: logits}
		out.LogSumExp, out.Entropy = sums(logits)
		_, escalate, next := r.Decide(state, len(text), out)
		id, origin := top[0].ID, "edge"
		if escalate {
			_, best, err := large.Logits(t.Context(), text, 1)
			require.NoError(t, err)
			id, origin = best[0].ID, "cloud"
		}
		state = next
		text, ids, origins = append(text, id), append(ids, id), append(origins, origin)
	}
	return ids, origins
}

// delayed is a cloud with delays that depend on the question.
type delayed struct {
	draft.Cloud
	asks, warmed atomic.Int64
}

func (c *delayed) Warm(context.Context, []int32) (up, down int, err error) {
	c.warmed.Add(1)
	return 0, 0, nil
}

func (c *delayed) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	n := c.asks.Add(1)
	select {
	case <-time.After(time.Duration(n*7%5) * time.Millisecond):
	case <-ctx.Done():
		return draft.Answer{}, context.Cause(ctx)
	}
	return c.Cloud.Ask(ctx, q)
}

// TestRouted: serial and pipelined decoding with real models give the tokens and origins of the definition, and leave
// the session ready for the next text.
func TestRouted(t *testing.T) {
	edge, large, cloud := pair(t)
	modes := map[string]draft.Options{
		"serial":                {Mode: draft.Serial, Deadline: -1},
		"pipelined":             {Deadline: -1},
		"pipelined, 4 branches": {Branches: 4, InFlight: 8, Window: 20, Deadline: -1},
		"pipelined, little":     {Branches: 1, InFlight: 1, Window: 2, Rows: 1, Deadline: -1},
	}
	sessions := map[string]*engine.Session{}
	for name := range modes {
		sessions[name] = session(t, edge)
	}
	warmed := int64(0)
	for i, o := range []router.Options{
		{Policy: router.Random, Threshold: new(0.3), Seed: 5},
		{Policy: router.Margin, Threshold: new(0.002)},
		{Policy: router.Entropy, Threshold: new(0.0017)},
		{Policy: router.Always},
		{Policy: router.Never},
	} {
		prompt := []int32{1, 2, 3, int32(i % 2), 9}
		ids, origins := definition(t, edge, large, o, prompt, 30)
		if o.Policy != router.Always && o.Policy != router.Never {
			require.Contains(t, origins, "cloud", o.Policy)
			require.Contains(t, origins, "edge", o.Policy)
		}
		for name, d := range modes {
			t.Run(fmt.Sprintf("%s/%s", o.Policy, name), func(t *testing.T) {
				r, err := router.New(o)
				require.NoError(t, err)
				far := &delayed{Cloud: cloud.Local(uint64(i))}
				s := sessions[name]
				var gotIDs []int32
				var gotOrigins []string
				for tok, err := range s.Routed(t.Context(), prompt, engine.Route{
					Settings: terms.Settings{MaxTokens: 30, IgnoreEnd: true}, Router: r, Cloud: far, Draft: d,
				}) {
					require.NoError(t, err)
					gotIDs, gotOrigins = append(gotIDs, tok.ID), append(gotOrigins, string(tok.Origin))
				}
				assert.Equal(t, ids, gotIDs)
				assert.Equal(t, origins, gotOrigins)
				if o.Policy == router.Never {
					assert.Zero(t, far.warmed.Load(), "a text of no questions stays here")
				} else {
					warmed += far.warmed.Load()
				}
				assert.Equal(t, 30, s.Summary().Tokens)
				assert.Equal(t, "length", s.Summary().Stop)
				five := terms.Settings{MaxTokens: 5}
				assert.Equal(t, generate(t, session(t, edge), prompt, five), generate(t, s, prompt, five))
			})
		}
	}
	assert.Positive(t, warmed)
}

// TestRoutedSampled: with the same seed, edge and cloud sample the same tokens, and pipelined equals serial.
func TestRoutedSampled(t *testing.T) {
	edge, _, cloud := pair(t)
	run := func(mode draft.Mode) (toks []engine.Token) {
		r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.4), Seed: 1})
		require.NoError(t, err)
		for tok, err := range session(t, edge).Routed(t.Context(), []int32{4, 5}, engine.Route{
			Settings: terms.Settings{MaxTokens: 25, IgnoreEnd: true,
				Temperature: 1, TopP: 0.9, Seed: 6},
			Router: r, Cloud: cloud.Local(1), Draft: draft.Options{Mode: mode, Branches: 3, Deadline: -1},
		}) {
			require.NoError(t, err)
			tok.At = 0
			toks = append(toks, tok)
		}
		return toks
	}
	assert.Equal(t, run(draft.Serial), run(draft.Pipelined))
}

// dead is a cloud that never answers.
type dead struct{}

func (dead) Ask(ctx context.Context, _ draft.Question) (draft.Answer, error) {
	<-ctx.Done()
	return draft.Answer{}, context.Cause(ctx)
}

// TestRoutedWithoutCloud: the answer is complete, and marks the tokens that the cloud should have chosen.
func TestRoutedWithoutCloud(t *testing.T) {
	edge, _, _ := pair(t)
	r, err := router.New(router.Options{Policy: router.Always})
	require.NoError(t, err)
	s := session(t, edge)
	want := generate(t, session(t, edge), []int32{7, 8}, terms.Settings{MaxTokens: 10, IgnoreEnd: true})
	n := 0
	for tok, err := range s.Routed(t.Context(), []int32{7, 8}, engine.Route{
		Settings: terms.Settings{MaxTokens: 10, IgnoreEnd: true}, Router: r, Cloud: dead{},
		Draft: draft.Options{Deadline: 20 * time.Millisecond},
	}) {
		require.NoError(t, err)
		assert.Equal(t, want[n].ID, tok.ID)
		assert.Equal(t, string(draft.EdgeTimeout), tok.Origin)
		n++
	}
	assert.Equal(t, 10, n)
	assert.Equal(t, 10, s.Summary().Routing.Timeouts)
	assert.Equal(t, 10, s.Summary().Tokens)
	assert.Equal(t, 10, s.Summary().Timeouts)
	assert.Zero(t, s.Summary().CloudTokens)
}

// TestRoutedCancel: ^C ends decoding at once, and the session stays usable.
func TestRoutedCancel(t *testing.T) {
	edge, _, _ := pair(t)
	r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.2)})
	require.NoError(t, err)
	s := session(t, edge)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	var last error
	for _, err := range s.Routed(ctx, []int32{7, 8}, engine.Route{
		Settings: terms.Settings{IgnoreEnd: true}, Router: r, Cloud: dead{}, Draft: draft.Options{Deadline: -1},
	}) {
		last = err
	}
	require.ErrorIs(t, last, context.Canceled)
	five := terms.Settings{MaxTokens: 5}
	assert.Equal(t, generate(t, session(t, edge), []int32{7}, five), generate(t, s, []int32{7}, five))
}

// sums returns the log-sum-exp and entropy of logits, computed as in the head.
func sums(logits []float32) (lse, entropy float32) {
	top := logits[0]
	for _, l := range logits {
		top = max(top, l)
	}
	s, x := 0.0, 0.0
	for _, l := range logits {
		e := math.Exp(float64(l) - float64(top))
		s += e
		x += e * float64(l)
	}
	log := float64(top) + math.Log(s)
	return float32(log), float32(max(0, log-x/s))
}
