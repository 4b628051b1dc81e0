package wire

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/cputime"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestGateway: the number of questions follows from devices, rate and time, each is counted once, and no time is
// shorter than that of the model.
func TestGateway(t *testing.T) {
	racing.Spare(t)
	var progress atomic.Int64
	r, err := Gateway(t.Context(), GatewayOptions{Devices: 5, Rate: 80, Model: 20 * time.Millisecond,
		Duration: 500 * time.Millisecond, Progress: func(done, of int) {
			progress.Store(int64(done))
			assert.Equal(t, 200, of)
		}})
	require.NoError(t, err)
	assert.Equal(t, 200, r.Asks)
	assert.Equal(t, 200, r.Answers)
	assert.LessOrEqual(t, r.PerSecond, 400.)
	assert.Greater(t, r.PerSecond, 40.)
	assert.Empty(t, r.Refusals)
	assert.Zero(t, r.Errors)
	assert.EqualValues(t, 200, progress.Load())
	assert.Equal(t, 5, r.Devices)
	assert.Equal(t, 80., r.Rate)
	assert.Equal(t, 20., r.ModelMS)
	assert.Equal(t, 0.5, r.Seconds)
	assert.Equal(t, runtime.GOMAXPROCS(0), r.Cores)
	for _, l := range []result.Times{r.Time, r.InGateway} {
		assert.GreaterOrEqual(t, l.P50, 19.9) // three digits
		assert.GreaterOrEqual(t, l.P90, l.P50)
		assert.GreaterOrEqual(t, l.P99, l.P90)
		assert.GreaterOrEqual(t, l.P999, l.P99)
		assert.GreaterOrEqual(t, l.Max, l.P999)
	}
	assert.GreaterOrEqual(t, r.Time.P50, r.InGateway.P50)
	assert.Greater(t, r.ConnectMS, 20.)
	assert.Greater(t, r.BytesUp, 200*20, "eight tokens and a head")
	assert.Greater(t, r.BytesDown, 200*3)
	assert.Less(t, r.BytesDown, r.BytesUp)
	assert.NotZero(t, r.Memory) // garbage of before may make it negative
	assert.Less(t, r.Memory, int64(5<<20))
	if cputime.Used() > 0 {
		assert.Positive(t, r.CPU)
	}
	before := cputime.Used() // more than one ask takes
	r, err = Gateway(t.Context(), GatewayOptions{Devices: 1, Rate: 100, Duration: 20 * time.Millisecond})
	require.NoError(t, err)
	assert.LessOrEqual(t, r.CPU, cputime.Used()-before, "the time before the measurement does not count")
}

// TestLoadReport: figures per second count answers, up to the last one or over the whole time, and each time is in its
// own histogram.
func TestLoadReport(t *testing.T) {
	for last, perSecond := range map[time.Duration]float64{time.Second: 3, 3 * time.Second: 2} {
		l := newLoad(GatewayOptions{Devices: 2})
		l.asks, l.answers, l.errors, l.up, l.down, l.last = 10, 6, 1, 500, 70, last
		l.refusals["busy"] = 3
		result.Add(l.whole, 8*time.Millisecond)
		result.Add(l.inside, 2*time.Millisecond)
		r := GatewayReport{Seconds: 2}
		l.fillReport(&r)
		assert.Equal(t, 10, r.Asks)
		assert.Equal(t, 6, r.Answers)
		assert.Equal(t, 1, r.Errors)
		assert.Equal(t, map[string]int{"busy": 3}, r.Refusals)
		assert.Equal(t, 500, r.BytesUp)
		assert.Equal(t, 70, r.BytesDown)
		assert.Equal(t, perSecond, r.PerSecond, "last answer after %v", last)
		assert.InDelta(t, 8, r.Time.P50, 0.01)
		assert.InDelta(t, 2, r.InGateway.P50, 0.01)
	}
}

// TestGatewayNoQuestion: if no question is due, all figures of questions are 0.
func TestGatewayNoQuestion(t *testing.T) {
	r, err := Gateway(t.Context(), GatewayOptions{Devices: 20, Rate: 1e-6, Duration: time.Millisecond})
	require.NoError(t, err)
	assert.Zero(t, r.Asks)
	assert.Zero(t, r.CPU)
	assert.Zero(t, r.BytesUp)
	assert.Zero(t, r.BytesDown)
	assert.Zero(t, r.Time)
	assert.NotNil(t, r.Refusals, "an object in JSON")
}

// TestGatewayEvents: only answers have a time in the gateway, and only while it is measured.
func TestGatewayEvents(t *testing.T) {
	l := newLoad(GatewayOptions{Devices: 1})
	for _, l.measuring = range []bool{false, true} {
		for kind := gateway.Connected; kind <= gateway.Decoded; kind++ {
			l.recordEvent(gateway.Event{Kind: kind, Took: time.Second})
		}
	}
	assert.EqualValues(t, 1, l.inside.TotalCount())
}

// stalling is a model that answers no question before the time in until, if there is one.
type stalling struct {
	fakeModel
	until *atomic.Pointer[time.Time]
	fail  *atomic.Bool
}

func (s stalling) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	if s.fail.Load() {
		return terms.Reply{}, errors.New("broken")
	}
	if until := s.until.Load(); until != nil {
		time.Sleep(time.Until(*until))
	}
	return s.fakeModel.Ask(ctx, q)
}

// TestGatewayStall: the latency of a question that became due during a stall counts from when it was due; refusals are
// counted with their reason.
func TestGatewayStall(t *testing.T) {
	m := stalling{until: new(atomic.Pointer[time.Time]), fail: new(atomic.Bool)}
	l := newLoad(GatewayOptions{Devices: 2, Rate: 100, Duration: 400 * time.Millisecond})
	g, stop, err := serveFake(l.recordEvent, gateway.Options{}, m)
	require.NoError(t, err)
	defer stop()
	var r GatewayReport
	require.NoError(t, l.connectDevices(t.Context(), g, &r))
	until := time.Now().Add(500 * time.Millisecond) // 100 ms before the first question is due, and all of the time
	m.until.Store(&until)
	require.NoError(t, l.runDevices(t.Context()))
	l.fillReport(&r)
	assert.Equal(t, 80, r.Answers)
	l.mu.Lock()
	assert.LessOrEqual(t, l.inside.TotalCount(), int64(80), "the first questions are not counted")
	l.mu.Unlock()
	assert.Greater(t, r.Time.Max, 300.)
	assert.Greater(t, r.Time.P50, 100., "half of them were due 200 ms before the end of it, or earlier")

	m.fail.Store(true)
	last := l.last
	require.NoError(t, l.runDevices(t.Context()))
	assert.Equal(t, last, l.last, "of an answer")
	l.fillReport(&r)
	assert.Equal(t, 160, r.Asks)
	assert.Equal(t, 80, r.Answers)
	assert.Equal(t, map[string]int{"the large model failed": 80}, r.Refusals)

	m.fail.Store(false)
	d := l.devices[0]
	l.sendAsk(t.Context(), d, d.nextContext(0), time.Now().Add(-time.Hour)) // this process stalled, not the gateway
	assert.Greater(t, d.took[len(d.took)-1], time.Hour)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	l.sendAsk(over, d, d.nextContext(0), time.Now())
	assert.Equal(t, 1, l.errors, "neither an answer nor a refusal")
	require.NoError(t, l.closeClients())
}

// TestGatewayStopped: a measurement that is interrupted ends with an error, and leaves nothing.
func TestGatewayStopped(t *testing.T) {
	held.Same(t, func() {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Gateway(ctx, GatewayOptions{Devices: 2, Rate: 2000, Duration: time.Hour,
			Progress: func(int, int) { cancel() }})
		require.ErrorIs(t, err, context.Canceled)
		_, err = Gateway(ctx, GatewayOptions{Devices: 2, Rate: 1, Duration: time.Hour})
		require.ErrorContains(t, err, "connect 2 devices")
	})
}

// TestLoadTexts: a text grows by the same number of tokens each time, and starts again when it is long.
func TestLoadTexts(t *testing.T) {
	d := &loadDevice{path: make([]int32, textBefore)}
	for i := range d.path {
		d.path[i] = int32(i + 1)
	}
	first := d.nextContext(0)
	assert.Len(t, first, textBefore+textGrowth)
	assert.Equal(t, d.path, first[:textBefore])
	assert.Equal(t, append(first, d.nextContext(1)[len(first):]...), d.nextContext(1))
	turns := (textLimit - textBefore) / textGrowth
	assert.Len(t, d.nextContext(turns-1), textLimit)
	assert.Equal(t, first, d.nextContext(turns))
}
