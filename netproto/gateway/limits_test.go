package gateway_test

import (
	"errors"
	"fmt"
	"slices"
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

// whole returns an ask about a whole path.
func whole(t *testing.T, session uint32, p []int32) netproto.Ask {
	t.Helper()
	return packed(t, session, 0, netproto.RootHash, p)
}

// shut checks that a client is refused before its Hello, and returns the detail.
func (w *world) shut(g guest) string {
	w.t.Helper()
	if conn, err := w.tryDial(g); err == nil {
		<-conn.Context().Done() // it gets the close during the handshake or right after
	}
	e := w.eventsOf(gateway.Refused)
	refusal := e[len(e)-1].Err.(netproto.Refusal)
	assert.Equal(w.t, netproto.Refusal{Code: netproto.Busy, RetryAfter: time.Second, Detail: refusal.Detail}, refusal)
	return refusal.Detail
}

// connectionLimit is a limit of three connections, which clients reach by the connections of come.
type connectionLimit struct {
	opt    gateway.Options
	come   func(n int) guest
	detail string
}

func connectionLimits() map[string]connectionLimit {
	return map[string]connectionLimit{
		"gateway": {
			gateway.Options{MaxConns: 3}.With(gateway.Shares{MaxConnsPerAddress: 9}),
			func(int) guest { return guest{} },
			"all 3 connections of the gateway are in use"},
		"address": {
			gateway.Options{}.With(gateway.Shares{MaxConnsPerAddress: 3}),
			func(int) guest { return guest{from: "10.2.0.1"} },
			"the 3 connections that one address may have are in use"},
		"half of the gateway is for one address": {
			gateway.Options{MaxConns: 6}, func(int) guest { return guest{from: "10.2.0.1"} },
			"the 3 connections that one address may have are in use"},
		"device": {
			gateway.Options{}.With(gateway.Shares{MaxConnsPerDevice: 3}), func(int) guest { return guest{device: 1} },
			"the 3 connections that one device may have are in use"},
	}
}

// TestConnectionLimits: if all connections have open asks, a new client is refused with the name of the limit: of the
// gateway, of an address or of a device. When their asks have ended, the connection that is idle for longest is closed
// for it.
func TestConnectionLimits(t *testing.T) {
	for name, c := range connectionLimits() {
		t.Run(name, func(t *testing.T) {
			up := &fake{}
			inWorld(t, c.opt, up, func(t *testing.T, w *world) {
				up.hold = make(chan struct{})
				proofs := w.proofs()
				var all []*raw
				var open []*quic.Stream
				for n := range 3 {
					r := w.enter(c.come(n))
					open = append(open, r.send(whole(t, 1, path(5, int32(n))).Append(nil)))
					settle()
					all = append(all, r)
				}
				for range 3 {
					if name == "device" {
						assert.Equal(t, c.detail, w.turned(c.come(9), netproto.Busy).Detail)
					} else {
						assert.Equal(t, c.detail, w.shut(c.come(9)))
					}
					settle()
					assert.Equal(t, 3, w.Conns())
				}
				assert.Zero(t, proofs.Load(), "refused clients no longer count as strangers")
				for _, s := range open { // one after the other
					s.CancelRead(1)
					settle()
				}
				close(up.hold)
				others := guest{from: "10.3.0.1"} // only of an address that has more connections than the new one
				if name != "gateway" {
					others = c.come(9)
				} else {
					all[0].asks(2, path(5, 1))
					w.shut(others)
					_ = all[0].CloseWithError(0, "")
					settle()
					w.enter(others)
					return
				}
				w.enter(others)
				assert.Equal(t, netproto.Busy, all[0].ends())
				require.NoError(t, all[1].Context().Err())
				settle()
				gone := w.eventsOf(gateway.Disconnected)
				require.Len(t, gone, 1)
				room := "closed to make room for another connection"
				assert.Equal(t, netproto.Refusal{Code: netproto.Busy, Detail: room}, gone[0].Err)
				assert.Equal(t, 3, w.Conns())
			})
		})
	}
}

// TestAskLimits: the number of open asks is limited: per connection by its streams, per device and in total by
// refusals.
func TestAskLimits(t *testing.T) {
	up, opt := &fake{parallel: 1}, gateway.Options{}.With(gateway.Shares{MaxAsks: 6, MaxAsksPerDevice: 5})
	inWorld(t, opt, up, func(t *testing.T, w *world) {
		up.hold = make(chan struct{})
		one, two := w.enter(guest{}), w.enter(guest{})
		ask := whole(t, 1, path(5, 1)).Append(nil)
		for range 5 {
			one.send(ask)
		}
		settle()
		want := netproto.Refusal{Code: netproto.Busy, RetryAfter: 100 * time.Millisecond,
			Detail: "5 asks of this device are open"}
		assert.Equal(t, want, one.refused(ask, netproto.Busy))
		for range 4 {
			two.send(ask)
		}
		settle()
		want.Detail = "9 asks of all devices are open"
		assert.Equal(t, want, two.refused(ask, netproto.Busy))
		close(up.hold)
		settle()
		one.asks(1, path(6, 1))
		assert.Len(t, w.eventsOf(gateway.Answered), 10)
	})
}

// TestMaxContext: a context may be as long as the model's limit, whether it is sent at once or on a base. An empty
// context is refused.
func TestMaxContext(t *testing.T) {
	inWorld(t, gateway.Options{}, &fake{}, func(t *testing.T, w *world) {
		const limit = 4096
		r := w.enter(guest{})
		assert.Equal(t, limit, r.welcome.Context)
		p := path(limit+1, 1)
		r.asks(1, p[:1])
		r.asks(1, p[:limit])
		want := netproto.Refusal{Code: netproto.TooLarge, Detail: "the context has 4097 tokens, possible are 1 to 4096"}
		assert.Equal(t, want, r.refused(whole(t, 1, p).Append(nil), netproto.TooLarge))
		on := packed(t, 1, limit, netproto.RootHash.Over(p[:limit]), p[limit:])
		assert.Equal(t, want, r.refused(on.Append(nil), netproto.TooLarge))
		assert.Equal(t, want, r.refused(syncOf(t, 1, p), netproto.TooLarge))
		kind, _ := r.say(syncOf(t, 2, p[:limit]))
		assert.Equal(t, netproto.KindAck, kind)
		r.refused(whole(t, 1, nil).Append(nil), netproto.TooLarge)
	})
}

// TestMaxMessage: a message may be as long as the longest context in its longest coding; longer ones are refused by
// their length alone.
func TestMaxMessage(t *testing.T) {
	opt := gateway.Options{MessageTimeout: 3 * time.Second}.With(gateway.Shares{MaxContext: 100})
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		r := w.enter(guest{})
		begin := func(length int) netproto.Code {
			s := r.begin([]byte{byte(netproto.KindAsk), byte(length) | 0x80, byte(length >> 7), 1, 2, 3})
			_, err := answerOn(s)
			var refusal netproto.Refusal
			require.ErrorAs(t, err, &refusal)
			return refusal.Code
		}
		began := time.Now()
		assert.Equal(t, netproto.TooLarge, begin(557))
		assert.Less(t, time.Since(began), time.Second)
		assert.Equal(t, netproto.TooLate, begin(556), "the rest does not arrive")
		assert.Equal(t, 3*time.Second, time.Since(began).Round(100*time.Millisecond))
	})
}

// TestHelloTimeout: a device without a complete Hello is refused after MessageTimeout, and has another half second to
// read the refusal. A welcome device may be silent for longer.
func TestHelloTimeout(t *testing.T) {
	opt := gateway.Options{MessageTimeout: 3 * time.Second, IdleTimeout: time.Hour}
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		began := time.Now()
		calm := w.enter(guest{})
		silent, half := w.dial(guest{}), w.dial(guest{})
		_, err := half.control.Write(guest{}.greeting()[:9])
		require.NoError(t, err)
		kind, _ := half.hear(half.control)
		assert.Equal(t, netproto.KindRefusal, kind)
		assert.Equal(t, 3*time.Second, time.Since(began).Round(200*time.Millisecond))
		heard := time.Now()
		assert.Equal(t, netproto.Malformed, half.ends())
		assert.Equal(t, 500*time.Millisecond, time.Since(heard).Round(time.Millisecond))
		assert.Equal(t, netproto.Malformed, silent.ends())
		assert.InDelta(t, 3.5, time.Since(began).Seconds(), 0.2)
		for _, e := range w.eventsOf(gateway.Refused) {
			assert.ErrorIs(t, e.Err, netproto.Malformed)
		}
		settle()
		assert.Equal(t, 1, w.Conns())
		time.Sleep(time.Minute)
		calm.asks(1, path(5, 1))
		_, err = calm.control.Write(netproto.Bye{Session: 1}.Append(nil))
		require.NoError(t, err)
		settle()
		assert.Len(t, w.eventsOf(gateway.Forgotten), 1)
	})
}

// TestIdleTimeout: a connection is closed IdleTimeout after the gateway's first packet that nobody acknowledged, and
// its resources are freed.
func TestIdleTimeout(t *testing.T) {
	inWorld(t, gateway.Options{IdleTimeout: 20 * time.Second}, &fake{}, func(t *testing.T, w *world) {
		began := time.Now()
		r := w.enter(guest{quic: quic.Config{MaxIdleTimeout: time.Hour}})
		time.Sleep(100 * time.Millisecond) // all that the gateway has sent is acknowledged
		w.ether.watch(func(p packet) bool { return true })
		time.Sleep(27*time.Second - time.Since(began))
		assert.Equal(t, 1, w.Conns())
		time.Sleep(2 * time.Second)
		assert.Zero(t, w.Conns())
		gone := w.eventsOf(gateway.Disconnected)
		require.Len(t, gone, 1)
		assert.InDelta(t, 8+20, gone[0].Lasted.Seconds(), 0.2)
		w.ether.watch(nil)
		_ = r.CloseWithError(0, "")
	})
}

// TestDeadlines: an ask ends at its deadline, or after AskTimeout if that is earlier or there is no deadline: the
// client is refused and the context of the model's call ends.
func TestDeadlines(t *testing.T) {
	for _, c := range []struct{ deadline, want time.Duration }{
		{0, 20 * time.Second}, {time.Hour, 20 * time.Second}, {20001 * time.Millisecond, 20 * time.Second},
		{19 * time.Second, 19 * time.Second}, {time.Second, time.Second},
	} {
		t.Run(c.deadline.String(), func(t *testing.T) {
			up := &fake{parallel: 1}
			inWorld(t, gateway.Options{AskTimeout: 20 * time.Second}, up, func(t *testing.T, w *world) {
				up.hold = make(chan struct{})
				a := whole(t, 1, path(5, 1))
				a.Within = c.deadline
				r, other := w.enter(guest{}), w.enter(guest{})
				late := func() {
					began := time.Now()
					_, err := r.try(a)
					require.ErrorIs(t, err, netproto.TooLate)
					assert.Equal(t, c.want, time.Since(began).Round(100*time.Millisecond))
				}
				late()
				assert.Len(t, up.asked, 1)
				assert.Equal(t, 1, up.dropped)
				if c.want < 20*time.Second { // also while it waits for its turn
					other.send(whole(t, 1, path(5, 2)).Append(nil))
					settle()
					late()
					assert.Len(t, up.asked, 2)
				}
				close(up.hold)
				other.asks(1, path(5, 2))
				r.asks(1, path(5, 2))
			})
		})
	}
}

// TestSessionIdle: a session is dropped when it was idle for SessionIdle, up to an eighth longer; not during an ask.
func TestSessionIdle(t *testing.T) {
	up := &fake{}
	opt := gateway.Options{AskTimeout: time.Hour}.With(gateway.Shares{SessionIdle: 80 * time.Second})
	inWorld(t, opt, up, func(t *testing.T, w *world) {
		up.hold, up.holdOnly = make(chan struct{}), 13
		r := w.enter(guest{})
		r.asks(1, path(5, 1))
		r.asks(2, path(5, 1))
		open := r.send(whole(t, 3, []int32{13}).Append(nil))
		time.Sleep(60 * time.Second)
		r.asks(2, path(6, 1))
		time.Sleep(19 * time.Second)
		synctest.Wait()
		assert.Empty(t, up.gone())
		time.Sleep(12 * time.Second)
		synctest.Wait()
		first := up.asked[0].Session
		assert.Equal(t, []uint64{first}, up.gone())
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []uint64{first, up.asked[1].Session}, up.gone())
		close(up.hold)
		kind, _ := r.hear(open)
		assert.Equal(t, netproto.KindAnswer, kind)
		assert.Len(t, up.gone(), 2, "it was in use until now")
		r.goesOn(3, []int32{13}, []int32{1})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []uint64{first, up.asked[1].Session, up.asked[2].Session}, up.gone())
	})
}

// TestBye: a session that its device ends is dropped at once, and no other one; with open asks, after the last of them.
func TestBye(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		up.hold, up.holdOnly = make(chan struct{}), 13
		r, other := w.enter(guest{device: 1}), w.enter(guest{device: 2})
		r.asks(1, path(5, 1))
		r.asks(2, path(5, 1))
		other.asks(1, path(5, 1))
		bye := func(session uint32) {
			_, err := r.control.Write(netproto.Bye{Session: session}.Append(nil))
			require.NoError(t, err)
			settle()
		}
		bye(1)
		bye(9)
		assert.Equal(t, []uint64{up.asked[0].Session}, up.gone())
		open := r.send(whole(t, 2, []int32{13}).Append(nil))
		settle()
		bye(2)
		bye(2)
		assert.Len(t, up.gone(), 1, "not while an ask is open")
		close(up.hold)
		kind, _ := r.hear(open)
		assert.Equal(t, netproto.KindAnswer, kind)
		settle()
		assert.Equal(t, []uint64{up.asked[0].Session, up.asked[1].Session}, up.gone())
		other.goesOn(1, path(5, 1), []int32{1})
		r.asks(2, path(5, 1))
		assert.NotContains(t, up.gone(), up.asked[len(up.asked)-1].Session, "it is a new session with the same number")
	})
}

// TestTokenConnections: one of several access tokens gets at most half of the connections, and displaces its own idle
// ones. A single token may have all.
func TestTokenConnections(t *testing.T) {
	tokens := []gateway.Token{{Name: "a", Secret: secretA}, {Name: "b", Secret: secretB}}
	for _, several := range []bool{true, false} {
		opt := gateway.Options{MaxConns: 6, Tokens: tokens[:1]}.With(gateway.Shares{MaxConnsPerAddress: 9})
		if several {
			opt.Tokens = tokens
		}
		up := &fake{}
		inWorld(t, opt, up, func(t *testing.T, w *world) {
			up.hold = make(chan struct{})
			var all []*raw
			var open []*quic.Stream
			for n := range 3 {
				r := w.enter(guest{secret: secretA, device: byte(1 + n)})
				open = append(open, r.send(whole(t, 1, path(5, int32(n))).Append(nil)))
				settle()
				all = append(all, r)
			}
			if !several {
				w.enter(guest{secret: secretA, device: 9})
				close(up.hold)
				return
			}
			refused := w.turned(guest{secret: secretA, device: 9}, netproto.Busy)
			assert.Equal(t, "the 3 connections that one access token may have are in use", refused.Detail)
			w.enter(guest{secret: secretB, device: 1})
			for _, s := range open { // one after the other
				s.CancelRead(1)
				time.Sleep(time.Second)
			}
			close(up.hold)
			w.enter(guest{secret: secretA, device: 9})
			assert.Equal(t, netproto.Busy, all[0].ends(), "the one idle for longest")
		})
	}
}

// TestByeFlood: a Bye that ends no session has the price of an early text. What follows a flood of them waits, on this
// connection only, and a device that ends its sessions pays nothing.
func TestByeFlood(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		r, other := w.enter(guest{device: 1}), w.enter(guest{device: 2})
		byes := func(r *raw, sessions ...uint32) {
			for _, s := range sessions {
				_, err := r.control.Write(netproto.Bye{Session: s}.Append(nil))
				require.NoError(t, err)
			}
			settle()
		}
		r.asks(1, path(5, 1))
		byes(r, append(slices.Repeat([]uint32{9}, 1000), 1)...)
		assert.Empty(t, up.gone())
		for session := range uint32(200) {
			other.asks(session, path(5, 1))
			byes(other, session)
		}
		assert.Len(t, up.gone(), 200)
		time.Sleep((1000 - 64) / 16 * time.Second)
		settle()
		assert.Len(t, up.gone(), 201)
	})
}

// TestFailuresAreForgiven: what the large model fails at, or is too slow for, is not held against the device.
func TestFailuresAreForgiven(t *testing.T) {
	failure := errors.New("an engine failed")
	up := &fake{change: func(terms.Job, *terms.Reply) error { return failure }}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		r := w.enter(guest{device: 1})
		for i := range uint32(200) {
			if i == 100 {
				failure = fmt.Errorf("%w: it is slow", netproto.TooLate)
			}
			kind, _ := r.hear(r.send(whole(t, i, path(5, 1)).Append(nil)))
			require.Equal(t, netproto.KindRefusal, kind)
		}
		up.change = nil
		r.asks(1, path(5, 1))
	})
}

// TestStreamsAreFreed: after an answer the gateway waits a second for the client to end the stream, and then frees it;
// the client's next asks do not wait for that.
func TestStreamsAreFreed(t *testing.T) {
	inWorld(t, gateway.Options{}.With(gateway.Shares{MaxStreams: 2}), &fake{}, func(t *testing.T, w *world) {
		r := w.enter(guest{})
		for range 2 {
			s := r.begin(whole(t, 1, path(5, 1)).Append(nil))
			_, err := answerOn(s)
			require.NoError(t, err)
		}
		_, err := r.OpenStream()
		require.Error(t, err)
		began := time.Now()
		s, err := r.OpenStreamSync(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(began).Round(100*time.Millisecond))
		s.CancelWrite(1)
		for range 10 { // streams that are ended are free at once
			r.asks(1, path(5, 1))
		}
		assert.Less(t, time.Since(began), 2*time.Second)
	})
}

// TestDictionaryChosen: the trained dictionary of a device is used if the gateway has it.
func TestDictionaryChosen(t *testing.T) {
	var samples [][]int32
	for i := range 20 {
		samples = append(samples, append(path(60, 1), path(10, int32(i))...))
	}
	have, err := netproto.TrainDictionary(3, vocab, samples)
	require.NoError(t, err)
	inWorld(t, gateway.Options{Dictionary: have}, &fake{}, func(t *testing.T, w *world) {
		for has, dictionary := range map[uint32]netproto.Dictionary{0: {}, 9: {}, 3: have} {
			r := w.enter(guest{hello: func(h *netproto.Hello) { h.Dictionary = has }})
			assert.Equal(t, dictionary.ID, r.welcome.Dictionary, has)
			codec, err := netproto.NewCodec(vocab, dictionary)
			require.NoError(t, err)
			p := append(path(60, 1), path(10, 99)...)
			delta, err := codec.Encode(nil, p)
			require.NoError(t, err)
			assert.Equal(t, has == 3, len(delta.Bytes) < 60, has)
			a := r.answered(netproto.Ask{Session: 1, Path: netproto.Path{Hash: netproto.RootHash, Delta: delta}})
			assert.Equal(t, tokenAfter(p), a.Token)
		}
	})
}

// TestIdentity: tokens must mean the same on both sides: each part is compared, if the upstream states it.
func TestIdentity(t *testing.T) {
	none := netproto.Digest{}
	for name, c := range map[string]struct {
		ours  netproto.Identity
		say   func(*netproto.Hello)
		want  netproto.Code // NoReason means welcome
		other bool          // the Welcome reports that the template differs
	}{
		"the same": {identity(), func(*netproto.Hello) {}, netproto.NoReason, false},
		"other tokenizer": {identity(),
			func(h *netproto.Hello) { h.Identity.Tokenizer[5]++ }, netproto.WrongTokenizer, false},
		"no tokenizer": {identity(),
			func(h *netproto.Hello) { h.Identity.Tokenizer = none }, netproto.WrongTokenizer, false},
		"tokenizer is not stated": {netproto.Identity{Vocab: vocab},
			func(*netproto.Hello) {}, netproto.NoReason, false},
		"other vocabulary": {netproto.Identity{Vocab: vocab},
			func(h *netproto.Hello) { h.Identity.Vocab++ }, netproto.WrongTokenizer, false},
		"other template": {identity(), func(h *netproto.Hello) { h.Identity.Template[5]++ }, netproto.NoReason, true},
		"no template": {identity(),
			func(h *netproto.Hello) { h.Identity.Template = none }, netproto.NoReason, false},
		"template is not stated": {netproto.Identity{Vocab: vocab, Tokenizer: identity().Tokenizer},
			func(*netproto.Hello) {}, netproto.NoReason, false},
	} {
		t.Run(name, func(t *testing.T) {
			up := &stating{&fake{}, gateway.Info{Model: "the model", Identity: c.ours}}
			inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
				if c.want != netproto.NoReason {
					w.turned(guest{hello: c.say}, c.want)
					return
				}
				want := netproto.Welcome{Model: "the model", Context: 32768, OtherTemplate: c.other}
				assert.Equal(t, want, w.enter(guest{hello: c.say}).welcome)
			})
		})
	}
}

// TestChoices: a model that gives only its most probable tokens says so in the Welcome, and samples from no more of
// them; other sampling settings are refused by name before it is asked.
func TestChoices(t *testing.T) {
	up := &stating{&fake{}, gateway.Info{Identity: identity(), Choices: 20, Audit: netproto.ExactAudit}}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		r := w.enter(guest{})
		assert.Equal(t, 20, r.welcome.Choices)
		assert.Equal(t, netproto.ExactAudit, r.welcome.Audit)
		for _, c := range []struct {
			s  terms.Sampling
			ok bool
		}{
			{terms.Sampling{}, true},
			{terms.Sampling{TopK: 0, Seed: 3}, true}, // greedy
			{terms.Sampling{Temperature: 1, TopK: 1}, true},
			{terms.Sampling{Temperature: 1, TopK: 20, TopP: 0.5}, true},
			{terms.Sampling{Temperature: 1, TopK: 21}, false},
			{terms.Sampling{Temperature: 1}, false},
			{terms.Sampling{Temperature: 1, TopP: 0.1}, false},
		} {
			a := whole(t, 1, path(20, 1))
			a.Sampling = c.s
			before := len(up.asked)
			kind, b := r.say(a.Append(nil))
			if c.ok {
				require.Equal(t, netproto.KindAnswer, kind, "%+v", c.s)
				continue
			}
			require.Equal(t, netproto.KindRefusal, kind, "%+v", c.s)
			no, _, err := netproto.ParseRefusal(b)
			require.NoError(t, err)
			assert.Equal(t, netproto.TooLarge, no.Code)
			assert.Contains(t, no.Detail, "top-k must be 1 to 20")
			assert.Len(t, up.asked, before)
		}
	})
}

// stating is a fake that states other properties.
type stating struct {
	*fake
	info gateway.Info
}

func (s *stating) Info() gateway.Info { return s.info }

// TestWelcomeUnwanted: a device that does not read its Welcome is disconnected, without a trace.
func TestWelcomeUnwanted(t *testing.T) {
	opt := gateway.Options{Tokens: []gateway.Token{{Name: "a", Secret: secretA, MaxDevices: 1}}}
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		g := guest{secret: secretA, from: "10.2.0.1"}
		r := w.dial(g)
		r.control.CancelRead(1)
		hello := g.greeting()
		_, err := r.control.Write(hello[:5])
		require.NoError(t, err)
		settle()
		_, err = r.control.Write(hello[5:])
		require.NoError(t, err)
		assert.Equal(t, netproto.Cancelled, r.ends())
		settle()
		refused := w.eventsOf(gateway.Refused)
		require.Len(t, refused, 1)
		require.ErrorIs(t, refused[0].Err, netproto.Cancelled)
		assert.Equal(t, gateway.Event{
			Kind: gateway.Refused, Address: refused[0].Address, Err: refused[0].Err,
		}, refused[0])
		assert.Empty(t, w.eventsOf(gateway.Connected))
		assert.Zero(t, w.Conns())
		w.enter(guest{secret: secretA, device: 2})
	})
}

// TestLateAnswer: an answer after the deadline, from an upstream that ignores the context, is dropped.
func TestLateAnswer(t *testing.T) {
	up := &fake{change: func(terms.Job, *terms.Reply) error {
		time.Sleep(3 * time.Second)
		return nil
	}}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		a := whole(t, 1, path(5, 1))
		a.Within = 2 * time.Second
		r := w.enter(guest{})
		assert.Equal(t, netproto.Refusal{Code: netproto.TooLate}, r.refused(a.Append(nil), netproto.TooLate))
		a.Within = 4 * time.Second
		r.answered(a)
		assert.Len(t, w.eventsOf(gateway.Answered), 1)
	})
}

// TestWarmTimeout: computing early has AskTimeout, too.
func TestWarmTimeout(t *testing.T) {
	up := &warming{fake: &fake{}}
	inWorld(t, gateway.Options{AskTimeout: 20 * time.Second}, up, func(t *testing.T, w *world) {
		up.hold = make(chan struct{})
		w.enter(guest{}).say(syncOf(t, 1, path(5, 1)))
		time.Sleep(19 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, up.running())
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		assert.Zero(t, up.running())
		assert.Empty(t, w.eventsOf(gateway.Refused), "no refusal is reported")
	})
}
