package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// measureLink returns the reports of all parts.
func measureLink(t *testing.T, o LinkOptions) (all []LinkReport) {
	require.NoError(t, Link(t.Context(), o, func(r LinkReport) error { all = append(all, r); return nil }))
	return all
}

// TestLink: no time is shorter than computed, every byte and ask is counted, and each part is present.
func TestLink(t *testing.T) {
	type progress struct{ done, of int }
	var last progress
	const rtt, model = 40 * time.Millisecond, 10 * time.Millisecond
	all := measureLink(t, LinkOptions{RTT: rtt, Model: model, Tokens: []int{8, 200}, Asks: 20,
		AskRate: 100, Connects: 2, Outages: 1, Outage: 100 * time.Millisecond,
		Progress: func(done, of int) { last = progress{done, of} }})
	require.Len(t, all, 6)
	expected := []float64{50, 50, 80, 130, 50, 60}
	for i, timed := range []string{
		"ask with 8 new tokens, until its answer", "ask with 200 new tokens, until its answer",
		"new connection, until it is there", "new connection, until its first answer",
		"connection resumed with 0-RTT, until its first answer", "end of an outage of 100 ms, until an answer"} {
		r := all[i]
		assert.Equal(t, timed, r.Timed)
		assert.Equal(t, 40., r.RTTMS)
		assert.Equal(t, 10., r.ModelMS)
		assert.Equal(t, expected[i], *r.Bound)
		assert.Equal(t, []int{20, 20, 2, 2, 2, 1}[i], r.Answers)
		assert.Equal(t, result.Summarise(r.SamplesNS), r.Time)
		assert.Positive(t, r.Quiet.Seconds)
		assert.Len(t, r.SamplesNS, r.Answers)
		for _, ns := range r.SamplesNS {
			if i < 5 {
				assert.GreaterOrEqual(t, ns, int64(expected[i]*1e6))
			}
		}
	}
	assert.Equal(t, progress{45, 45}, last)
	for i, tokens := range []int{8, 200} {
		checkAsks(t, all[i], tokens)
	}
	assert.Greater(t, all[1].Wire.BytesUp, all[0].Wire.BytesUp+20*300)
	assert.Equal(t, 100., all[5].OutageMS)
	assert.GreaterOrEqual(t, all[5].SamplesNS[0], int64(rtt/2), "packets in flight are lost")
}

// checkAsks checks the traffic of 20 asks of a number of new tokens.
func checkAsks(t *testing.T, r LinkReport, tokens int) {
	assert.Zero(t, r.Errors)
	assert.Equal(t, 100., r.Rate)
	assert.Positive(t, r.Late.Max)
	assert.Greater(t, r.BytesDown, 20*3)
	assert.GreaterOrEqual(t, r.BytesUp, 20*tokens*2, "17 bits each, at random")
	assert.Less(t, float64(r.BytesUp), 20*(float64(tokens)*2.5+60), "only new tokens are sent")
	assert.Greater(t, r.Wire.BytesUp, int64(r.BytesUp)+headerBytes*2, "asks may share a packet")
	assert.Greater(t, r.Wire.BytesDown, int64(r.BytesDown)+headerBytes*2)
}

// TestGoOn: an ask has the previous text and new tokens.
func TestGoOn(t *testing.T) {
	path := extendText([]int32{7, 8}, 3, rand.New(rand.NewPCG(1, 2)))
	assert.Len(t, path, 5)
	assert.Equal(t, []int32{7, 8}, path[:2])
}

// TestOnWire: bytes are those of the datagrams with their headers.
func TestOnWire(t *testing.T) {
	bytes := bytesBetween(link.Counts{Packets: 5, Bytes: 1000}, link.Counts{Packets: 25, Bytes: 4000})
	assert.EqualValues(t, 3560, bytes)
}

// TestFirstConnection: only a resumed connection sends a question before the handshake has ended.
func TestFirstConnection(t *testing.T) {
	b, err := openLinkBench(LinkOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.closeBench()) }()
	tickets := tls.NewLRUClientSessionCache(4)
	for _, resumed := range []bool{false, true} {
		_, _, early, err := b.timeConnection(t.Context(), tickets, resumed)
		require.NoError(t, err)
		assert.Equal(t, resumed, early)
	}
}

// TestLinkStall: the latency of a question that becomes due during an outage counts from when it was due.
func TestLinkStall(t *testing.T) {
	b, err := openLinkBench(LinkOptions{RTT: 2 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.closeBench()) }()
	c, s, text, err := b.openSession(t.Context())
	require.NoError(t, err)
	b.l.Blackhole(true)
	over := time.AfterFunc(300*time.Millisecond, func() { b.l.Blackhole(false) })
	defer over.Stop()
	var m timedAsks
	start := time.Now()
	m.runAsks(t.Context(), s, text, 8, 20, 100, func() {}) // due in the first 220 ms
	all := time.Since(start)
	late := timedAsks{took: make([]time.Duration, 1), late: make([]time.Duration, 1)}
	late.sendAsk(t.Context(), s, text, 0, time.Now().Add(-time.Hour))
	assert.Greater(t, late.took[0], time.Hour, "the latency of a question counts from when it was due")
	assert.GreaterOrEqual(t, late.late[0], time.Hour)
	require.NoError(t, c.Close())
	require.Zero(t, m.failed)
	for k, took := range m.took {
		assert.GreaterOrEqual(t, took, time.Duration(270-10*k)*time.Millisecond, "question %d", k)
		assert.LessOrEqual(t, took, all-time.Duration(10*k)*time.Millisecond, "question %d is due later", k)
		assert.Less(t, m.late[k], took)
	}
}

// failing is a model that fails for some questions, by their number from 1.
type failing struct {
	fakeModel
	asked *atomic.Int64
	fails func(n int64) bool
}

// Ask implements [gateway.Upstream].
func (f failing) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	if f.fails(f.asked.Add(1)) {
		return terms.Reply{}, errors.New("no answer")
	}
	return f.fakeModel.Ask(ctx, q)
}

// TestLinkBroken: a part whose first ask fails ends with its error, and leaves no connection.
func TestLinkBroken(t *testing.T) {
	m := failing{asked: new(atomic.Int64), fails: func(int64) bool { return true }}
	g, stop, err := serveFake(nil, gateway.Options{}, m)
	require.NoError(t, err)
	defer stop()
	b := &linkBench{g: g, o: LinkOptions{Asks: 1, AskRate: 1, Connects: 1, Outages: 1, Outage: time.Minute}}
	held.Same(t, func() {
		_, err := b.measureAsks(t.Context(), 8)
		assert.ErrorIs(t, err, netproto.Failed)
		_, err = b.measureConnections(t.Context())
		assert.ErrorIs(t, err, netproto.Failed)
		_, err = b.measureOutages(t.Context())
		assert.ErrorIs(t, err, netproto.Failed)
	})
}

// TestNoAnswer: an answer that does not come within a minute is an error.
func TestNoAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := new(linkBench).waitForAnswer(t.Context(), new(timedAsks), begin)
		assert.ErrorContains(t, err, "no answer for a minute")
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}

// TestOutageEnds: the time of an outage counts from its end.
func TestOutageEnds(t *testing.T) {
	b, err := openLinkBench(LinkOptions{Outage: 300 * time.Millisecond, AskRate: 100})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.closeBench()) }()
	start := time.Now()
	took, lost, err := b.timeRecovery(t.Context())
	all := time.Since(start)
	require.NoError(t, err)
	assert.Zero(t, lost)
	assert.LessOrEqual(t, took, all-b.o.Outage)
}

// TestLinkFailures: asks without an answer are counted, of all outages together, and have no latency.
func TestLinkFailures(t *testing.T) {
	over := func(fails func(n int64) bool, o LinkOptions, part func(*linkBench) ([]LinkReport, error)) LinkReport {
		g, stop, err := serveFake(nil, gateway.Options{}, failing{asked: new(atomic.Int64), fails: fails})
		require.NoError(t, err)
		l, err := link.New(link.Options{Target: g.address})
		require.NoError(t, err)
		b := &linkBench{o: o, g: g, l: l, relay: remote.Spawn(l.Run), stop: stop}
		b.g.address = l.Addr().String()
		all, err := part(b)
		require.NoError(t, err)
		require.NoError(t, b.closeBench())
		return all[0]
	}
	a := over(func(n int64) bool { return n == 3 || n == 5 }, LinkOptions{Asks: 6, AskRate: 500},
		func(b *linkBench) ([]LinkReport, error) { return b.measureAsks(t.Context(), 8) })
	assert.Equal(t, 4, a.Answers)
	assert.Equal(t, 2, a.Errors)
	assert.Len(t, a.SamplesNS, 4)
	// the first ask of the first outage, which the second one follows
	o := over(func(n int64) bool { return n == 2 },
		LinkOptions{Outages: 2, Outage: 20 * time.Millisecond, AskRate: 200},
		func(b *linkBench) ([]LinkReport, error) { return b.measureOutages(t.Context()) })
	assert.Equal(t, 2, o.Answers)
	assert.Equal(t, 1, o.Errors)
	assert.Len(t, o.SamplesNS, 2)
}

// TestLinkLoss: lost packets are sent again later; the seed decides which. With a trace there is no expected time.
func TestLinkLoss(t *testing.T) {
	lossy := LinkOptions{RTT: 4 * time.Millisecond, Loss: 0.2, Seed: 7, Tokens: []int{8}, Asks: 40, AskRate: 200}
	a := measureLink(t, lossy)[0]
	assert.Equal(t, 40, a.Answers)
	assert.Equal(t, 0.2, a.Loss)
	b, err := openLinkBench(lossy)
	require.NoError(t, err)
	_, err = b.measureAsks(t.Context(), 8)
	require.NoError(t, err)
	assert.Positive(t, b.l.Stats().Up.Lost)
	assert.Positive(t, b.l.Stats().Down.Lost)
	require.NoError(t, b.closeBench())
	assert.Greater(t, a.Time.Max, *a.Bound*1.5)
	path := filepath.Join(t.TempDir(), "a.rtt.csv")
	require.NoError(t, os.WriteFile(path, []byte("t_ms,rtt_ms\n0,30\n1000,30\n"), 0o600))
	traced := lossy
	traced.Loss, traced.Traces, traced.Asks = 0, []string{path}, 3
	assert.Nil(t, measureLink(t, traced)[0].Bound)
}

// TestLinkStopped: a measurement that is interrupted returns the cause, and leaves nothing.
func TestLinkStopped(t *testing.T) {
	held.Same(t, func() {
		for _, o := range []LinkOptions{{Tokens: []int{8}, Asks: 1 << 20, AskRate: 500},
			{Outages: 1, Outage: time.Minute, AskRate: 100}} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(150*time.Millisecond, cancel)
			assert.ErrorIs(t, Link(ctx, o, nil), context.Canceled, "%+v", o)
		}
		assert.ErrorIs(t, Link(t.Context(), LinkOptions{Traces: []string{"none"}}, nil), link.ErrTraceName)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, o := range []LinkOptions{{Connects: 1}, {Outages: 1, Outage: 1, AskRate: 1}} {
			assert.ErrorIs(t, Link(ctx, o, nil), context.Canceled, "%+v", o)
		}
		err := Link(t.Context(), LinkOptions{Connects: 1},
			func(LinkReport) error { return context.Canceled })
		assert.ErrorIs(t, err, context.Canceled, "the error of a progress callback")
	})
}
