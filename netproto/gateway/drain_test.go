package gateway_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// leaves starts to stop the gateway, and returns a channel that is closed when it has stopped.
func (w *world) leaves() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.stop()
	}()
	settle()
	return ended
}

// TestDrainAnswers: a gateway that stops informs its clients, accepts no new asks and connections, answers the open
// asks, and closes the connections half a second after the last answer.
func TestDrainAnswers(t *testing.T) {
	up := &fake{parallel: 1}
	opt := gateway.Options{AskTimeout: time.Hour}.With(gateway.Shares{DrainTimeout: time.Hour})
	inWorld(t, opt, up, func(t *testing.T, w *world) {
		up.hold = make(chan struct{})
		busy, idle, silent := w.enter(guest{}), w.enter(guest{}), w.dial(guest{})
		ask := whole(t, 1, path(5, 1))
		first := busy.send(ask.Append(nil))
		settle()
		second := busy.send(ask.Append(nil)) // it waits for the place of the first one
		settle()
		began := time.Now()
		ended := w.leaves()
		for _, r := range []*raw{busy, idle} {
			kind, b := r.hear(r.control)
			require.Equal(t, netproto.KindRefusal, kind)
			refusal, _, err := netproto.ParseRefusal(b)
			require.NoError(t, err)
			assert.Equal(t, netproto.Refusal{Code: netproto.Draining}, refusal)
		}
		assert.Equal(t, netproto.Refusal{Code: netproto.Draining}, busy.refused(ask.Append(nil), netproto.Draining))
		busy.refused(syncOf(t, 1, path(6, 1)), netproto.Draining)
		settle()
		refused := w.eventsOf(gateway.Refused)
		assert.Equal(t, []netproto.Kind{netproto.KindAsk, netproto.KindSync},
			[]netproto.Kind{refused[0].Message, refused[1].Message})
		assert.Equal(t, netproto.Draining, idle.ends())
		assert.Equal(t, netproto.Draining, silent.ends())
		assert.InDelta(t, 0.5, time.Since(began).Seconds(), 0.1)
		_, err := w.tryDial(guest{})
		require.Error(t, err)
		time.Sleep(time.Minute - time.Since(began))
		first.CancelRead(1) // one of two open asks
		time.Sleep(time.Minute)
		require.NoError(t, busy.Context().Err())
		close(up.hold)
		answered := time.Now()
		kind, _ := busy.hear(second)
		assert.Equal(t, netproto.KindAnswer, kind)
		assert.Equal(t, netproto.Draining, busy.ends())
		assert.InDelta(t, 0.5, time.Since(answered).Seconds(), 0.1)
		<-ended
		assert.InDelta(t, 0.5, time.Since(answered).Seconds(), 0.1)
		assert.Len(t, up.asked, 2)
		draining, drained := w.eventsOf(gateway.Draining), w.eventsOf(gateway.Drained)
		assert.Equal(t, []gateway.Event{{Kind: gateway.Draining, Conns: 3}}, draining)
		require.Len(t, drained, 1)
		assert.InDelta(t, 120.5, drained[0].Lasted.Seconds(), 1)
		assert.Equal(t, []gateway.Event{{Kind: gateway.Drained, Lasted: drained[0].Lasted}}, drained)
		assert.Equal(t, []uint64{up.asked[0].Session}, up.gone(), "the upstream may outlive the gateway")
	})
}

// TestDrainBound: a drain has a timeout for an upstream that does not answer.
func TestDrainBound(t *testing.T) {
	up := &fake{}
	opt := gateway.Options{AskTimeout: time.Hour}.With(gateway.Shares{DrainTimeout: 10 * time.Second})
	inWorld(t, opt, up, func(t *testing.T, w *world) {
		up.hold = make(chan struct{})
		busy, idle := w.enter(guest{}), w.enter(guest{})
		s := busy.send(whole(t, 1, path(30, 1)).Append(nil))
		settle()
		began := time.Now()
		ended := w.leaves()
		assert.Equal(t, netproto.Draining, idle.ends())
		_, err := answerOn(s)
		require.Error(t, err)
		assert.Equal(t, netproto.Draining, busy.ends())
		<-ended
		assert.InDelta(t, 10, time.Since(began).Seconds(), 0.2)
		assert.Equal(t, 1, up.dropped)
		drained := w.eventsOf(gateway.Drained)
		assert.Equal(t, []gateway.Event{{Kind: gateway.Drained, Lasted: drained[0].Lasted, Conns: 1}}, drained)
		assert.Len(t, up.gone(), 1, "after the last ask")
	})
}

// TestDrainAbandoned: a drain waits for asks, not for clients: neither for one that is gone silently, nor for
// incomplete messages, nor for one that does not read.
func TestDrainAbandoned(t *testing.T) {
	const ever = time.Hour // what the gateway must not wait for
	opt := gateway.Options{MessageTimeout: ever, IdleTimeout: ever}.With(gateway.Shares{DrainTimeout: ever})
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		gone := w.enter(guest{})
		gone.asks(1, path(10, 1))
		gone.say(syncOf(t, 1, path(20, 1)))
		half := w.enter(guest{})
		for range 3 {
			stream, err := half.OpenStream()
			require.NoError(t, err)
			_, err = stream.Write([]byte{byte(netproto.KindAsk), 0x20, 1, 2})
			require.NoError(t, err)
		}
		half.asks(1, path(5, 1)) // so that the streams before it have arrived
		silent := w.dial(guest{})
		_, err := silent.control.Write([]byte{byte(netproto.KindHello)})
		require.NoError(t, err)
		settle()
		w.ether.watch(func(packet) bool { return true })
		began := time.Now()
		w.stop()
		assert.InDelta(t, 0.5, time.Since(began).Seconds(), 0.2)
		w.ether.watch(nil)
	})
}

// TestTwoSockets: paths that a device sent on one socket are known on another socket of the same gateway; either may
// end first.
func TestTwoSockets(t *testing.T) {
	inWorld(t, gateway.Options{}, &fake{}, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		first, second := w.at, "10.0.0.2:443"
		socket, done := w.ether.listen(t, second), make(chan error, 1)
		go func() { done <- w.Serve(ctx, socket) }()
		one := w.enter(guest{device: 1})
		one.asks(1, path(9, 1))
		w.at = second
		two := w.enter(guest{device: 1})
		two.goesOn(1, path(9, 1), []int32{1})
		cancel()
		require.NoError(t, <-done)
		assert.Equal(t, netproto.Draining, two.ends())
		one.asks(1, path(9, 1))
		w.at = first
		w.enter(guest{device: 1}).goesOn(1, path(9, 1), []int32{1})
		require.NoError(t, socket.Close())
	})
}

// TestServeEndsLast: nothing of the gateway runs after Serve has returned, not even calls of the upstream.
func TestServeEndsLast(t *testing.T) {
	up := &slowForget{&fake{}, nil}
	inWorld(t, gateway.Options{}.With(gateway.Shares{SessionIdle: 8 * time.Second}), up, func(t *testing.T, w *world) {
		up.forgotten = make(chan struct{})
		w.enter(guest{}).asks(1, path(5, 1))
		time.Sleep(10 * time.Second) // Forget is running
		ended := w.leaves()
		time.Sleep(time.Minute)
		select {
		case <-ended:
			t.Error("Serve has returned while Forget runs")
		default:
		}
		close(up.forgotten)
		<-ended
	})
}

// slowForget is an upstream with a slow Forget.
type slowForget struct {
	*fake
	forgotten chan struct{}
}

func (s *slowForget) Forget(uint64) { <-s.forgotten }
