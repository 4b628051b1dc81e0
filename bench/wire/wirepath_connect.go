package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// measureConnections times new connections until the gateway's Welcome, after two round trips for the handshake and the
// Hello, and until the first answer; then resumed ones, which send their first ask at once.
func (b *linkBench) measureConnections(ctx context.Context) ([]LinkReport, error) {
	all := []LinkReport{
		{Timed: "new connection, until it is there", Bound: new(2 * result.Milliseconds(b.o.RTT))},
		{Timed: "new connection, until its first answer", Bound: new(b.expectedTime(3))},
		{Timed: "connection resumed with 0-RTT, until its first answer", Bound: new(b.expectedTime(1))},
	}
	add := func(r *LinkReport, took time.Duration, counts bool) {
		if r.SamplesNS = append(r.SamplesNS, int64(took)); counts {
			r.Answers++
		}
	}
	for range b.o.Connects {
		tickets := tls.NewLRUClientSessionCache(4)
		connected, first, _, err := b.timeConnection(ctx, tickets, false)
		if err != nil {
			return nil, err
		}
		b.reportProgress(1)
		_, resumed, early, err := b.timeConnection(ctx, tickets, true)
		if err != nil {
			return nil, err
		}
		b.reportProgress(1)
		add(&all[0], connected, true)
		add(&all[1], first, true)
		add(&all[2], resumed, early)
	}
	return all, nil
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

// measureOutages times from the end of an outage until the first answer: the next ask is due, a round trip, the model.
func (b *linkBench) measureOutages(ctx context.Context) ([]LinkReport, error) {
	length := result.Milliseconds(b.o.Outage)
	r := LinkReport{Timed: fmt.Sprintf("end of an outage of %s ms, until an answer", chart.Number(length)),
		OutageMS: length, Answers: b.o.Outages, Bound: new(b.expectedTime(1) + 1000/b.o.AskRate)}
	for range b.o.Outages {
		took, lost, err := b.timeRecovery(ctx)
		if err != nil {
			return nil, err
		}
		r.SamplesNS, r.Errors = append(r.SamplesNS, int64(took)), r.Errors+lost
		b.reportProgress(1)
	}
	return []LinkReport{r}, nil
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
