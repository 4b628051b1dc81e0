package capacity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// priced is a model that only sleeps: its passes take the time of costs.
type priced struct {
	c            *Costs
	passes, rows int
}

// Forward implements [batch.Model].
func (m *priced) Forward(
	_ context.Context, _ backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	time.Sleep(m.c.Time(len(rows), len(want.Rows)))
	m.passes, m.rows = m.passes+1, m.rows+len(rows)
	for i := range out {
		for id := range int32(max(want.K, 1)) {
			out[i].Top = append(out[i].Top, backend.Candidate{ID: id})
		}
	}
	return nil
}

// slots is an empty store of keys and values.
type slots int

func (s slots) Config() backend.KVConfig { return backend.KVConfig{Slots: int(s)} }
func (s slots) Bytes() int64             { return 0 }
func (s slots) Copy(_, _ int32)          {}
func (s slots) Swap(_, _ int32)          {}
func (s slots) Read(int, int, []byte)    {}
func (s slots) Write(int, int, []byte)   {}

// direct is the service over a link without a gateway, as a device uses it.
type direct struct {
	s      *batch.Service
	device uint64
	way    time.Duration
}

// Ask implements [draft.Cloud]. It arrives a moment early, a different one for each device: no two asks arrive at the
// same instant, and none with the end of a pass, because the order of the goroutines would be undefined. An ask that is
// due when a pass ends thus takes part in the next pass, as in the simulation.
func (d direct) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	moment := time.Duration(d.device) * time.Microsecond
	time.Sleep(d.way - moment)
	a, err := d.s.Ask(ctx, terms.Job{Session: d.device, Device: d.device,
		Question: terms.Question{Context: q.Context, K: q.K,
			AuditFrom: q.AuditFrom, Verify: q.Verify}})
	time.Sleep(d.way)
	return draft.Answer{BytesUp: 1, BytesDown: 2, Reply: terms.Reply{Token: a.Token}}, err
}

// TestAsService: the simulated service takes the same times as the real one in virtual time, from an idle service to an
// overloaded one.
func TestAsService(t *testing.T) {
	racing.Spare(t)
	for _, mode := range []Mode{Routed, Verified} {
		for _, n := range []int{1, 30, 100} {
			c, w := linear(20, 3, 1), usual()
			window := Window{2 * time.Minute, 17 * time.Minute}
			simulation := newGateway(&w, &c, mode, window)
			for i := range n {
				simulation.join(i)
			}
			require.NoError(t, simulation.run(t.Context()))
			want := simulation.point(&w)
			bubble.Test(t, func(t *testing.T) {
				m := &priced{c: &c}
				s, err := batch.New(m, slots(1<<20), batch.Options{Lookup: -1, Apart: true, Context: 1000})
				require.NoError(t, err)
				defer s.Close()
				l := &Live{Workload: w, Mode: mode, vocab: 50000,
					Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
						return direct{s, uint64(device) + 1, w.RTT / 2}, func() {}, nil
					}}
				got, err := l.Run(t.Context(), n, window)
				require.NoError(t, err)
				t.Logf("%s, %d devices: p50 %.0f of %.0f, p95 %.0f of %.0f", mode, n, got.P50, want.P50, got.P95,
					want.P95)
				assert.InEpsilon(t, want.Answers, got.Answers, 0.02)
				assert.InEpsilon(t, want.P50, got.P50, 0.03)
				assert.InEpsilon(t, want.P95, got.P95, 0.08)
				assert.InEpsilon(t, want.AsksPS, got.AsksPS, 0.03)
				assert.InEpsilon(t, want.KVTokens, got.KVTokens, 0.2)
				assert.InDelta(t, 2, got.BytesDown/got.BytesUp, 1e-9)
			})
		}
	}
}

// TestLiveEnds: a run ends with the first error of a device, or with its context, and leaves no device connected.
func TestLiveEnds(t *testing.T) {
	w := usual()
	w.Think, w.Budget = 10*time.Millisecond, 1
	var mu sync.Mutex
	connected := 0
	l := &Live{Workload: w, Mode: Routed, vocab: 10,
		Dial: func(context.Context, int) (draft.Cloud, func(), error) {
			mu.Lock()
			defer mu.Unlock()
			connected++
			return failing{}, func() { connected-- }, nil
		}}
	_, err := l.Run(t.Context(), 3, Window{0, time.Hour})
	assert.ErrorIs(t, err, errRefused)
	assert.Zero(t, connected)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = l.Run(ctx, 3, Window{0, time.Hour})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Zero(t, connected)
	for _, n := range []int{0, -1, maxLive + 1} {
		_, err = l.Run(t.Context(), n, Window{0, time.Hour})
		assert.ErrorContains(t, err, "devices in this process")
	}
	dial := l.Dial
	for refused := range 3 {
		l.Dial = func(ctx context.Context, device int) (draft.Cloud, func(), error) {
			if device == refused {
				return nil, nil, errRefused
			}
			return dial(ctx, device)
		}
		_, err = l.Run(t.Context(), 3, Window{0, time.Hour})
		assert.ErrorIs(t, err, errRefused)
		assert.ErrorContains(t, err, fmt.Sprintf("connect device %d of 3", refused+1))
		assert.Zero(t, connected)
	}
}

var errRefused = errors.New("refused")

// failing is a cloud that answers no question.
type failing struct{}

// Ask implements [draft.Cloud].
func (failing) Ask(context.Context, draft.Question) (draft.Answer, error) {
	return draft.Answer{}, errRefused
}
