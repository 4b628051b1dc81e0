package client

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// A token is one of the vocabulary, or the gateway breaks the protocol.
func TestVocabulary(t *testing.T) {
	for token, want := range map[int32]error{0: nil, 9: nil, 10: ErrProtocol, 11: ErrProtocol} {
		s := (&script{reply: always(token)}).start(t)
		_, session := s.dial(t, nil)
		r, err := session.Ask(t.Context(), ids(3), Query{Deadline: aWhile})
		require.ErrorIs(t, err, want, token)
		if want == nil {
			assert.Equal(t, token, r.Token)
		}
	}
}

// What was acknowledged is not sent again, on this connection or another one.
func TestAcknowledged(t *testing.T) {
	s := (&script{reply: always(1)}).start(t)
	c, session := s.dial(t, nil)
	for i, n := range []int{20, 25, 24, 30} {
		if i == 3 {
			s.retire(c)
		}
		_, err := session.Ask(t.Context(), ids(n), Query{Deadline: aWhile})
		require.NoError(t, err)
		assert.Equal(t, []int{0, 20, 24, 25}[i], s.ask(i).Path.Base)
	}
	assert.Equal(t, 2, c.Stats().Connections)
}

// What only an earlier connection was told, and nobody acknowledged, is sent again.
func TestBaseOfOldConnection(t *testing.T) {
	s := (&script{reply: func(conn int, _ netproto.Ask) []byte {
		if conn == 1 {
			return nil
		}
		return netproto.Answer{Token: 1}.Append(nil)
	}}).start(t)
	_, session := s.dial(t, nil)
	_, err := session.Ask(t.Context(), ids(20), Query{Deadline: aWhile})
	require.NoError(t, err)
	assert.Equal(t, []int{0, 0}, []int{s.ask(0).Path.Base, s.ask(1).Path.Base})
	assert.Equal(t, 20, s.ask(1).Path.Delta.Count)
}

// A gateway that needs the path from a position gets it from there if it holds our beginning, else all of it.
func TestNeed(t *testing.T) {
	for hash, base := range map[netproto.Hash]int{netproto.RootHash.Over(ids(5)): 5, netproto.RootHash.Over(ids(5)) + 1: 0} {
		asks := 0
		s := (&script{reply: func(int, netproto.Ask) []byte {
			if asks++; asks == 2 {
				return netproto.Need{Position: 5, Hash: hash}.Append(nil)
			}
			return netproto.Answer{Token: 1}.Append(nil)
		}}).start(t)
		_, session := s.dial(t, nil)
		for _, n := range []int{20, 21} {
			_, err := session.Ask(t.Context(), ids(n), Query{Deadline: aWhile})
			require.NoError(t, err)
		}
		assert.Equal(t, []int{0, 20, base}, []int{s.ask(0).Path.Base, s.ask(1).Path.Base, s.ask(2).Path.Base})
	}
}

// A gateway that drains, and says so to an ask, is left for another connection.
func TestDrainingAsk(t *testing.T) {
	s := (&script{reply: func(conn int, _ netproto.Ask) []byte {
		if conn < 3 {
			return refuse(netproto.Draining)
		}
		return netproto.Answer{Token: 1}.Append(nil)
	}}).start(t)
	c, session := s.dial(t, nil)
	_, err := session.Ask(t.Context(), ids(3), Query{Deadline: aWhile})
	require.NoError(t, err)
	assert.Equal(t, 3, c.Stats().Connections)
}

// A gateway that says on the control stream that it drains gets no new asks, and answers the open ones.
func TestDrainingConnection(t *testing.T) {
	asked, hold := make(chan struct{}), make(chan struct{})
	s := (&script{reply: func(conn int, _ netproto.Ask) []byte {
		if conn == 1 {
			close(asked)
			<-hold
		}
		return netproto.Answer{Token: int32(conn)}.Append(nil)
	}}).start(t)
	c, session := s.dial(t, nil)
	var first sync.WaitGroup
	first.Go(func() {
		r, err := session.Ask(t.Context(), ids(3), Query{Deadline: aWhile})
		assert.NoError(t, err)
		assert.EqualValues(t, 1, r.Token)
	})
	<-asked
	c.mu.Lock()
	l := c.current
	c.mu.Unlock()
	s.mu.Lock()
	_, err := s.controls[0].Write(refuse(netproto.Draining))
	s.mu.Unlock()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !l.usable() }, aWhile, time.Millisecond)
	r, err := session.Ask(t.Context(), ids(4), Query{Deadline: aWhile})
	require.NoError(t, err)
	assert.EqualValues(t, 2, r.Token)
	close(hold)
	first.Wait()
}

// TestEarlyRefusal: a gateway that refuses an ask before all of it is written is heard.
func TestEarlyRefusal(t *testing.T) {
	g := (&script{early: netproto.Refusal{Code: netproto.TooLarge, Detail: "much too large"}.Append(nil)}).start(t)
	g.opt.Identity.Vocab = 1 << 20
	c, err := Dial(t.Context(), g.addr, g.opt)
	require.NoError(t, err)
	defer c.Close()
	for _, tokens := range []int{1, 800_000} { // the second is more than what a stream takes unread
		s, err := c.NewSession(t.Context())
		require.NoError(t, err)
		path := make([]int32, tokens)
		for i := range path {
			path[i] = int32(uint32(i)*2654435761) & (1<<20 - 1)
		}
		_, err = s.Ask(t.Context(), path, Query{Deadline: 10 * time.Second})
		require.ErrorIs(t, err, netproto.TooLarge)
		require.ErrorContains(t, err, "much too large")
	}
}
