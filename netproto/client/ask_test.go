package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// bases returns the bases of the received asks.
func (s *script) bases() (all []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asks {
		all = append(all, a.Path.Base)
	}
	return all
}

// answerToAsk is an answer to an ask for the next token and an audit of a path of pathTokens, all but the first.
type answerToAsk struct {
	name  string
	reply []byte
	good  bool
}

const pathTokens = 8

func answersToAsk() []answerToAsk {
	const n = pathTokens
	finding := func(positions ...int) (all []terms.Finding) {
		for _, p := range positions {
			all = append(all, terms.Finding{Pos: p, Token: 8})
		}
		return all
	}
	answer := func(a terms.Reply) []byte { return netproto.Answer{Reply: a}.Append(nil) }
	return []answerToAsk{
		{"the first token", answer(terms.Reply{}), true},
		{"the last token", answer(terms.Reply{Token: 9}), true},
		{"a token outside the vocabulary", answer(terms.Reply{Token: 10}), false},
		{"a token far outside", answer(terms.Reply{Token: math.MaxInt32}), false},
		{"candidates", answer(terms.Reply{Top: []terms.Candidate{{ID: 9}, {ID: 0}}}), true},
		{"a candidate outside the vocabulary", answer(terms.Reply{Top: []terms.Candidate{{ID: 1}, {ID: 10}}}), false},
		{"a finding", answer(terms.Reply{Audited: 1, Audit: []terms.Finding{{Pos: n - 1, Token: 9}}}), true},
		{"a finding outside the vocabulary",
			answer(terms.Reply{Audited: 1, Audit: []terms.Finding{{Pos: n - 1, Token: 10}}}), false},
		{"an audit of all tokens but the first", answer(terms.Reply{Audited: n - 1}), true},
		{"an audit of the first token", answer(terms.Reply{Audited: n}), false},
		{"findings at both ends", answer(terms.Reply{Audited: n - 1, Audit: finding(1, n-1)}), true},
		{"a finding at the first position", answer(terms.Reply{Audited: 3, Audit: finding(n - 3)}), true},
		{"a finding before the first position", answer(terms.Reply{Audited: 3, Audit: finding(n - 4)}), false},
		{"one of two findings before it", answer(terms.Reply{Audited: 3, Audit: finding(n-4, n-1)}), false},
		{"one of two findings after the last position", answer(terms.Reply{Audited: 3, Audit: finding(n-2, n)}), false},
		{"a finding without an audit", answer(terms.Reply{Audit: finding(n - 1)}), false},
		{"an Ack", netproto.Ack{Position: n}.Append(nil), false},
		{"a Welcome", netproto.Welcome{}.Append(nil), false},
		{"a short Answer", []byte{byte(netproto.KindAnswer), 1, 0}, false},
		{"a short Need", []byte{byte(netproto.KindNeed), 1, 0}, false},
		{"a short Refusal", []byte{byte(netproto.KindRefusal), 0}, false},
		{"a padded length", []byte{byte(netproto.KindAnswer), 0x80, 0x00}, false},
	}
}

// TestWrongAnswers: an answer must fit the question and the vocabulary; otherwise the gateway breaks the protocol.
func TestWrongAnswers(t *testing.T) {
	for _, c := range answersToAsk() {
		t.Run(c.name, func(t *testing.T) {
			s := &script{reply: func(int, netproto.Ask) []byte { return c.reply }}
			inAir(t, s, func(t *testing.T, a *air) {
				_, session := s.dial(t, nil)
				q := terms.Question{Context: ids(pathTokens), AuditFrom: 1, Within: time.Minute}
				r, err := session.Ask(t.Context(), q)
				_, asks := s.count()
				assert.Equal(t, 1, asks, "the ask is not repeated")
				if c.good {
					want, _, _ := netproto.ParseAnswer(c.reply)
					require.NoError(t, err)
					assert.Equal(t, want.Token, r.Token)
					assert.Equal(t, want.Top, r.Top)
					assert.Equal(t, want.Audited, r.Audited)
					assert.Equal(t, want.Audit, r.Audit)
					assert.Equal(t, len(c.reply), r.BytesDown)
					assert.Equal(t, len(s.ask(0).Append(nil)), r.BytesUp)
					return
				}
				assert.ErrorIs(t, err, ErrProtocol)
				assert.NotErrorIs(t, err, netproto.TooLate)
				down := len(c.reply)
				if c.reply[1] == 0x80 {
					down = 0 // this is no message
				}
				assert.Equal(t, terms.Answer{BytesUp: len(s.ask(0).Append(nil)), BytesDown: down}, r)
				if kind := netproto.Kind(c.reply[0]); kind == netproto.KindAck || kind == netproto.KindWelcome {
					assert.EqualError(t, err, "ask: the gateway breaks the protocol: a "+kind.String()+" answers it")
				}
			})
		})
	}
}

// TestClockOfAnswer: the gateway's clock comes before an answer that has to have times, and nowhere else.
func TestClockOfAnswer(t *testing.T) {
	answer := netproto.Answer{Reply: terms.Reply{Token: 3}}.Append(nil)
	clock := netproto.Clock{Received: time.Hour, Sent: time.Hour + time.Millisecond}.Append(nil)
	for _, c := range []struct {
		name  string
		reply []byte
		times bool
		good  bool
	}{
		{"requested", slices.Concat(clock, answer), true, true},
		{"requested from a gateway that has none", answer, true, true}, // of a gateway that does not know
		{"not requested", slices.Concat(clock, answer), false, false},
		{"twice", slices.Concat(clock, clock, answer), true, false},
		{"a short clock", []byte{byte(netproto.KindClock), 1, 0}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{reply: func(int, netproto.Ask) []byte { return c.reply }}
			inAir(t, s, func(t *testing.T, a *air) {
				_, session := s.dial(t, nil)
				r, err := session.Ask(t.Context(), terms.Question{Context: ids(5), Times: c.times, Within: time.Minute})
				if !c.good {
					assert.ErrorIs(t, err, ErrProtocol)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, int32(3), r.Token)
				assert.Equal(t, len(c.reply), r.BytesDown)
				assert.Equal(t, len(c.reply) > len(answer), !r.Times.Received.IsZero())
			})
		})
	}
}

// TestQuery: a question arrives unchanged, and an invalid question is refused locally.
func TestQuery(t *testing.T) {
	top := []terms.Candidate{{ID: 3, LogProb: -0.5}, {ID: 4, LogProb: -1}}
	s := &script{reply: func(int, netproto.Ask) []byte {
		return netproto.Answer{Reply: terms.Reply{Token: 3, Top: top}}.Append(nil)
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		q := terms.Question{Context: ids(5), K: netproto.MaxK, AuditFrom: 2,
			Sampling: terms.Sampling{Temperature: 0.5, TopK: 3, TopP: 0.25, Seed: 9}}
		r := mustAsk(t, session, q)
		assert.Equal(t, top, r.Top)
		have := s.ask(0)
		assert.Equal(t, q, terms.Question{
			Context: q.Context, K: have.K, AuditFrom: have.AuditFrom, Sampling: have.Sampling,
		})
		assert.Equal(t, session.number, have.Session)
		for _, q := range []terms.Question{{K: -1}, {K: netproto.MaxK + 1}} {
			q.Context = ids(5)
			_, err := session.Ask(t.Context(), q)
			assert.ErrorIs(t, err, netproto.ErrValue)
		}
		_, err := session.Ask(t.Context(), terms.Question{})
		assert.ErrorIs(t, err, netproto.ErrValue)
		_, _, err = session.Sync(t.Context(), nil)
		assert.ErrorIs(t, err, netproto.ErrValue)
		_, err = session.Ask(t.Context(), terms.Question{Context: []int32{1, 10}})
		assert.ErrorIs(t, err, netproto.ErrValue)
		_, asks := s.count()
		assert.Equal(t, 1, asks)
		other, err := c.NewSession(t.Context())
		require.NoError(t, err)
		assert.NotEqual(t, session.number, other.number)
	})
}

// TestAcknowledged: acknowledged tokens are not sent again, on this connection or another one, by an ask or by a sync.
func TestAcknowledged(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		for i, n := range []int{20, 25, 24, 30} {
			if i == 3 {
				s.retire(c)
			}
			mustAsk(t, session, terms.Question{Context: ids(n), Within: aWhile})
		}
		assert.Equal(t, []int{0, 20, 24, 25}, s.bases())
		settle()
		assert.Equal(t, 2, c.Stats().Connections)
		up, down, err := session.Sync(t.Context(), ids(40))
		require.NoError(t, err)
		s.retire(c)
		sync := s.syncs[0]
		assert.Equal(t, 30, sync.Path.Base)
		assert.Equal(t, 10, sync.Path.Delta.Count)
		assert.Equal(t, session.number, sync.Session)
		assert.Equal(t, len(sync.Append(nil)), up)
		assert.Equal(t, 3, down)
		mustAsk(t, session, terms.Question{Context: ids(41), Within: aWhile})
		assert.Equal(t, 40, s.ask(4).Path.Base)
		assert.Equal(t, netproto.RootHash.Over(ids(40)), s.ask(4).Path.Hash)
	})
}

// TestUnacknowledged: tokens that were sent on this connection can be a base before they are acknowledged.
func TestUnacknowledged(t *testing.T) {
	var hold chan struct{}
	s := &script{reply: func(int, netproto.Ask) []byte {
		<-hold
		return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		hold = make(chan struct{})
		_, session := s.dial(t, nil)
		var asks sync.WaitGroup
		for i := range 4 {
			asks.Go(func() {
				_, err := session.Ask(t.Context(), terms.Question{Context: ids(20 + i)})
				assert.NoError(t, err)
			})
			time.Sleep(time.Second)
		}
		close(hold)
		asks.Wait()
		assert.Equal(t, []int{0, 20, 21, 22}, s.bases())
	})
}

// TestBaseOfOldConnection: tokens that were sent only on an earlier connection, and not acknowledged, are sent again.
func TestBaseOfOldConnection(t *testing.T) {
	s := &script{reply: func(conn int, _ netproto.Ask) []byte {
		if conn == 1 {
			return nil
		}
		return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, nil)
		r := mustAsk(t, session, terms.Question{Context: ids(20), Within: aWhile})
		assert.Equal(t, []int{0, 0}, s.bases())
		assert.Equal(t, 20, s.ask(1).Path.Delta.Count)
		assert.Equal(t, len(s.ask(0).Append(nil))+len(s.ask(1).Append(nil)), r.BytesUp, "including all repetitions")
	})
}

// TestBaseOfOldConnectionLater: the same if another path was sent on the new connection in between.
func TestBaseOfOldConnectionLater(t *testing.T) {
	s := &script{reply: func(conn int, _ netproto.Ask) []byte {
		if conn == 1 {
			time.Sleep(time.Minute)
		}
		return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		_, err := session.Ask(t.Context(), terms.Question{Context: ids(20), Within: time.Second})
		require.ErrorIs(t, err, netproto.TooLate)
		s.retire(c)
		for _, path := range [][]int32{{9, 8, 7}, ids(20)} {
			mustAsk(t, session, terms.Question{Context: path, Within: time.Minute})
		}
		assert.Equal(t, []int{0, 0, 0}, s.bases())
	})
}

// TestNeed: a gateway that needs the path from a position gets it from there if it holds our prefix, else all of it;
// tokens that it no longer holds are not a base of later asks.
func TestNeed(t *testing.T) {
	for _, c := range []struct {
		name     string
		position int
		hash     netproto.Hash
		base     int
	}{
		{"from a position of our prefix", 5, netproto.RootHash.Over(ids(5)), 5},
		{"of another prefix", 5, netproto.RootHash.Over(ids(5)) + 1, 0},
		{"all of it", 0, netproto.RootHash, 0},
		{"nothing", 21, netproto.RootHash.Over(ids(21)), 21},
		{"beyond the path", 22, netproto.RootHash.Over(ids(22)), 0},
		{"far beyond the path", 4000, netproto.RootHash.Over(ids(20)), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			asks := 0
			s := &script{reply: func(int, netproto.Ask) []byte {
				if asks++; asks == 2 {
					return netproto.Need{Position: c.position, Hash: c.hash}.Append(nil)
				}
				return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
			}}
			inAir(t, s, func(t *testing.T, a *air) {
				_, session := s.dial(t, nil)
				for _, n := range []int{20, 21} {
					r := mustAsk(t, session, terms.Question{Context: ids(n), Within: aWhile})
					down := len(netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil))
					if n == 21 {
						down += len(netproto.Need{Position: c.position, Hash: c.hash}.Append(nil))
					}
					assert.Equal(t, down, r.BytesDown, "including all repetitions")
				}
				assert.Equal(t, []int{0, 20, c.base}, s.bases())
			})
		})
	}
}

// TestNoStreamsOfTheGateway: a gateway cannot open streams, which the client would keep unread.
func TestNoStreamsOfTheGateway(t *testing.T) {
	opened := make(chan error, 2)
	s := &script{reply: always(1), open: func(qc *quic.Conn) {
		_, err := qc.OpenStream()
		opened <- err
		_, err = qc.OpenUniStream()
		opened <- err
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, nil)
		mustAsk(t, session, terms.Question{Context: ids(3), Within: aWhile})
		for range 2 {
			assert.ErrorIs(t, <-opened, &quic.StreamLimitReachedError{})
		}
	})
}

// TestAttemptsOfAnAsk: an ask is sent at most sixteen times to a gateway that never accepts the path, or always
// disconnects.
func TestAttemptsOfAnAsk(t *testing.T) {
	for name, c := range map[string]struct {
		reply []byte
		want  error
	}{
		"never accepts the path": {netproto.Need{Hash: netproto.RootHash}.Append(nil), ErrProtocol},
		"always disconnects":     {refuse(netproto.Draining), errRepeat},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{reply: func(int, netproto.Ask) []byte { return c.reply }}
			inAir(t, s, func(t *testing.T, a *air) {
				_, session := s.dial(t, nil)
				_, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Hour})
				assert.ErrorIs(t, err, c.want)
				assert.Equal(t, c.want == ErrProtocol,
					err.Error() == "ask: the gateway breaks the protocol: it does not take the path")
				_, asks := s.count()
				assert.Equal(t, 16, asks)
			})
		})
	}
}

// TestRefusalOfAsk: each refusal of an ask that it would outlast is returned with its code and text, at once and after
// one attempt; only a draining gateway makes the client use another connection.
func TestRefusalOfAsk(t *testing.T) {
	for code := netproto.NoReason; code <= netproto.Cancelled; code++ {
		t.Run(code.Error(), func(t *testing.T) {
			s := &script{}
			asked := 0
			s.reply = func(int, netproto.Ask) []byte {
				if asked++; asked == 1 {
					return netproto.Refusal{Code: code, Detail: "some words", RetryAfter: time.Second}.Append(nil)
				}
				return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
			}
			inAir(t, s, func(t *testing.T, a *air) {
				c, session := s.dial(t, nil)
				r, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Second})
				hellos, asks := s.count()
				if code == netproto.Draining {
					require.NoError(t, err)
					assert.Equal(t, 2, hellos)
					assert.Equal(t, 2, asks)
					assert.Equal(t, 2, c.Stats().Connections)
					return
				}
				refused, ok := errors.AsType[netproto.Refusal](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, netproto.Refusal{Code: code, Detail: "some words", RetryAfter: time.Second}, refused)
				assert.ErrorIs(t, err, code)
				assert.Equal(t, 1, hellos)
				assert.Equal(t, 1, asks)
				assert.Positive(t, min(r.BytesUp, r.BytesDown), "the bytes that it cost")
				assert.Equal(t, []int{0}, s.bases())
				mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Hour})
			})
		})
	}
}

// TestRepeatedAsk: an ask is repeated after a temporary refusal, at the time that the gateway states or a little later,
// but not forever, nor after its deadline.
func TestRepeatedAsk(t *testing.T) {
	for code := netproto.NoReason; code <= netproto.Cancelled; code++ {
		for times, within := range map[int]time.Duration{1: 0, 1000: 0, 2: 10 * time.Second, 1001: 10 * time.Second} {
			t.Run(fmt.Sprintf("%v, %d times within %v", code, times, within), func(t *testing.T) {
				s := &script{}
				asked := 0
				s.reply = func(int, netproto.Ask) []byte {
					if asked++; asked <= times {
						return netproto.Refusal{Code: code, RetryAfter: 2 * time.Second}.Append(nil)
					}
					return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
				}
				inAir(t, s, func(t *testing.T, a *air) {
					_, session := s.dial(t, nil)
					began := time.Now()
					r, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: within})
					took := time.Since(began)
					_, asks := s.count()
					switch {
					case code == netproto.Draining: // uses another connection at once
					case code.Lasting():
						assert.ErrorIs(t, err, code)
						assert.Equal(t, 1, asks)
					case times == 1:
						require.NoError(t, err)
						assert.Equal(t, 2, asks)
						assert.GreaterOrEqual(t, took, 2*time.Second)
						assert.Less(t, took, 3*time.Second+500*time.Millisecond)
						refusal := netproto.Refusal{Code: code, RetryAfter: 2 * time.Second}.Append(nil)
						answer := netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
						assert.Equal(t, len(refusal)+len(answer), r.BytesDown, "of both")
						assert.Equal(t, len(s.ask(0).Append(nil))+len(s.ask(1).Append(nil)), r.BytesUp, "of both")
						assert.Equal(t, 3, r.Prefilled, "they were new the first time")
					case times == 2:
						require.NoError(t, err)
						assert.Equal(t, 3, asks)
					case within > 0:
						if !errors.Is(err, netproto.TooLate) { // the deadline passed during the last attempt
							assert.ErrorIs(t, err, code)
						}
						assert.GreaterOrEqual(t, asks, 3)
						assert.LessOrEqual(t, took, within)
					default:
						assert.ErrorIs(t, err, code)
						assert.Greater(t, asks, 10)
						assert.LessOrEqual(t, took, 30*time.Second+6*a.hop, "no pause exceeds patience")
						assert.Positive(t, min(r.BytesUp, r.BytesDown), "the bytes of all attempts")
					}
				})
			})
		}
	}
}

// TestRepeatedAskPause: an ask is repeated after 50 ms at the earliest, even if the gateway states no time. Pauses
// vary, so that devices that were refused together do not come back together.
func TestRepeatedAskPause(t *testing.T) {
	s := &script{reply: func(int, netproto.Ask) []byte { return refuse(netproto.Busy) }}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		require.NoError(t, c.connectOnce(t.Context()))
		_, err := session.Ask(t.Context(), terms.Question{Context: ids(3)})
		assert.ErrorIs(t, err, netproto.Busy)
		_, asks := s.count()
		assert.InDelta(t, patience/(62500*time.Microsecond+2*a.hop), asks, 30)
		assert.Less(t, asks, int(patience/(50*time.Millisecond+2*a.hop))-15, "as many as with the shortest pauses")
	})
}

// TestFailedAsk: an ask at which the large model failed is not repeated, unless the gateway says when it may be back.
func TestFailedAsk(t *testing.T) {
	s := &script{reply: func(int, netproto.Ask) []byte { return refuse(netproto.Failed) }}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, nil)
		_, err := session.Ask(t.Context(), terms.Question{Context: ids(3)})
		assert.ErrorIs(t, err, netproto.Failed)
		_, asks := s.count()
		assert.Equal(t, 1, asks)
	})
}

// TestRepeatedAskEnds: the pause before a refused ask is repeated ends with the context or the session. It never
// exceeds what patience leaves, so an ask with a time before that is not given up.
func TestRepeatedAskEnds(t *testing.T) {
	s := &script{reply: func(int, netproto.Ask) []byte {
		return netproto.Refusal{Code: netproto.Busy, RetryAfter: 29 * time.Second}.Append(nil)
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, nil)
		gone := errors.New("the branch is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		for _, c := range []struct {
			end  func()
			want error
		}{{func() { cancel(gone) }, gone}, {session.Close, ErrClosed}} {
			start := time.Now()
			time.AfterFunc(time.Second, c.end)
			r, err := session.Ask(ctx, terms.Question{Context: ids(3)})
			assert.ErrorIs(t, err, c.want)
			assert.Equal(t, time.Second, time.Since(start))
			assert.Positive(t, r.BytesUp)
			ctx = t.Context()
		}
	})
}

// TestControlStream: a gateway that announces on the control stream that it drains gets no new asks, and answers the
// open ones; any other message there ends the connection.
func TestControlStream(t *testing.T) {
	for _, c := range []struct {
		name     string
		say      []byte
		answered bool
	}{
		{"it drains", refuse(netproto.Draining), true},
		{"it drains twice", slices.Concat(refuse(netproto.Draining), refuse(netproto.Draining)), true},
		{"it is busy", refuse(netproto.Busy), false},
		{"an Ack", netproto.Ack{}.Append(nil), false},
		{"an Ack after it drains", slices.Concat(refuse(netproto.Draining), netproto.Ack{}.Append(nil)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var hold chan struct{}
			s := &script{reply: func(conn int, _ netproto.Ask) []byte {
				if conn == 1 {
					<-hold
				}
				return netproto.Answer{Reply: terms.Reply{Token: int32(conn)}}.Append(nil)
			}}
			inAir(t, s, func(t *testing.T, a *air) {
				hold = make(chan struct{})
				client, session := s.dial(t, nil)
				var first sync.WaitGroup
				first.Go(func() {
					r, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Minute})
					assert.NoError(t, err)
					assert.EqualValues(t, map[bool]int{true: 1, false: 2}[c.answered], r.Token)
				})
				settle()
				client.mu.Lock()
				l := client.current
				client.mu.Unlock()
				s.mu.Lock()
				_, err := s.controls[0].Write(c.say)
				s.mu.Unlock()
				require.NoError(t, err)
				settle()
				require.False(t, l.isUsable())
				r := mustAsk(t, session, terms.Question{Context: ids(4), Within: time.Minute})
				assert.EqualValues(t, 2, r.Token)
				close(hold)
				first.Wait()
				settle()
				client.mu.Lock()
				assert.Len(t, client.links, 1, "the old connection ends with its last ask")
				client.mu.Unlock()
				mustAsk(t, session, terms.Question{Context: ids(5), Within: time.Minute})
				hellos, _ := s.count()
				assert.Equal(t, 2, hellos, "and does not end the new one")
			})
		})
	}
}

// TestRetire: a retired connection takes no new asks, and ends with its last open ask.
func TestRetire(t *testing.T) {
	var holds []chan struct{}
	s := &script{reply: func(_ int, a netproto.Ask) []byte {
		<-holds[a.Path.Position()-3]
		return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		holds = []chan struct{}{make(chan struct{}), make(chan struct{})}
		c, session := s.dial(t, nil)
		var asks sync.WaitGroup
		for i := range holds {
			asks.Go(func() {
				_, err := session.Ask(t.Context(), terms.Question{Context: ids(3 + i)})
				assert.NoError(t, err)
			})
		}
		settle()
		c.mu.Lock()
		l := c.current
		c.mu.Unlock()
		c.retireLink(l)
		assert.False(t, l.startRequest())
		for i, hold := range holds {
			assert.NoError(t, l.qc.Context().Err(), "%d are answered", i)
			close(hold)
			settle()
		}
		assert.Error(t, l.qc.Context().Err())
		asks.Wait()
		hellos, _ := s.count()
		assert.Equal(t, 1, hellos)
	})
}

// TestSessionClose: closing a session informs the gateway and ends all its asks; other sessions continue.
func TestSessionClose(t *testing.T) {
	s := &script{reply: func(_ int, a netproto.Ask) []byte {
		if a.Path.Position() == 7 {
			time.Sleep(time.Minute)
		}
		return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		other, err := c.NewSession(t.Context())
		require.NoError(t, err)
		failed := make(chan error, 1)
		go func() {
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(7), Within: time.Hour})
			failed <- err
		}()
		settle()
		start := time.Now()
		session.Close()
		assert.ErrorIs(t, <-failed, ErrClosed)
		assert.Zero(t, time.Since(start))
		_, err = session.Ask(t.Context(), terms.Question{Context: ids(3)})
		assert.ErrorIs(t, err, ErrClosed)
		_, _, err = session.Sync(t.Context(), ids(3))
		assert.ErrorIs(t, err, ErrClosed)
		_, err = other.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Hour})
		require.NoError(t, err)
		s.mu.Lock()
		assert.Equal(t, []uint32{session.number}, s.byes)
		s.mu.Unlock()
	})
}

// TestLeft: what a session reports as sent is what arrives at the gateway: asks, repeated ones too, a sync and the Bye.
func TestLeft(t *testing.T) {
	n := 0
	s := &script{reply: func(int, netproto.Ask) []byte {
		if n++; n%3 == 0 {
			return refuse(netproto.Busy)
		}
		return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		for i := range 6 {
			mustAsk(t, session, terms.Question{Context: ids(3 + i)})
		}
		_, _, err := session.Sync(t.Context(), ids(30))
		require.NoError(t, err)
		s.retire(c)
		mustAsk(t, session, terms.Question{Context: ids(40)})
		session.Close()
		settle()
		want := Left{Bytes: len(netproto.Bye{}.Append(nil))}
		assert.Len(t, s.asks, 10)
		for _, a := range s.asks {
			want = Left{want.Tokens + a.Path.Delta.Count, want.Bytes + len(a.Append(nil))}
		}
		for _, y := range s.syncs {
			want = Left{want.Tokens + y.Path.Delta.Count, want.Bytes + len(y.Append(nil))}
		}
		assert.Equal(t, want, session.Left())
	})
}

// TestClose: methods of a closed client return ErrClosed. Close cancels running asks and waits for them.
func TestClose(t *testing.T) {
	s := &script{reply: func(int, netproto.Ask) []byte { time.Sleep(time.Minute); return nil }}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		var all sync.WaitGroup
		all.Go(func() {
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3)})
			assert.ErrorIs(t, err, ErrClosed)
		})
		all.Go(func() {
			_, _, err := session.Sync(t.Context(), ids(3))
			assert.NoError(t, err)
		})
		settle()
		start := time.Now()
		require.NoError(t, c.Close())
		all.Wait()
		assert.Zero(t, time.Since(start))
		require.NoError(t, c.Close(), "once more")
		_, err := c.NewSession(t.Context())
		assert.ErrorIs(t, err, ErrClosed)
		_, err = session.Ask(t.Context(), terms.Question{Context: ids(3)})
		assert.ErrorIs(t, err, ErrClosed)
		_, _, err = session.Sync(t.Context(), ids(3))
		assert.ErrorIs(t, err, ErrClosed)
		assert.ErrorIs(t, c.connectOnce(t.Context()), ErrClosed)
		assert.Empty(t, c.links)
		settle()
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Len(t, s.ended, 1)
		ended, ok := errors.AsType[*quic.ApplicationError](s.ended[0])
		require.True(t, ok, "the gateway gets the reason: %v", s.ended[0])
		assert.EqualValues(t, netproto.NoReason, ended.ErrorCode)
	})
}

// TestCloseBeforeConnected: Close ends an attempt to connect and the asks that wait for it.
func TestCloseBeforeConnected(t *testing.T) {
	s := &script{}
	inAir(t, s, func(t *testing.T, a *air) {
		a.silence(true)
		var seen attempts
		c, session := s.dial(t, func(o *Options) { o.Attempted = seen.add })
		var all sync.WaitGroup
		all.Go(func() {
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3)})
			assert.ErrorIs(t, err, ErrClosed)
		})
		time.Sleep(time.Second)
		require.NoError(t, c.Close())
		all.Wait()
		assert.Zero(t, c.Stats().Connections)
		assert.Empty(t, seen.get(), "an attempt that Close ends is not a failure")
	})
}

// TestCloseRefused: Close waits for the report of a refused attempt, and does not wait for the pause after it.
func TestCloseRefused(t *testing.T) {
	busy := &script{hello: func(int) []byte { return refuse(netproto.Busy) }}
	inAir(t, busy, func(t *testing.T, a *air) {
		reported := false
		c, _ := busy.dial(t, func(o *Options) {
			o.Attempted = func(error) { time.Sleep(time.Minute); reported = true }
		})
		settle()
		require.NoError(t, c.Close())
		assert.True(t, reported, "nothing runs after Close")
	})
	inAir(t, busy, func(t *testing.T, a *air) {
		c, session := busy.dial(t, nil)
		var all sync.WaitGroup
		all.Go(func() {
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3)})
			assert.ErrorIs(t, err, ErrClosed)
		})
		time.Sleep(20 * time.Second) // in a pause of about five seconds
		start := time.Now()
		require.NoError(t, c.Close())
		all.Wait()
		assert.Zero(t, time.Since(start))
	})
}

// TestContextEnds: the cause of an ended context is returned, and the stream is reset; an ended context cannot begin a
// session.
func TestContextEnds(t *testing.T) {
	s := &script{reply: func(int, netproto.Ask) []byte { time.Sleep(time.Minute); return nil }}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		gone := errors.New("the branch is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		start := time.Now()
		_, err := session.Ask(ctx, terms.Question{Context: ids(3), Within: time.Hour})
		assert.Equal(t, time.Second, time.Since(start))
		assert.ErrorIs(t, err, gone)
		assert.NotErrorIs(t, err, ErrNoReply, "the gateway has replied")
		_, err = c.NewSession(ctx)
		assert.ErrorIs(t, err, gone)
		a.silence(true)
		s.retire(c)
		ctx, cancel = context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		_, err = Dial(ctx, s.addr, s.opt)
		assert.ErrorIs(t, err, gone)
	})
}

// counting is a context that counts registrations for its end.
type counting struct {
	context.Context
	done    chan struct{} // its own: package context recognizes its own contexts by their channels
	waiting atomic.Int32
}

func newCounting(ctx context.Context) *counting {
	return &counting{Context: ctx, done: make(chan struct{})}
}

// package context calls AfterFunc for contexts of other types.
func (c *counting) AfterFunc(func()) func() bool {
	c.waiting.Add(1)
	return sync.OnceValue(func() bool { c.waiting.Add(-1); return true })
}

// Done returns a channel: otherwise no registration is made.
func (c *counting) Done() <-chan struct{} { return c.done }

// TestNothingWaits: asks and syncs leave no registration at the context of the caller or the session.
func TestNothingWaits(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, nil)
		caller, whole := newCounting(t.Context()), newCounting(session.ctx)
		session.ctx = whole
		for _, deadline := range []time.Duration{0, time.Hour} {
			_, err := session.Ask(caller, terms.Question{Context: ids(3), Within: deadline})
			require.NoError(t, err)
		}
		_, _, err := session.Sync(caller, ids(3))
		require.NoError(t, err)
		assert.Zero(t, caller.waiting.Load())
		assert.Zero(t, whole.waiting.Load())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		inside := newCounting(ctx)
		_, err = session.waitForLink(inside)
		require.NoError(t, err)
		assert.Zero(t, inside.waiting.Load())
	})
}

// TestReset: the stream is reset when the context has ended or the answer is invalid.
func TestReset(t *testing.T) {
	for name, says := range map[string][]byte{
		"the deadline": nil, "no frame": {byte(netproto.KindAnswer), 0x80, 0x00},
	} {
		t.Run(name, func(t *testing.T) {
			why := make(chan error, 1)
			s := &script{hold: func(stream *quic.Stream) {
				stream.Write(says)
				<-stream.Context().Done()
				why <- context.Cause(stream.Context())
			}}
			inAir(t, s, func(t *testing.T, a *air) {
				why = make(chan error, 1)
				_, session := s.dial(t, nil)
				_, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Second})
				require.Error(t, err)
				settle()
				select {
				case err := <-why:
					stopped, ok := errors.AsType[*quic.StreamError](err)
					require.True(t, ok, "%v", err)
					assert.EqualValues(t, netproto.Cancelled, stopped.ErrorCode)
					assert.True(t, stopped.Remote)
				default:
					t.Error("the gateway goes on")
				}
			})
		})
	}
}

// TestResetOfAsk: if the gateway resets the stream of an ask, the error has the code of the reset, and the ask is not
// repeated.
func TestResetOfAsk(t *testing.T) {
	asks := 0
	s := &script{raw: func(stream *quic.Stream) {
		asks++
		stream.CancelRead(quic.StreamErrorCode(netproto.Busy))
		stream.CancelWrite(quic.StreamErrorCode(netproto.Busy))
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, nil)
		_, err := session.Ask(t.Context(), terms.Question{Context: ids(3)})
		assert.ErrorIs(t, err, netproto.Busy)
		assert.NotErrorIs(t, err, ErrProtocol)
		assert.Equal(t, 1, asks)
	})
}

// TestResetUnsent: the rest of an ask with an ended context is not sent.
func TestResetUnsent(t *testing.T) {
	var why chan error
	s := &script{raw: func(stream *quic.Stream) {
		time.Sleep(time.Minute)
		_, err := io.ReadAll(stream)
		why <- err
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		why = make(chan error, 1)
		_, session := s.dial(t, func(o *Options) { o.Identity.Vocab = 1 << 20 })
		start := time.Now()
		_, err := session.Ask(t.Context(), terms.Question{Context: scattered(500_000), Within: 10 * time.Second})
		require.ErrorIs(t, err, netproto.TooLate)
		assert.Equal(t, 10*time.Second, time.Since(start), "it does not wait until the gateway reads")
		stopped, ok := errors.AsType[*quic.StreamError](<-why)
		require.True(t, ok)
		assert.EqualValues(t, netproto.Cancelled, stopped.ErrorCode)
	})
}

// TestAnswersOfSync: only an Ack completes a sync; its payload is counted in any case.
func TestAnswersOfSync(t *testing.T) {
	for name, c := range map[string]struct {
		reply []byte
		want  error
	}{
		"a refusal":       {refuse(netproto.TooLarge), netproto.TooLarge},
		"an Answer":       {netproto.Answer{}.Append(nil), ErrProtocol},
		"a Need":          {netproto.Need{Hash: 1}.Append(nil), ErrProtocol},
		"a short Need":    {[]byte{byte(netproto.KindNeed), 1, 0}, ErrProtocol},
		"a padded length": {[]byte{byte(netproto.KindAck), 0x80, 0x00}, ErrProtocol},
		"a short Refusal": {[]byte{byte(netproto.KindRefusal), 2, 11, 99}, ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{sync: func(netproto.Sync) []byte { return c.reply }}
			inAir(t, s, func(t *testing.T, a *air) {
				_, session := s.dial(t, nil)
				up, down, err := session.Sync(t.Context(), ids(3))
				assert.ErrorIs(t, err, c.want)
				assert.ErrorContains(t, err, "sync: ")
				n := len(s.syncs) // after a Need it is repeated
				if c.reply[1] == 0x80 {
					c.reply = nil // this is no message
				}
				assert.Equal(t, n*len(s.syncs[0].Append(nil)), up)
				assert.Equal(t, n*len(c.reply), down)
			})
		})
	}
}

// scattered returns a path of n tokens of a vocabulary of 2²⁰ that cannot be compressed.
func scattered(n int) []int32 {
	path := make([]int32, n)
	for i := range path {
		path[i] = int32(uint32(i)*2654435761) & (1<<20 - 1)
	}
	return path
}

// TestEndOfStream: an ask ends with the end of its stream. Its answer is returned before the gateway's end of the
// stream arrives. The stream waits a second for that, but the ask does not.
func TestEndOfStream(t *testing.T) {
	var ended, why chan error
	s := &script{hold: func(stream *quic.Stream) {
		_, err := stream.Read(make([]byte, 1))
		ended <- err
		stream.Write(netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil))
		<-stream.Context().Done()
		why <- context.Cause(stream.Context())
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		ended, why = make(chan error, 1), make(chan error, 1)
		c, session := s.dial(t, nil)
		require.NoError(t, c.connectOnce(t.Context()))
		start := time.Now()
		mustAsk(t, session, terms.Question{Context: ids(3)})
		assert.Equal(t, 2*a.hop, time.Since(start))
		assert.Equal(t, io.EOF, <-ended)
		stopped, ok := errors.AsType[*quic.StreamError](<-why)
		require.True(t, ok)
		assert.EqualValues(t, netproto.NoReason, stopped.ErrorCode)
		assert.Equal(t, time.Second+3*a.hop, time.Since(start))
	})
}

// TestDialFails: nothing of a client is left if Dial fails.
func TestDialFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, err := Dial(t.Context(), "nowhere:1", Options{Identity: netproto.Identity{Vocab: 10}, network: newAir()})
		assert.ErrorContains(t, err, "no such host")
		assert.ErrorContains(t, err, fmt.Sprint(ErrNoReply))
	})
}

// TestEarlyRefusal: a refusal that arrives before the ask is completely written is returned.
func TestEarlyRefusal(t *testing.T) {
	g := (&script{early: netproto.Refusal{Code: netproto.TooLarge, Detail: "much too large"}.Append(nil)}).start(t)
	g.opt.Identity.Vocab = 1 << 20
	c, err := Dial(t.Context(), g.addr, g.opt)
	require.NoError(t, err)
	defer c.Close()
	for _, tokens := range []int{1, 800_000} { // the second exceeds the flow control window of a stream
		s, err := c.NewSession(t.Context())
		require.NoError(t, err)
		_, err = s.Ask(t.Context(), terms.Question{Context: scattered(tokens), Within: aWhile})
		require.ErrorIs(t, err, netproto.TooLarge)
		require.ErrorContains(t, err, "much too large")
	}
}
