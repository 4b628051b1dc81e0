package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

func (b *linkBench) measureConnections(ctx context.Context, r *LinkReport) error {
	c := &LinkConnect{Connections: b.o.Connects, ExpectedHello: 2 * result.Milliseconds(b.o.RTT),
		ExpectedFirst: b.expectedTime(3), ExpectedEarly: b.expectedTime(1)}
	for range b.o.Connects {
		tickets := tls.NewLRUClientSessionCache(4)
		connected, first, _, err := b.timeConnection(ctx, tickets, false)
		if err != nil {
			return err
		}
		b.reportProgress(1)
		_, resumed, early, err := b.timeConnection(ctx, tickets, true)
		if err != nil {
			return err
		}
		b.reportProgress(1)
		if early {
			c.Early++
		}
		c.ConnectedNS, c.FirstNS = append(c.ConnectedNS, int64(connected)), append(c.FirstNS, int64(first))
		c.ResumedNS = append(c.ResumedNS, int64(resumed))
	}
	c.Connected, c.First = result.Latencies(c.ConnectedNS), result.Latencies(c.FirstNS)
	c.Resumed = result.Latencies(c.ResumedNS)
	r.Part, r.Connect = "connect", c
	return nil
}

// timeConnection makes a connection and asks immediately. It returns the time until the Welcome, if the connection is
// not lazy, and until the first answer.
func (b *linkBench) timeConnection(ctx context.Context, tickets tls.ClientSessionCache, lazy bool) (
	connected, first time.Duration, early bool, err error,
) {
	start := time.Now()
	c, err := b.dialGateway(ctx, tickets, lazy)
	if err != nil {
		return 0, 0, false, err
	}
	connected = time.Since(start)
	s, err := c.NewSession(ctx)
	if err == nil {
		_, err = s.Ask(ctx, terms.Question{Context: make([]int32, textGrowth), K: 1})
	}
	first = time.Since(start)
	if err == nil {
		_, err = c.Connect(ctx) // tickets arrive after the handshake
	}
	return connected, first, c.Stats().Early > 0, errors.Join(err, c.Close())
}

func (b *linkBench) measureOutages(ctx context.Context, r *LinkReport) error {
	o := &LinkOutage{Outages: b.o.Outages, OutageMS: result.Milliseconds(b.o.Outage),
		Expected: b.expectedTime(1) + 1000/b.o.AskRate}
	for range b.o.Outages {
		took, lost, err := b.timeRecovery(ctx)
		if err != nil {
			return err
		}
		o.SamplesNS, o.Lost = append(o.SamplesNS, int64(took)), o.Lost+lost
		b.reportProgress(1)
	}
	o.Recovery = result.Latencies(o.SamplesNS)
	r.Part, r.Outage = "outage", o
	return nil
}

// timeRecovery returns the time from the end of an outage until the first answer, and the number of asks without an
// answer.
func (b *linkBench) timeRecovery(ctx context.Context) (took time.Duration, lost int, err error) {
	c, s, text, err := b.openSession(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	t := timedAsks{answered: make(chan time.Time)}
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	most := int((b.o.Outage + time.Minute).Seconds() * b.o.AskRate)
	asking.Go(func() { t.runAsks(ctx, s, text, 1, most, b.o.AskRate, func() {}) })
	if _, err = b.waitForAnswer(ctx, &t, time.Time{}); err != nil {
		return 0, 0, err
	}
	b.l.Blackhole(true)
	_ = retry.Wait(ctx, b.o.Outage) // if ctx has ended, the next answer reports it
	b.l.Blackhole(false)
	over := time.Now()
	at, err := b.waitForAnswer(ctx, &t, over)
	t.mu.Lock()
	defer t.mu.Unlock()
	return at.Sub(over), t.failed, err
}

// waitForAnswer waits for an answer after a time, for at most a minute.
func (b *linkBench) waitForAnswer(ctx context.Context, t *timedAsks, after time.Time) (time.Time, error) {
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	for {
		select {
		case at := <-t.answered:
			if at.After(after) {
				return at, nil
			}
		case <-patience.C:
			return after, errors.New("bench: no answer for a minute after an outage")
		case <-ctx.Done():
			return after, context.Cause(ctx)
		}
	}
}
