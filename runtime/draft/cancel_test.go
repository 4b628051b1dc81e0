package draft

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

var errStop = errors.New("the user pressed ^C")

// TestCancel stops random runs at random times: decoding ends within a forward call, with the cause; what was shown is a
// part of the whole text; and nothing is left behind.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
				require.LessOrEqual(t, time.Since(at), 2*s.speed, "seed %d", seed)
				want := s.world.oracle(s.prompt, s.MaxTokens)
				require.Subset(t, want.Tokens, got.Tokens, "seed %d", seed)
			}
			require.NoError(t, f.clean(sum), "seed %d", seed)
			cancel(nil)
		}
		assert.Greater(t, stopped, 300)
	})
}

// TestEmitStops: after emit has returned false there are no more events, and nothing is left behind.
func TestEmitStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(1000) {
			s := newSchedule(seed)
			f := s.fakes()
			s.Mode = Mode(seed % 2)
			d, err := New(f.model, &s.world, f.cloud, s.Options)
			require.NoError(t, err)
			left := int(seed / 2 % 20)
			sum, err := d.Decode(t.Context(), s.prompt, func(Event) bool {
				require.GreaterOrEqual(t, left, 0, "seed %d: an event too many", seed)
				left--
				return left >= 0
			})
			require.NoError(t, err)
			require.NoError(t, f.clean(sum), "seed %d", seed)
		}
	})
}

// failingModel fails in one of its calls.
type failingModel struct {
	*fakeModel
	after int
}

func (m *failingModel) Extend(ctx context.Context, nodes []Node) ([]backend.Output, error) {
	if m.after--; m.after < 0 {
		return nil, errFake
	}
	return m.fakeModel.Extend(ctx, nodes)
}

// TestModelFails: an error of the model is that of the run, and nothing is left behind.
func TestModelFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(500) {
			s := newSchedule(seed)
			f := s.fakes()
			s.Mode = Mode(seed % 2)
			d, err := New(&failingModel{f.model, int(seed % 10)}, &s.world, f.cloud, s.Options)
			require.NoError(t, err)
			sum, err := d.Decode(t.Context(), s.prompt, func(Event) bool { return true })
			if err != nil {
				require.ErrorIs(t, err, errFake)
				require.Empty(t, sum.Stop)
			}
			require.NoError(t, f.clean(sum), "seed %d", seed)
		}
	})
}

// TestNoRouter is the small model alone.
func TestNoRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(1)
		s.MaxTokens, s.End = 0, nil
		d, err := New(s.fakes().model, nil, nil, s.Options)
		require.NoError(t, err)
		d.model.(*fakeModel).slots, d.model.(*fakeModel).calls = 1000, 1000
		sum, err := d.Decode(t.Context(), s.prompt, func(e Event) bool { return assert.Equal(t, Edge, e.Token.Origin) })
		require.NoError(t, err)
		assert.Equal(t, Summary{Stop: "length", Tokens: 512, CommitDelay: sum.CommitDelay}, sum)
	})
}

func TestOptions(t *testing.T) {
	m := &fakeModel{world: &world{vocab: 12}}
	for _, o := range []Options{
		{Branches: -1}, {Window: -1}, {InFlight: -1}, {Rows: -1}, {MaxTokens: -1}, {Room: -1}, {Vocab: -1}, {K: -1}, {Mode: 7},
	} {
		_, err := New(m, nil, nil, o)
		assert.Error(t, err, "%+v", o)
	}
	_, err := New(m, m.world, nil, Options{})
	assert.ErrorContains(t, err, "no cloud")
	d, err := New(m, nil, nil, Options{})
	require.NoError(t, err)
	_, err = d.Decode(t.Context(), nil, nil)
	assert.ErrorContains(t, err, "empty prompt")
	assert.Equal(t, 800*time.Millisecond, d.o.Deadline)
	assert.Equal(t, []int{2, 32, 4, 8, 512}, []int{d.o.Branches, d.o.Window, d.o.InFlight, d.o.Rows, d.o.MaxTokens})
}
