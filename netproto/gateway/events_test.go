package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// since returns the events since the last call, and checks their errors separately.
func (w *world) since(t *testing.T) []gateway.Event {
	t.Helper()
	settle()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.events
	w.events = nil
	return all
}

// told is a world with a device of the token "lab", and the events of its connection.
type told struct {
	*world
	r    *raw
	up   *fake
	from gateway.Event // what all events of the connection have
}

// inTold runs a test in such a world. The event of the connection is told already.
func inTold(t *testing.T, test func(t *testing.T, w told)) {
	t.Helper()
	up := &fake{parallel: 1}
	opt := gateway.Options{Tokens: []gateway.Token{{Name: "lab", Secret: secretA}}}
	inWorld(t, opt, up, func(t *testing.T, w *world) {
		r := w.enter(guest{secret: secretA, device: 5, from: "10.2.0.1"})
		its := gateway.Event{Client: "lab", Device: netproto.Device{5}.Name(),
			Address: netip.MustParsePrefix("10.2.0.1/32")}
		all := told{w, r, up, its}
		all.tells(t, gateway.Connected, func(*gateway.Event) {})
		test(t, all)
	})
}

// tells checks that one event of the connection was told, and returns it. How long it took is left to the caller.
func (w told) tells(t *testing.T, kind gateway.EventKind, more func(e *gateway.Event)) gateway.Event {
	t.Helper()
	have := w.since(t)
	require.Len(t, have, 1)
	e := w.from
	e.Kind, e.Took, e.Lasted = kind, have[0].Took, have[0].Lasted
	if e.Err = have[0].Err; kind == gateway.Refused {
		require.Error(t, e.Err)
	}
	more(&e)
	assert.Equal(t, e, have[0])
	return e
}

// TestEventsOfAsks: each ask is reported once, with all of its fields.
func TestEventsOfAsks(t *testing.T) {
	inTold(t, func(t *testing.T, w told) {
		a := whole(t, 1, path(20, 1))
		a.K, a.AuditFrom = 4, 12
		w.up.change = func(_ terms.Job, a *terms.Reply) error {
			a.Queue = 7 * time.Millisecond
			return nil
		}
		kind, b := w.r.say(a.Append(nil))
		require.Equal(t, netproto.KindAnswer, kind)
		answer, down, err := netproto.ParseAnswer(b)
		require.NoError(t, err)
		assert.Equal(t, terms.Reply{Token: answer.Token, Top: answer.Top, Audited: 8, Audit: answer.Audit,
			Queue: 7 * time.Millisecond, Compute: 3 * time.Millisecond}, answer.Reply)
		w.tells(t, gateway.Answered, func(e *gateway.Event) {
			e.Session, e.Context, e.Delta, e.BytesUp, e.BytesDown = 1, 20, 20, len(a.Append(nil)), down
			e.Message, e.Looked = netproto.KindAsk, 8
			e.Audited, e.Queue, e.Compute = 1, 7*time.Millisecond, 3*time.Millisecond
		})
		q := w.up.asked[0]
		assert.Equal(t, terms.Job{Client: q.Client, Device: q.Device, Domain: q.Client, Session: 1,
			Question: terms.Question{Context: path(20, 1), AuditFrom: 12, K: 4, Within: time.Minute}}, q)

		a = packed(t, 1, 15, netproto.RootHash.Over(path(15, 1)), []int32{9, 8, 7})
		a.Sampling = terms.Sampling{Temperature: 0.5, TopP: 0.5, TopK: 3, Seed: 9}
		_, b = w.r.say(a.Append(nil))
		w.tells(t, gateway.Answered, func(e *gateway.Event) {
			e.Session, e.Context, e.Delta, e.BytesUp, e.BytesDown = 1, 18, 3, len(a.Append(nil)), len(b)
			e.Message, e.Queue, e.Compute = netproto.KindAsk, 7*time.Millisecond, 3*time.Millisecond
		})
		assert.Equal(t, terms.Job{Client: q.Client, Device: q.Device, Domain: q.Client, Session: 1, Base: 15,
			Question: terms.Question{Context: append(path(15, 1), 9, 8, 7), Sampling: a.Sampling, Within: time.Minute}},
			w.up.asked[1])

		ask := packed(t, 1, 14, 1234, []int32{9, 8, 7}).Append(nil)
		kind, b = w.r.say(ask)
		require.Equal(t, netproto.KindNeed, kind)
		w.tells(t, gateway.Resent, func(e *gateway.Event) {
			e.Message, e.Context, e.Delta, e.BytesUp, e.BytesDown = netproto.KindAsk, 17, 3, len(ask), len(b)
		})
	})
}

// TestEventsOfSyncs: the same for text that is sent early, of which the upstream gets what is new.
func TestEventsOfSyncs(t *testing.T) {
	inTold(t, func(t *testing.T, w told) {
		sync := syncOf(t, 2, path(30, 2))
		kind, b := w.r.say(sync)
		require.Equal(t, netproto.KindAck, kind)
		assert.Equal(t, netproto.Ack{Position: 30}.Append(nil), b)
		w.tells(t, gateway.Synced, func(e *gateway.Event) {
			e.Message, e.Session = netproto.KindSync, 1
			e.Context, e.Delta, e.BytesUp, e.BytesDown = 30, 30, len(sync), len(b)
		})
		q := w.up.warmed[0]
		assert.Equal(t, []terms.Job{{Client: q.Client, Device: q.Device, Domain: q.Client, Session: 1,
			Question: terms.Question{Context: path(30, 2)}}}, w.up.warmed)
		w.r.say(sync)
		w.since(t)
		assert.Len(t, w.up.warmed, 1, "the whole path was known")
		on := packed(t, 2, 30, netproto.RootHash.Over(path(30, 2)), []int32{4}).Path
		w.r.say(netproto.Sync{Session: 2, Path: on}.Append(nil))
		w.since(t)
		assert.Equal(t, 30, w.up.warmed[1].Base)
		sync = netproto.Sync{Session: 2, Path: packed(t, 2, 29, 1234, []int32{4}).Path}.Append(nil)
		assert.Equal(t,
			netproto.Need{Position: 31, Hash: netproto.RootHash.Over(append(path(30, 2), 4))}, w.r.needs(sync))
		assert.Equal(t, gateway.Resent, w.since(t)[0].Kind)
	})
}

// TestEventsOfRefusals: the same for refusals; the client gets the text of a refusal of the upstream, and of no other
// error.
func TestEventsOfRefusals(t *testing.T) {
	inTold(t, func(t *testing.T, w told) {
		refusal := w.r.refused([]byte{byte(netproto.KindHello), 1, 2}, netproto.Malformed)
		w.tells(t, gateway.Refused, func(e *gateway.Event) {
			assert.ErrorContains(t, e.Err, "on a stream of its own")
			e.BytesUp, e.BytesDown = 3, len(refusal.Append(nil))
		})
		refusal = w.r.refused([]byte{byte(netproto.KindAsk), 5, 2}, netproto.Malformed)
		w.tells(t, gateway.Refused, func(e *gateway.Event) {
			assert.ErrorIs(t, e.Err, io.ErrUnexpectedEOF)
			e.BytesDown = len(refusal.Append(nil))
		})
		ask := whole(t, 1, path(20, 1)).Append(nil)
		w.up.change = func(terms.Job, *terms.Reply) error { return errors.New("inner text") }
		refusal = w.r.refused(ask, netproto.Failed)
		assert.Equal(t, netproto.Refusal{Code: netproto.Failed}, refusal, "the text is not sent")
		w.tells(t, gateway.Refused, func(e *gateway.Event) {
			assert.ErrorContains(t, e.Err, "inner text")
			e.Message, e.Session, e.Context, e.Delta = netproto.KindAsk, 1, 20, 20
			e.BytesUp, e.BytesDown = len(ask), len(refusal.Append(nil))
		})
		full := netproto.Refusal{Code: netproto.Busy, Detail: "full"}
		w.up.change = func(terms.Job, *terms.Reply) error { return full }
		assert.Equal(t, full, w.r.refused(ask, netproto.Busy))
	})
}

// TestEventsOfEnds: the same for cancelled asks, sessions that end, and connections, also before their Welcome.
func TestEventsOfEnds(t *testing.T) {
	inTold(t, func(t *testing.T, w told) {
		began := time.Now().Add(-15 * time.Millisecond)
		w.up.hold = make(chan struct{})
		s := w.r.send(whole(t, 3, path(20, 3)).Append(nil))
		w.since(t)
		waits := w.enter(guest{secret: secretA}).send(whole(t, 1, path(20, 1)).Append(nil))
		w.since(t)
		s.CancelRead(1)
		s.CancelWrite(1)
		w.tells(t, gateway.Dropped, func(e *gateway.Event) {
			require.Error(t, e.Err)
			e.Message, e.Session, e.Context, e.Delta, e.BytesUp = netproto.KindAsk, 1, 20, 20,
				len(whole(t, 3, path(20, 3)).Append(nil))
		})
		time.Sleep(time.Second)
		close(w.up.hold)
		late, err := answerOn(waits)
		require.NoError(t, err)
		assert.InDelta(t, 0.1, late.Queue.Seconds(), 0.02, "until the other ask was cancelled")
		w.since(t)
		_, err = w.r.control.Write(netproto.Bye{Session: 3}.Append(nil))
		require.NoError(t, err)
		assert.Equal(t, []gateway.Event{{Kind: gateway.Forgotten, Client: "lab", Device: w.from.Device, Session: 1}},
			w.since(t))
		lasted := time.Since(began)
		_ = w.r.CloseWithError(0, "")
		e := w.tells(t, gateway.Disconnected, func(e *gateway.Event) { e.Asks = 1 })
		assert.InDelta(t, lasted.Seconds(), e.Lasted.Seconds(), 0.15)
		w.turned(guest{secret: secretB, from: "10.2.0.1"}, netproto.WrongSecret)
		assert.Equal(t, []gateway.Event{{Kind: gateway.Refused, Address: w.from.Address,
			Err: netproto.Refusal{Code: netproto.WrongSecret}}}, w.since(t))
	})
}

// TestTook: the time of a message is from when all of it had arrived to when the reply was written, without what comes
// afterwards.
func TestTook(t *testing.T) {
	const model = 300 * time.Millisecond
	up := &decoder{fake: &fake{delay: model}, every: time.Second}
	up.warm = func(context.Context, terms.Job) error { time.Sleep(time.Second); return nil }
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		r := w.enter(guest{})
		late := whole(t, 1, path(6, 1))
		late.Within = model / 3
		for _, c := range []struct {
			name    string
			message []byte
			kind    gateway.EventKind
			want    time.Duration
		}{
			{"tokens ahead", wanting(t, 1, path(5, 1), 2).Append(nil), gateway.Answered, model},
			{"a sync", syncOf(t, 2, path(5, 1)), gateway.Synced, 0},
			{"a late ask", late.Append(nil), gateway.Refused, model / 3},
			{"a malformed ask", append(late.Append(nil)[:1], 0x7f), gateway.Refused, 0},
		} {
			s, err := r.OpenStreamSync(t.Context())
			require.NoError(t, err)
			for _, part := range [][]byte{c.message[:1], c.message[1:]} {
				_, err = s.Write(part)
				require.NoError(t, err)
				time.Sleep(700 * time.Millisecond)
			}
			_ = s.Close()
			time.Sleep(3 * time.Second)
			all := w.eventsOf(c.kind)
			require.NotEmpty(t, all, c.name)
			assert.Equal(t, c.want, all[len(all)-1].Took, "%s: %v", c.name, all[len(all)-1])
		}
		decoded := w.eventsOf(gateway.Decoded)
		require.Len(t, decoded, 1)
		assert.Equal(t, 2*time.Second, decoded[0].Took)
	})
}

// TestDisconnectedLast: a connection ends after its last ask, even if the upstream continues a cancelled one.
func TestDisconnectedLast(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		goOn := make(chan struct{})
		up.change = func(terms.Job, *terms.Reply) error {
			<-goOn
			return nil
		}
		r := w.enter(guest{})
		r.send(whole(t, 1, path(5, 1)).Append(nil))
		settle()
		_ = r.CloseWithError(0, "")
		settle()
		assert.Empty(t, w.eventsOf(gateway.Disconnected))
		assert.Equal(t, 1, w.Conns())
		close(goOn)
		settle()
		assert.Zero(t, w.Conns())
		w.mu.Lock()
		defer w.mu.Unlock()
		var kinds []gateway.EventKind
		for _, e := range w.events {
			kinds = append(kinds, e.Kind)
		}
		assert.Equal(t, []gateway.EventKind{gateway.Connected, gateway.Dropped, gateway.Disconnected}, kinds)
	})
}

// TestWarmFails: an error of computing early is reported, unless it was for lack of room or the context has ended.
func TestWarmFails(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		r := w.enter(guest{device: 5, from: "10.2.0.1"})
		broken := errors.New("broken")
		up.warm = func(context.Context, terms.Job) error { return broken }
		r.say(syncOf(t, 1, path(30, 2)))
		settle()
		assert.Equal(t, []gateway.Event{{
			Kind: gateway.Refused, Device: netproto.Device{5}.Name(), Address: netip.MustParsePrefix("10.2.0.1/32"),
			Session: 1, Message: netproto.KindSync, Err: broken,
		}}, w.eventsOf(gateway.Refused))
		up.warm = func(context.Context, terms.Job) error { return netproto.Refusal{Code: netproto.Busy} }
		r.say(syncOf(t, 1, path(31, 2)))
		settle()
		up.warm = func(ctx context.Context, _ terms.Job) error {
			<-ctx.Done()
			return broken
		}
		r.say(syncOf(t, 1, path(32, 2)))
		settle()
		_ = r.CloseWithError(0, "")
		settle()
		assert.Len(t, up.warmed, 3)
		assert.Len(t, w.eventsOf(gateway.Refused), 1)
	})
}

// TestPathsBeforeAnswers: a path from an earlier stream, an ask or a sync, is known to the next stream long before the
// answer, even if its stream is refused.
func TestPathsBeforeAnswers(t *testing.T) {
	up := &warming{fake: &fake{}}
	inWorld(t, gateway.Options{AskTimeout: time.Hour}, up, func(t *testing.T, w *world) {
		up.hold = make(chan struct{})
		r, p := w.enter(guest{}), path(40, 1)
		r.say(syncOf(t, 1, p)) // computing it early never ends
		r.goesOn(1, p, []int32{1})
		close(up.hold)
		settle()

		up.fake.hold, up.fake.holdOnly = make(chan struct{}), 13
		q := append([]int32{13}, path(20, 1)...)
		s := r.send(whole(t, 2, q).Append(nil)) // it is not answered
		settle()
		next := packed(t, 2, len(q), netproto.RootHash.Over(q), []int32{7}).Append(nil)
		later := r.send(next)
		began := time.Now()
		wrong := packed(t, 3, 7, 1234, []int32{1}).Append(nil)
		r.needs(wrong)
		assert.Less(t, time.Since(began), time.Second, "no stream waits for late answers")
		settle()
		require.Len(t, up.asked, 3)
		assert.Equal(t, append(q, 7), up.asked[2].Context)
		assert.Equal(t, len(q), up.asked[2].Base)
		close(up.fake.hold)
		for _, s := range []interface{ Read([]byte) (int, error) }{s, later} {
			kind, _, err := netproto.ReadFrame(s, 1<<16)
			require.NoError(t, err)
			assert.Equal(t, netproto.KindAnswer, kind)
		}
		r.refused(nil, netproto.Malformed)
		began = time.Now()
		for range 3 { // streams that the client does not end, with useless messages
			s := r.begin(wrong)
			kind, _ := r.hear(s)
			assert.Equal(t, netproto.KindNeed, kind)
		}
		assert.Less(t, time.Since(began), 100*time.Millisecond)
	})
}

// TestAnswersAreChecked: the answer of an upstream is checked against the question: invalid tokens are an error or are
// left out, and so are findings outside the audited part.
func TestAnswersAreChecked(t *testing.T) {
	type findings = []terms.Finding
	finding := func(position int, token int32) terms.Finding {
		return terms.Finding{Pos: position, Token: token, LogProb: -1}
	}
	ids := func(all ...int32) (top []terms.Candidate) {
		for _, id := range all {
			top = append(top, terms.Candidate{ID: id, LogProb: -1})
		}
		return top
	}
	for name, c := range map[string]struct {
		k, from int // of a question with 20 tokens
		says    terms.Reply
		want    terms.Reply
		fails   bool
	}{
		"the last token":    {0, 0, terms.Reply{Token: vocab - 1}, terms.Reply{Token: vocab - 1}, false},
		"one more":          {0, 0, terms.Reply{Token: vocab}, terms.Reply{}, true},
		"one less":          {0, 0, terms.Reply{Token: -1}, terms.Reply{}, true},
		"candidates":        {3, 0, terms.Reply{Top: ids(5, 0, vocab-1)}, terms.Reply{Top: ids(5, 0, vocab-1)}, false},
		"unknown candidate": {3, 0, terms.Reply{Top: ids(5, vocab)}, terms.Reply{}, true},
		"no audit wanted":   {0, 0, terms.Reply{Audited: 5, Audit: findings{finding(17, 3)}}, terms.Reply{}, true},
		"audited": {0, 15, terms.Reply{Audited: 5, Audit: findings{finding(15, 3), finding(19, 4)}},
			terms.Reply{Audited: 5, Audit: findings{finding(15, 3), finding(19, 4)}}, false},
		"audited less": {0, 15, terms.Reply{Audited: 2, Audit: findings{finding(18, 4)}},
			terms.Reply{Audited: 2, Audit: findings{finding(18, 4)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			up := &fake{change: func(_ terms.Job, a *terms.Reply) error {
				*a = c.says
				return nil
			}}
			inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
				a := whole(t, 1, path(20, 1))
				a.K, a.AuditFrom = c.k, c.from
				r := w.enter(guest{})
				if c.fails {
					assert.Equal(t, netproto.Refusal{Code: netproto.Failed}, r.refused(a.Append(nil), netproto.Failed))
					settle()
					require.ErrorContains(t, w.eventsOf(gateway.Refused)[0].Err, "it")
					return
				}
				got := r.answered(a)
				assert.Equal(t, c.want, got)
				settle()
				assert.Equal(t, len(c.want.Audit), w.eventsOf(gateway.Answered)[0].Audited)
			})
		})
	}
}

// TestNoWarmer: an upstream that cannot compute early is not asked to; the sent tokens are known anyway.
func TestNoWarmer(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, struct{ gateway.Upstream }{up}, func(t *testing.T, w *world) {
		r := w.enter(guest{})
		kind, _ := r.say(syncOf(t, 1, path(30, 2)))
		assert.Equal(t, netproto.KindAck, kind)
		r.goesOn(1, path(30, 2), []int32{1})
		assert.Equal(t, 30, up.asked[0].Base)
	})
}
