package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// decoder is a fake that decodes ahead at a fixed rate.
type decoder struct {
	*fake
	every  time.Duration
	ends   []int32
	audit  netproto.Audit
	refuse func(q terms.Job) error // if set and not nil, the error of Next
	next   func(token int32) int32 // if set, replaces the tokens of Next

	running    atomic.Int32
	maxRunning atomic.Int32 // max number of concurrent calls

	lock sync.Mutex
	jobs []terms.Job
}

func (d *decoder) Info() gateway.Info {
	info := d.fake.Info()
	info.Ends, info.Audit = d.ends, d.audit
	return info
}

func (d *decoder) Next(ctx context.Context, q terms.Job) (int32, error) {
	d.lock.Lock()
	d.jobs = append(d.jobs, q)
	d.lock.Unlock()
	if n := d.running.Add(1); n > d.maxRunning.Load() {
		d.maxRunning.Store(n)
	}
	defer d.running.Add(-1)
	select {
	case <-time.After(d.every):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if d.refuse != nil {
		if err := d.refuse(q); err != nil {
			return 0, err
		}
	}
	if d.next != nil {
		return d.next(tokenAfter(q.Context)), nil
	}
	return tokenAfter(q.Context), nil
}

// asked returns the questions of Next.
func (d *decoder) asked() []terms.Job {
	d.lock.Lock()
	defer d.lock.Unlock()
	return slices.Clone(d.jobs)
}

// rest reads tokens ahead until the stream ends without an error.
func rest(t *testing.T, s *quic.Stream) (all []int32) {
	t.Helper()
	for {
		_, b, err := netproto.ReadFrame(s, 16)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		a, _, err := netproto.ParseAhead(b)
		require.NoError(t, err)
		all = append(all, a.Token)
	}
}

// continuation returns the answer of the fake after a path, and n more tokens.
func continuation(p []int32, n int) []int32 {
	p = slices.Clone(p)
	for range n + 1 {
		p = append(p, tokenAfter(p))
	}
	return p[len(p)-n-1:]
}

// wanting returns an ask for a whole path with tokens ahead.
func wanting(t *testing.T, session uint32, p []int32, ahead int) netproto.Ask {
	t.Helper()
	a := whole(t, session, p)
	a.Ahead = ahead
	return a
}

// follow asks, and returns the stream when the answer has arrived.
func (r *raw) follow(a netproto.Ask) (*quic.Stream, terms.Reply) {
	r.t.Helper()
	s := r.send(a.Append(nil))
	answer, err := answerOn(s)
	require.NoError(r.t, err)
	return s, answer
}

// TestAhead: the tokens after an answer equal the answers to questions about these contexts, as many as requested,
// allowed and possible. The upstream gets all fields of the question that matter for tokens ahead.
func TestAhead(t *testing.T) {
	for _, c := range []struct{ wanted, context, want int }{
		{1, 20, 1}, {17, 20, 17}, {64, 20, 64}, {0, 20, 0}, {9, 4096, 0}, {9, 4095, 1}, {9, 4087, 9}, {9, 4088, 8},
	} {
		t.Run(fmt.Sprintf("%d after %d tokens", c.wanted, c.context), func(t *testing.T) {
			up := &decoder{fake: &fake{}}
			inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
				r := w.enter(guest{device: 3})
				assert.Equal(t, 64, r.welcome.Ahead)
				p := path(c.context, 1)
				a := wanting(t, 1, p, c.wanted)
				a.K, a.AuditFrom, a.Sampling = 3, 2, terms.Sampling{Temperature: 0.5, Seed: 4}
				s, answer := r.follow(a)
				want := continuation(p, c.want)
				assert.Equal(t, want[0], answer.Token)
				assert.Equal(t, want[1:], append([]int32{}, rest(t, s)...), "%+v", c)
				asked := up.asked()
				require.Len(t, asked, c.want)
				for i, q := range asked {
					like := up.question(0)
					like.Context, like.Base = append(slices.Clone(p), want[:i+1]...), c.context+i
					like.K, like.AuditFrom, like.Within = 0, 0, 0
					assert.Equal(t, like, q)
				}
				settle()
				events := w.eventsOf(gateway.Decoded)
				require.Len(t, events, min(c.want, 1))
				if c.want > 0 {
					e := events[0]
					assert.Equal(t, gateway.Event{Kind: gateway.Decoded, Message: netproto.KindAsk, Device: e.Device,
						Address: e.Address, Session: 1, Context: c.context, Decoded: c.want, BytesDown: e.BytesDown}, e)
					sent := 0
					for _, id := range want[1:] {
						sent += len(netproto.Ahead{Token: id}.Append(nil))
					}
					assert.Equal(t, sent, e.BytesDown)
				}
				assert.Empty(t, w.eventsOf(gateway.Refused))
			})
		})
	}
}

// TestAheadOfVerification: the tokens ahead of a verification follow what the text becomes: if each choice is verified,
// the first finding. They are plain questions, and the text that the upstream was given does not change.
func TestAheadOfVerification(t *testing.T) {
	p := path(20, 1)
	found := []terms.Finding{{Pos: 13, Token: (p[13] + 1) % vocab}, {Pos: 15, Token: (p[15] + 1) % vocab}}
	for _, verify := range []terms.Verify{terms.AsItComes, terms.EachChoice, terms.EachScore} {
		up := &decoder{fake: &fake{}, audit: netproto.ExactAudit}
		up.change = func(_ terms.Job, a *terms.Reply) error {
			a.Audited, a.Audit = 8, slices.Clone(found)
			if verify == terms.EachScore {
				a.Audit[0].Score, a.Audit[0].Stands = -1, -2
			}
			return nil
		}
		inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
			a := wanting(t, 1, p, 3)
			a.AuditFrom, a.Verify = 12, verify
			s, answer := w.enter(guest{}).follow(a)
			text := append(slices.Clone(p), answer.Token)
			if verify == terms.EachChoice {
				text = append(slices.Clone(p[:13]), found[0].Token)
			}
			assert.Equal(t, continuation(text, 2), rest(t, s))
			first := up.asked()[0]
			assert.Equal(t, text, first.Context[:len(text)])
			assert.Zero(t, first.AuditFrom)
			assert.Equal(t, terms.AsItComes, first.Verify)
			assert.Equal(t, p, up.question(0).Context)
		})
	}
}

// TestAheadEnds: nothing is decoded after the end of a text.
func TestAheadEnds(t *testing.T) {
	p := path(20, 1)
	all := continuation(p, 16)
	for i, end := range all[:6] {
		up := &decoder{fake: &fake{}, ends: []int32{-1, end}}
		inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
			s, _ := w.enter(guest{}).follow(wanting(t, 1, p, 16))
			assert.Equal(t, append([]int32{}, all[1:i+1]...), append([]int32{}, rest(t, s)...))
			settle()
			assert.Len(t, up.asked(), i)
			for _, e := range w.eventsOf(gateway.Decoded) {
				assert.NoError(t, e.Err)
			}
		})
	}
}

// TestAheadIsLeft: the answer arrives before the tokens ahead, and ends the ask: its event is reported, a drain no
// longer waits for it, and the session can end. Tokens ahead are then cancelled at once.
func TestAheadIsLeft(t *testing.T) {
	const every = time.Minute
	for name, c := range map[string]struct {
		leave func(w *world, r *raw, s *quic.Stream)
		code  netproto.Code
	}{
		"reset": {func(_ *world, _ *raw, s *quic.Stream) { s.CancelRead(3) }, netproto.Cancelled},
		"bye": {func(_ *world, r *raw, _ *quic.Stream) {
			_, err := r.control.Write(netproto.Bye{Session: 1}.Append(nil))
			assert.NoError(t, err)
		}, netproto.Cancelled},
		"connection": {func(_ *world, r *raw, _ *quic.Stream) { _ = r.CloseWithError(0, "") }, netproto.Cancelled},
		"drain":      {func(w *world, _ *raw, _ *quic.Stream) { w.stop() }, netproto.Draining},
		"eviction":   {func(_ *world, r *raw, _ *quic.Stream) { r.asks(2, path(5, 7)) }, netproto.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			up := &decoder{fake: &fake{}, every: every}
			opt := gateway.Options{AskTimeout: 2 * time.Hour}.With(
				gateway.Shares{MaxSessions: 1, DrainTimeout: time.Hour})
			inWorld(t, opt, up,
				func(t *testing.T, w *world) {
					r := w.enter(guest{})
					s, _ := r.follow(wanting(t, 1, path(20, 1), 16))
					time.Sleep(2*every + time.Second)
					assert.Len(t, w.eventsOf(gateway.Answered), 1)
					assert.Empty(t, w.eventsOf(gateway.Decoded))
					assert.Zero(t, w.Stats().Waiting)
					start := time.Now()
					c.leave(w, r, s)
					if name != "drain" {
						settle()
					}
					assert.Less(t, time.Since(start), time.Second)
					assert.Zero(t, up.running.Load())
					events := w.eventsOf(gateway.Decoded)
					require.Len(t, events, 1)
					assert.Equal(t, 2, events[0].Decoded)
					assert.Equal(t, c.code, events[0].Code())
					if name == "bye" || name == "eviction" {
						assert.Equal(t, []uint64{1}, up.gone(), "the session is dropped when nothing runs")
						assert.Len(t, rest(t, s), 2, "and the stream ends without an error")
					}
				})
		})
	}
}

// TestAheadTimeout: decoding ahead ends after AskTimeout, whatever the deadline of the ask.
func TestAheadTimeout(t *testing.T) {
	up := &decoder{fake: &fake{}, every: 10 * time.Second}
	inWorld(t, gateway.Options{AskTimeout: 35 * time.Second}, up, func(t *testing.T, w *world) {
		a := wanting(t, 1, path(20, 1), 16)
		a.Within = time.Second
		s, _ := w.enter(guest{}).follow(a)
		assert.Len(t, rest(t, s), 3)
		settle()
		e := w.eventsOf(gateway.Decoded)[0]
		assert.Equal(t, 3, e.Decoded)
		assert.Equal(t, netproto.TooLate, e.Code())
		assert.Equal(t, 35*time.Second, e.Took)
	})
}

// TestAheadRefused: if the upstream gives up or fails, the stream ends without an error, after the earlier tokens. Only
// a failure is reported as one.
func TestAheadRefused(t *testing.T) {
	failed := errors.New("out of order")
	for name, c := range map[string]struct {
		err   error
		token int32
		code  netproto.Code
	}{
		"busy":    {netproto.Busy, 0, netproto.Busy},
		"failed":  {failed, 0, netproto.Failed},
		"outside": {nil, vocab, netproto.Failed},
		"below":   {nil, -1, netproto.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			up := &decoder{fake: &fake{}}
			up.refuse = func(q terms.Job) error {
				if len(q.Context) == 23 {
					return c.err
				}
				return nil
			}
			inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
				if c.err == nil {
					n := 0
					up.next = func(id int32) int32 {
						if n++; n == 3 {
							return c.token
						}
						return id
					}
				}
				r := w.enter(guest{})
				s, _ := r.follow(wanting(t, 1, path(20, 1), 16))
				assert.Equal(t, continuation(path(20, 1), 2)[1:], rest(t, s))
				settle()
				e := w.eventsOf(gateway.Decoded)[0]
				assert.Equal(t, 2, e.Decoded)
				assert.Equal(t, c.code, e.Code())
				assert.Empty(t, w.eventsOf(gateway.Refused))
				r.asks(1, path(9, 1))
			})
		})
	}
}

// TestAheadPerDevice: for one device max four asks have tokens ahead at the same time; further asks get only their
// answers, until one of the four has ended. Another device is not affected.
func TestAheadPerDevice(t *testing.T) {
	up := &decoder{fake: &fake{}, every: time.Minute}
	inWorld(t, gateway.Options{AskTimeout: time.Hour}, up, func(t *testing.T, w *world) {
		r, other := w.enter(guest{device: 1}), w.enter(guest{device: 2})
		var streams []*quic.Stream
		for i := range 6 {
			s, _ := r.follow(wanting(t, uint32(i), path(20, int32(i)), 16))
			streams = append(streams, s)
		}
		settle()
		assert.EqualValues(t, 4, up.running.Load())
		assert.Empty(t, rest(t, streams[4]))
		assert.Empty(t, rest(t, streams[5]))
		other.follow(wanting(t, 9, path(20, 9), 16))
		settle()
		assert.EqualValues(t, 5, up.running.Load())
		events := w.eventsOf(gateway.Decoded)
		require.Len(t, events, 2)
		for _, e := range events {
			assert.Zero(t, e.Decoded)
			assert.Equal(t, netproto.Busy, e.Code())
			assert.ErrorContains(t, e.Err, "4 answers to this device are being decoded ahead")
		}
		streams[0].CancelRead(1)
		settle()
		r.follow(wanting(t, 8, path(20, 8), 16))
		settle()
		assert.EqualValues(t, 5, up.running.Load())
	})
}

// TestAheadGivesWay: with one place, asks of other devices wait for at most one token, and while they wait no more
// tokens are decoded ahead.
func TestAheadGivesWay(t *testing.T) {
	const every = time.Second
	up := &decoder{fake: &fake{parallel: 1}, every: every}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		r, other := w.enter(guest{device: 1}), w.enter(guest{device: 2})
		s, _ := r.follow(wanting(t, 1, path(20, 1), 16))
		time.Sleep(every / 2)
		require.EqualValues(t, 1, up.running.Load())
		start := time.Now()
		other.asks(2, path(20, 2))
		assert.LessOrEqual(t, time.Since(start), every)
		assert.Less(t, len(rest(t, s)), 16)
		settle()
		assert.Equal(t, netproto.Busy, w.eventsOf(gateway.Decoded)[0].Code())
	})
}

// TestAheadNeverRead: a client that requests many tokens ahead and never reads costs little: the numbers of concurrent
// calls, kept tokens and streams are bounded, and others are answered as before.
func TestAheadNeverRead(t *testing.T) {
	up := &decoder{fake: &fake{}, every: 10 * time.Millisecond}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		r, other := w.enter(guest{device: 1}), w.enter(guest{device: 2})
		settle()
		before := runtime.NumGoroutine()
		for i := range 100 {
			r.send(wanting(t, 1, path(20+i, 1), 64).Append(nil))
		}
		settle()
		other.asks(1, path(20, 2))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.LessOrEqual(t, up.maxRunning.Load(), int32(4))
		assert.Zero(t, up.running.Load())
		assert.LessOrEqual(t, runtime.NumGoroutine(), before+2)
		assert.Len(t, w.eventsOf(gateway.Answered), 101)
		whole := 0
		for _, e := range w.eventsOf(gateway.Decoded) {
			if e.Err == nil {
				assert.Equal(t, 64, e.Decoded)
				whole++
			} else {
				assert.Zero(t, e.Decoded)
				assert.Equal(t, netproto.Busy, e.Code())
			}
		}
		assert.Len(t, w.eventsOf(gateway.Decoded), 100)
		assert.GreaterOrEqual(t, whole, 4)
		r.send(wanting(t, 1, path(200, 1), 64).Append(nil))
		settle()
		assert.Len(t, w.eventsOf(gateway.Answered), 102)
	})
}

// TestAheadNotTaken: a client that reads nothing, on a connection with minimal windows, delays neither others nor the
// end of the gateway.
func TestAheadNotTaken(t *testing.T) {
	up := &decoder{fake: &fake{}, every: time.Second}
	inWorld(t, gateway.Options{AskTimeout: time.Hour, MessageTimeout: 3 * time.Second}, up,
		func(t *testing.T, w *world) {
			r := w.enter(guest{quic: quic.Config{InitialStreamReceiveWindow: 1, MaxStreamReceiveWindow: 1,
				InitialConnectionReceiveWindow: 64, MaxConnectionReceiveWindow: 64, MaxIdleTimeout: time.Hour,
				KeepAlivePeriod: time.Second}})
			for i := range 3 {
				r.send(wanting(t, 1, path(20+i, 1), 64).Append(nil))
			}
			time.Sleep(30 * time.Second)
			assert.EqualValues(t, 3, up.running.Load())
			start := time.Now()
			w.stop()
			assert.Less(t, time.Since(start), time.Second)
			assert.Zero(t, up.running.Load())
			assert.Len(t, w.eventsOf(gateway.Decoded), 3)
		})
}

// TestAheadIsReleased: tokens ahead that are over, all sent or cancelled, do not wait for the end of their connection
// or session.
func TestAheadIsReleased(t *testing.T) {
	inWorld(t, gateway.Options{}, &decoder{fake: &fake{}, every: time.Second}, func(t *testing.T, w *world) {
		r := w.enter(guest{})
		r.asks(1, path(20, 1))
		settle()
		connection, session := w.Hold()
		for i := range 6 {
			s, _ := r.follow(wanting(t, 1, path(20, 1), 3))
			if i%2 == 0 {
				require.Len(t, rest(t, s), 3)
			} else {
				s.CancelRead(3)
			}
			settle()
			assert.Zero(t, connection.Waiting.Load())
			assert.Zero(t, session.Waiting.Load())
		}
		assert.EqualValues(t, 6, min(connection.Ever.Load(), session.Ever.Load()))
	})
}

// TestForgottenAfterAhead: a session is dropped only when nothing is decoded for it any more, as [gateway.Upstream]
// promises.
func TestForgottenAfterAhead(t *testing.T) {
	up := &decoder{fake: &fake{}, every: time.Minute}
	forgotten := make(chan int32, 9)
	inWorld(t, gateway.Options{AskTimeout: time.Hour, Events: func(e gateway.Event) {
		if e.Kind == gateway.Forgotten {
			forgotten <- up.running.Load()
		}
	}}, up, func(t *testing.T, w *world) {
		r := w.enter(guest{})
		r.follow(wanting(t, 1, path(20, 1), 16))
		time.Sleep(90 * time.Second)
		require.EqualValues(t, 1, up.running.Load())
		_, err := r.control.Write(netproto.Bye{Session: 1}.Append(nil))
		require.NoError(t, err)
		settle()
		require.Len(t, forgotten, 1)
		assert.Zero(t, <-forgotten)
	})
}

// TestAheadCountsAsWork: a token ahead counts as work of its device: while it has one of two places, another ask of
// that device waits for the other place, and an ask of another device does not.
func TestAheadCountsAsWork(t *testing.T) {
	up := &decoder{fake: &fake{parallel: 2}, every: time.Minute}
	inWorld(t, gateway.Options{AskTimeout: time.Hour}, up, func(t *testing.T, w *world) {
		one, two := w.enter(guest{device: 1}), w.enter(guest{device: 2})
		one.follow(wanting(t, 1, path(20, 1), 1))
		settle()
		start := time.Now()
		two.asks(2, path(20, 2))
		assert.Less(t, time.Since(start), time.Second)
		one.asks(1, path(30, 1))
		assert.Greater(t, time.Since(start), 50*time.Second)
	})
}
