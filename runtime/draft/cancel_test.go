package draft

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

var errStop = errors.New("the user pressed ^C")

// TestCancel stops random runs at random times: decoding ends within a forward call and returns the cause, the shown
// tokens are a prefix of the whole text, and no slot or question is left.
func TestCancel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stopped := 0
		for seed := range uint64(1000) {
			s := newSchedule(seed)
			s.rude = 0
			f := s.fakes()
			s.Mode = Mode(seed % 2)
			d, err := New(f.model, &s.world, f.cloud, s.Options)
			require.NoError(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			after := time.Duration(rand.New(rand.NewPCG(seed, 3)).IntN(500)) * time.Millisecond
			at := time.Now().Add(after)
			timer := time.AfterFunc(after, func() { cancel(errStop) })
			var got shown
			sum, err := d.Decode(ctx, s.prompt, func(e Event) bool { got.collect(e); return true })
			timer.Stop()
			if err != nil {
				stopped++
				require.ErrorIs(t, err, errStop)
				require.LessOrEqual(t, time.Since(at), f.model.time(s.Rows), "seed %d", seed)
				want := s.world.oracle(s.prompt, s.MaxTokens)
				require.LessOrEqual(t, len(got.Tokens), len(want.Tokens), "seed %d", seed)
				for i, token := range got.Tokens {
					require.Equal(t, want.Tokens[i], token, "seed %d: token %d", seed, i)
				}
			}
			require.NoError(t, f.clean(sum), "seed %d", seed)
			cancel(nil)
		}
		assert.Greater(t, stopped, 300)
	})
}

// TestEmitStops: after emit has returned false there are no more events, the summary counts only the tokens that emit
// received, and no slot or question is left.
func TestEmitStops(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(1000) {
			s := newSchedule(seed)
			f := s.fakes()
			s.Mode = Mode(seed % 2)
			var cloud Cloud = f.cloud
			if s.warms {
				cloud = warmCloud{f.cloud}
			}
			d, err := New(f.model, &s.world, cloud, s.Options)
			require.NoError(t, err)
			left, shown := int(seed/2%20), 0
			sum, err := d.Decode(t.Context(), s.prompt, func(e Event) bool {
				require.GreaterOrEqual(t, left, 0, "seed %d: too many events", seed)
				if left--; e.Token != nil {
					shown++
				}
				return left >= 0
			})
			require.NoError(t, err)
			require.NoError(t, f.clean(sum), "seed %d", seed)
			require.Equal(t, shown, sum.Tokens, "seed %d", seed)
			require.LessOrEqual(t, f.model.settled, len(s.prompt)+shown,
				"seed %d: tokens that were not shown are settled", seed)
			require.GreaterOrEqual(t, f.model.settled, len(s.prompt)+shown-1, "seed %d", seed)
		}
	})
}

// failingModel fails in one of its calls: at the prompt, or after a number of forward calls.
type failingModel struct {
	*fakeModel
	after int
}

func (m *failingModel) Prefill(ctx context.Context, prompt []int32) (backend.Output, error) {
	head, err := m.fakeModel.Prefill(ctx, prompt)
	if m.after < 0 {
		err = errFake
	}
	return head, err
}

func (m *failingModel) Extend(ctx context.Context, nodes []Node) ([]backend.Output, error) {
	if m.after--; m.after < 0 {
		return nil, errFake
	}
	return m.fakeModel.Extend(ctx, nodes)
}

// TestModelFails: an error of the model is returned, and no slot or question is left.
func TestModelFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(500) {
			s := newSchedule(seed)
			f := s.fakes()
			s.Mode = Mode(seed % 2)
			after := int(seed/2%11) - 1
			d, err := New(&failingModel{f.model, after}, &s.world, f.cloud, s.Options)
			require.NoError(t, err)
			shown := 0
			sum, err := d.Decode(t.Context(), s.prompt, func(e Event) bool { shown++; return true })
			if err != nil {
				require.ErrorIs(t, err, errFake)
				require.Empty(t, sum.Stop)
			}
			if after < 0 {
				require.Error(t, err)
				require.Zero(t, shown)
			}
			require.NoError(t, f.clean(sum), "seed %d", seed)
		}
	})
}

// TestNoRouter decodes with the small model alone: each token has its probability, and the cloud gets no questions.
func TestNoRouter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSchedule(1)
		s.MaxTokens, s.End = 0, nil
		f := s.fakes()
		f.model.slots, f.model.calls, f.model.last, s.world.ends = 1000, 1000, 0, 0
		d, err := New(f.model, nil, warmCloud{f.cloud}, s.Options)
		require.NoError(t, err)
		text := hashOf(s.prompt)
		sum, err := d.Decode(t.Context(), s.prompt, func(e Event) bool {
			if e.Token == nil {
				return true
			}
			head := s.world.head(text)
			text = then(text, e.Token.ID)
			return assert.Equal(t, Edge, e.Token.Origin) &&
				assert.Equal(t, tokenProbability(&head, e.Token.ID), e.Token.Confidence)
		})
		require.NoError(t, err)
		assert.Equal(t, 512, sum.Tokens)
		assert.Equal(t, 511, sum.Passes+sum.Accepted, "the first token comes with the prompt")
		sum.CommitDelay, sum.Passes, sum.Proposed, sum.Accepted = 0, 0, 0, 0
		assert.Equal(t, Summary{Stop: "length", Tokens: 512}, sum)
		assert.Empty(t, f.cloud.warmed)
	})
}

// TestProbability: the logit of a token is in the best candidates or in all logits.
func TestProbability(t *testing.T) {
	head := backend.Output{Top: []backend.Candidate{{ID: 0, Logit: 2}, {ID: 1, Logit: 1.5}}, LogSumExp: 3}
	assert.InDelta(t, math.Exp(-1.5), tokenProbability(&head, 1), 1e-6)
	assert.Zero(t, tokenProbability(&head, 2), "not a candidate")
	head.Logits = []float32{2, 1.5, -1}
	assert.InDelta(t, math.Exp(-4), tokenProbability(&head, 2), 1e-6)
	assert.InDelta(t, math.Exp(-1), tokenProbability(&head, 0), 1e-6)
}

// TestOptions: values out of range are refused by name, and zero values mean the defaults.
func TestOptions(t *testing.T) {
	m := &fakeModel{world: &world{vocab: 12}}
	for name, o := range map[string]Options{
		"branches": {Branches: -2}, "window": {Window: -1}, "inflight": {InFlight: -1}, "rows": {Rows: -1},
		"most tokens": {MaxTokens: -1}, "room": {Room: -1}, "vocabulary": {Vocab: -1},
		"best tokens with an answer": {K: -1}, "best tokens of a token": {Top: -1}, "tokens ahead": {Ahead: -1},
		"tokens between questions": {Verify: true, VerifyEvery: -1}, "mode": {Mode: 7},
		"temperature": {Sampling: terms.Sampling{Temperature: -1}},
	} {
		_, err := New(m, nil, nil, o)
		assert.ErrorContains(t, err, name)
	}
	for rows, fine := range map[int]bool{-7: true, -1: true, 0: true, 1: false, 2: true, 8: true, 9: false} {
		_, err := New(m, nil, nil, Options{Lookup: rows})
		assert.Equal(t, fine, err == nil, "%d rows", rows)
	}
	_, err := New(m, m.world, nil, Options{})
	assert.ErrorContains(t, err, "no cloud")
	d, err := New(m, nil, nil, Options{})
	require.NoError(t, err)
	_, err = d.Decode(t.Context(), nil, nil)
	assert.ErrorContains(t, err, "empty prompt")
	assert.Equal(t, 800*time.Millisecond, d.o.Deadline)
	assert.Equal(t, 2, d.o.Branches)
	assert.Equal(t, 32, d.o.Window)
	assert.Equal(t, 4, d.o.InFlight)
	assert.Equal(t, 8, d.o.Rows)
	assert.Equal(t, 512, d.o.MaxTokens)
	assert.Equal(t, 128, d.o.Warm)
	assert.Equal(t, 64, d.o.VerifyEvery)
	for want, all := range map[int][]Options{
		1: {{}, {Mode: Serial, Verify: true}, {Verify: true, VerifyEvery: 64}}, MostAhead: {{Verify: true}},
		7: {{Ahead: 7}, {Ahead: 7, Verify: true}},
	} {
		for _, o := range all {
			assert.Equal(t, want, o.withDefaults().Ahead, "%+v", o)
			assert.Equal(t, o.Verify && o.VerifyEvery == 0 && o.Mode == Pipelined, o.withDefaults().auto, "checks")
		}
	}
	assert.False(t, d.o.End(0))
	d, err = New(m, nil, nil, Options{
		Branches: 3, Window: 4, InFlight: 5, Rows: 6, MaxTokens: 7, Warm: -1, Deadline: -1,
	})
	require.NoError(t, err)
	assert.Equal(t, 3, d.o.Branches)
	assert.Equal(t, 4, d.o.Window)
	assert.Equal(t, 5, d.o.InFlight)
	assert.Equal(t, 6, d.o.Rows)
	assert.Equal(t, 7, d.o.MaxTokens)
	assert.Equal(t, -1, d.o.Warm)
	assert.EqualValues(t, -1, d.o.Deadline)
}

// TestWant: heads have enough candidates for all branches, or as many as requested otherwise.
func TestWant(t *testing.T) {
	assert.Equal(t, 2, Options{}.Want(backend.Want{}).K)
	assert.Equal(t, 1, Options{Branches: 1}.Want(backend.Want{}).K)
	assert.Equal(t, 2, Options{Branches: 1, Explain: true}.Want(backend.Want{}).K, "for the margin")
	assert.Equal(t, 7, Options{Top: 7}.Want(backend.Want{}).K)
	assert.Equal(t, 5, Options{Branches: 5}.Want(backend.Want{K: 4}).K)
	assert.Equal(t, MostBranches, Options{Branches: AutoBranches}.Want(backend.Want{K: 4}).K)
	drawn := Options{Branches: 3, Sampling: terms.Sampling{Temperature: 1}}
	assert.Equal(t, MostBranches, drawn.Want(backend.Want{}).K, "likely draws need more candidates")
	assert.Equal(t, backend.Want{K: 9, Logits: true}, Options{Branches: 5}.Want(backend.Want{K: 9, Logits: true}))
}

// TestSampling: without Pick, the edge uses the sampling of the cloud.
func TestSampling(t *testing.T) {
	w := &world{vocab: 120, seed: 3}
	o := terms.Sampling{Temperature: 2, TopK: fakeTop, Seed: 5}
	d, err := New(&fakeModel{world: w}, nil, nil, Options{Sampling: o})
	require.NoError(t, err)
	s, err := sample.New(o)
	require.NoError(t, err)
	greedy := 0
	for pos := range 100 {
		head := w.head(uint64(pos))
		require.Equal(t, s.Pick(pos, &head), d.o.Pick(pos, &head))
		if d.o.Pick(pos, &head) == head.Top[0].ID {
			greedy++
		}
	}
	assert.Less(t, greedy, 90)
}

// TestPromptIsKept: decoding does not change the caller's memory.
func TestPromptIsKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSchedule(1)
		d, err := New(s.fakes().model, &s.world, s.fakes().cloud, s.Options)
		require.NoError(t, err)
		memory := append(slices.Clone(s.prompt), make([]int32, 100)...)
		_, err = d.Decode(t.Context(), memory[:len(s.prompt)], func(Event) bool { return true })
		require.NoError(t, err)
		assert.Equal(t, append(slices.Clone(s.prompt), make([]int32, 100)...), memory)
	})
}
