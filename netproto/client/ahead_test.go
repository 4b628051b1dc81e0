package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// follows is a gateway that answers after a round trip and then sends bytes, one piece every ten milliseconds. Without
// end the stream stays open until the client ends it.
type follows struct {
	pieces [][]byte
	end    bool
	ended  chan error // error that ended the stream
}

func (f *follows) script() *script {
	return &script{ahead: netproto.MaxAhead, hold: func(stream *quic.Stream) {
		stream.Write(netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil))
		for _, b := range f.pieces {
			time.Sleep(10 * time.Millisecond)
			if _, err := stream.Write(b); err != nil {
				break
			}
		}
		if f.end {
			stream.Close()
			return
		}
		<-stream.Context().Done()
		f.ended <- context.Cause(stream.Context())
	}}
}

// code returns the error code with which the client ended a stream.
func (f *follows) code(t *testing.T) netproto.Code {
	t.Helper()
	stopped, ok := errors.AsType[*quic.StreamError](<-f.ended)
	require.True(t, ok)
	require.True(t, stopped.Remote)
	return netproto.Code(stopped.ErrorCode)
}

func tokens(all ...int32) (b [][]byte) {
	for _, id := range all {
		b = append(b, netproto.Ahead{Token: id}.Append(nil))
	}
	return b
}

// all reads a channel to its end.
func all(c <-chan int32) (got []int32) {
	for id := range c {
		got = append(got, id)
	}
	return got
}

// TestAhead: Ask returns with the answer; tokens ahead follow as they arrive, and end with the stream or with the last
// requested token.
func TestAhead(t *testing.T) {
	three := []int32{5, 6, 7}
	for wanted, want := range map[int][]int32{1: {5}, 2: {5, 6}, 3: three, 4: three, netproto.MaxAhead: three} {
		t.Run(fmt.Sprint(wanted, " requested"), func(t *testing.T) {
			f := &follows{pieces: tokens(5, 6, 7)[:len(want)], end: true}
			s := f.script()
			inAir(t, s, func(t *testing.T, a *air) {
				c, session := s.dial(t, nil)
				require.NoError(t, c.connectOnce(t.Context()))
				start := time.Now()
				r := mustAsk(t, session, terms.Question{Context: ids(3), Ahead: wanted, Within: time.Second})
				assert.Equal(t, 2*a.hop, time.Since(start))
				for i, id := range want {
					assert.Equal(t, id, <-r.Ahead)
					assert.Equal(t, 2*a.hop+time.Duration(i+1)*10*time.Millisecond, time.Since(start))
				}
				_, more := <-r.Ahead
				assert.False(t, more)
				assert.LessOrEqual(t, time.Since(start), 3*a.hop+time.Duration(len(want))*10*time.Millisecond)
				assert.Equal(t, wanted, s.ask(0).Ahead)
				settle()
			})
		})
	}
}

// TestAheadUnwanted: an ask without tokens ahead has none, even if more data follows its answer; an ask with tokens
// ahead gets no more than the gateway allows.
func TestAheadUnwanted(t *testing.T) {
	s := &script{reply: always(1), ahead: 3}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		require.NoError(t, c.connectOnce(t.Context()))
		for i, ahead := range []int{0, 2, 3, 9} {
			r := mustAsk(t, session, terms.Question{Context: ids(3), Ahead: ahead})
			assert.Equal(t, ahead == 0, r.Ahead == nil)
			assert.Equal(t, min(ahead, 3), s.ask(i).Ahead)
			assert.Empty(t, all(aheadOrNone(r)))
		}
		for _, q := range []terms.Question{
			{Ahead: -1}, {Ahead: netproto.MaxAhead + 1}, {Verify: terms.EachJudged + 1},
		} {
			q.Context = ids(3)
			_, err := session.Ask(t.Context(), q)
			assert.ErrorIs(t, err, netproto.ErrValue)
		}
	})
}

// aheadOrNone returns Ahead, or a closed channel without it.
func aheadOrNone(r terms.Answer) <-chan int32 {
	if r.Ahead != nil {
		return r.Ahead
	}
	none := make(chan int32)
	close(none)
	return none
}

// TestAheadBroken: an invalid token, an invalid Ahead, or more tokens than requested end the stream.
// Earlier tokens are valid.
func TestAheadBroken(t *testing.T) {
	good := tokens(5)
	for name, c := range map[string]struct {
		pieces [][]byte
		end    bool
		code   netproto.Code
	}{
		"outside the vocabulary": {tokens(5, 10), false, netproto.Malformed},
		"far outside":            {tokens(5, math.MaxInt32), false, netproto.Malformed},
		"another message":        {append(good, netproto.Ack{Position: 3}.Append(nil)), false, netproto.Malformed},
		"another answer": {append(good, netproto.Answer{Reply: terms.Reply{Token: 3}}.Append(nil)), false,
			netproto.Malformed},
		"a long one":          {append(good, []byte{10, 0x90, 0x4e}), false, netproto.Malformed},
		"a refusal":           {append(good, refuse(netproto.Busy)), false, netproto.Malformed},
		"two tokens in one":   {append(good, []byte{10, 2, 1, 1}), false, netproto.Malformed},
		"not at its shortest": {append(good, []byte{10, 2, 0x81, 0}), false, netproto.Malformed},
		"cut off":             {append(good, []byte{10, 1}), true, 0},
		"without end":         {tokens(5, 5, 5, 5, 5, 5, 5, 5), false, netproto.NoReason},
	} {
		t.Run(name, func(t *testing.T) {
			f := &follows{pieces: c.pieces, end: c.end}
			s := f.script()
			inAir(t, s, func(t *testing.T, a *air) {
				f.ended = make(chan error, 1)
				_, session := s.dial(t, nil)
				r := mustAsk(t, session, terms.Question{Context: ids(3), Ahead: 3})
				got := all(r.Ahead)
				if name == "without end" {
					assert.Equal(t, []int32{5, 5, 5}, got)
				} else {
					assert.Equal(t, []int32{5}, got)
				}
				settle()
				if !c.end {
					assert.Equal(t, c.code, f.code(t))
				}
				_, err := session.Ask(t.Context(), terms.Question{Context: ids(4)})
				assert.NoError(t, err, "the connection stays open")
			})
		})
	}
}

// TestAheadEnds: the tokens end if the gateway resets the stream, the connection is lost, or the session or client is
// closed. That is not a breach of the protocol.
func TestAheadEnds(t *testing.T) {
	for name, end := range map[string]func(s *script, c *Client, session *Session, cancel func(), stream *quic.Stream){
		"reset":   func(_ *script, _ *Client, _ *Session, _ func(), stream *quic.Stream) { stream.CancelWrite(9) },
		"gateway": func(s *script, _ *Client, _ *Session, _ func(), _ *quic.Stream) { s.stop() },
		"context": func(_ *script, _ *Client, _ *Session, cancel func(), _ *quic.Stream) { cancel() },
		"session": func(_ *script, _ *Client, session *Session, _ func(), _ *quic.Stream) { session.Close() },
		"client":  func(_ *script, c *Client, _ *Session, _ func(), _ *quic.Stream) { c.Close() },
		"retired": func(s *script, c *Client, _ *Session, _ func(), _ *quic.Stream) { s.retire(c) },
	} {
		t.Run(name, func(t *testing.T) {
			var streams chan *quic.Stream
			s := &script{ahead: 8, hold: func(stream *quic.Stream) {
				stream.Write(netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil))
				stream.Write(tokens(5)[0])
				streams <- stream
			}}
			inAir(t, s, func(t *testing.T, a *air) {
				streams = make(chan *quic.Stream, 1)
				c, session := s.dial(t, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r, err := session.Ask(ctx, terms.Question{Context: ids(3), Ahead: 3, Within: time.Second})
				require.NoError(t, err)
				require.EqualValues(t, 5, <-r.Ahead)
				stream := <-streams
				time.Sleep(time.Hour) // the deadline was for the answer
				select {
				case _, more := <-r.Ahead:
					t.Errorf("%s: the channel has a value: %v", name, more)
				default:
				}
				start := time.Now()
				end(s, c, session, cancel, stream)
				assert.Empty(t, all(r.Ahead))
				limit := 4 * a.hop
				if name == "gateway" {
					limit = time.Minute // the packet with the close may be lost with the gateway: then QUIC times out
				}
				assert.LessOrEqual(t, time.Since(start), limit)
				settle()
				if name == "context" || name == "session" {
					stopped, ok := errors.AsType[*quic.StreamError](context.Cause(stream.Context()))
					require.True(t, ok)
					assert.EqualValues(t, netproto.Cancelled, stopped.ErrorCode)
				}
			})
		})
	}
}

// TestAheadLeavesNothing: if the context has ended when the answer arrives, nothing is left; no other goroutine waits
// for it.
func TestAheadLeavesNothing(t *testing.T) {
	f := &follows{pieces: tokens(5, 6), end: true}
	s := f.script()
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, nil)
		caller, whole := newCounting(t.Context()), newCounting(session.ctx)
		session.ctx = whole
		r, err := session.Ask(caller, terms.Question{Context: ids(3), Ahead: 3, Within: time.Hour})
		require.NoError(t, err)
		assert.Equal(t, []int32{5, 6}, all(r.Ahead))
		settle()
		assert.Zero(t, caller.waiting.Load())
		assert.Zero(t, whole.waiting.Load())
	})
}

// TestVerification: an answer to an ask for verification covers every requested position; otherwise the gateway breaks
// the protocol.
func TestVerification(t *testing.T) {
	const n, from = 8, 5
	found := func(scored bool, findings ...int32) (all []terms.Finding) {
		for i := 0; i < len(findings); i += 2 {
			f := terms.Finding{Pos: int(findings[i]), Token: findings[i+1]}
			if scored {
				f.Score, f.Stands = -1, -2
			}
			all = append(all, f)
		}
		return all
	}
	const no, choices, scores = terms.AsItComes, terms.EachChoice, terms.EachScore
	for _, c := range []struct {
		name   string
		verify terms.Verify
		from   int
		a      terms.Reply
		good   bool
	}{
		{"choices", choices, from, terms.Reply{Audited: 3}, true},
		{"too few choices", choices, from, terms.Reply{Audited: 2}, false},
		{"too many choices", choices, from, terms.Reply{Audited: 4}, false},
		{"no choices", choices, from, terms.Reply{}, false},
		{"no audit requested", choices, 0, terms.Reply{}, true},
		{"an audit from the end", choices, n, terms.Reply{}, true},
		{"an audit from beyond the end", choices, n + 3, terms.Reply{}, true},
		{"a choice beyond the end", choices, n, terms.Reply{Audited: 1}, false},
		{"an audit that was not requested", choices, 0, terms.Reply{Audited: n}, false},
		{"a finding everywhere", choices, from, terms.Reply{Audited: 3, Audit: found(false, 5, 9, 6, 9, 7, 9)}, true},
		{"two findings at a position", choices, from, terms.Reply{Audited: 3, Audit: found(false, 6, 9, 6, 8)}, false},
		{"a finding of the text itself", choices, from, terms.Reply{Audited: 3, Audit: found(false, 6, 6)}, false},
		{"a finding outside the vocabulary", choices, from, terms.Reply{Audited: 3, Audit: found(false, 7, 10)}, false},
		{"scores that were not requested", choices, from, terms.Reply{Audited: 3, Audit: found(true, 7, 9)}, false},
		{"scores", scores, from, terms.Reply{Audited: 3, Audit: found(true, 7, 9)}, true},
		{"missing scores", scores, from, terms.Reply{Audited: 3, Audit: found(false, 7, 9)}, false},
		{"scores without findings", scores, from, terms.Reply{Audited: 3}, true},
		{"too few scores", scores, from, terms.Reply{Audited: 2}, false},
		{"scores of an audit", no, from, terms.Reply{Audited: 3, Audit: found(true, 7, 9)}, false},
		{"an audit that confirms the text", no, from, terms.Reply{Audited: 2, Audit: found(false, 7, 7)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{reply: func(int, netproto.Ask) []byte { return netproto.Answer{Reply: c.a}.Append(nil) }}
			inAir(t, s, func(t *testing.T, a *air) {
				_, session := s.dial(t, nil)
				r, err := session.Ask(t.Context(), terms.Question{Context: ids(n), AuditFrom: c.from, Verify: c.verify})
				assert.Equal(t, c.verify, s.ask(0).Verify)
				if !c.good {
					assert.ErrorIs(t, err, ErrProtocol)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, c.a.Audit, r.Audit)
				assert.Equal(t, n, r.Prefilled)
			})
		})
	}
}

// TestWrongAnswerAhead: a wrong answer before tokens ahead ends its stream.
func TestWrongAnswerAhead(t *testing.T) {
	f := &follows{}
	s := f.script()
	inAir(t, s, func(t *testing.T, a *air) {
		f.ended = make(chan error, 1)
		_, session := s.dial(t, nil)
		_, err := session.Ask(t.Context(), terms.Question{
			Context: ids(3), Ahead: 3, AuditFrom: 1, Verify: terms.EachChoice,
		})
		require.ErrorIs(t, err, ErrProtocol)
		assert.Equal(t, netproto.Malformed, f.code(t))
	})
}
