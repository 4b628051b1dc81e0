package gateway

import (
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/stretchr/testify/assert"
)

func ids(n int, first int32) []int32 {
	p := make([]int32, n)
	p[0] = first
	return p
}

// TestSessionsLimits: eviction takes from the client with the most, the oldest first; a session is forgotten when
// nothing runs for it, and only once.
func TestSessionsLimits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var gone []sessionKey
		s := newSessions(Options{MaxSessions: 4, MaxTokens: 1000, shares: shares{MaxSessionsPerDevice: 100, MaxSessionTokens: 500}},
			func(x *session) { gone = append(gone, x.key) })
		learn := func(client string, number uint32, n int) func() {
			_, _, done := s.learn(sessionKey{dev(client), number}, ids(n, int32(number)), false)
			time.Sleep(time.Second)
			return done
		}
		learn("modest", 1, 10)()
		for i := range uint32(10) {
			learn("greedy", i, 10)()
		}
		assert.Len(t, gone, 7)
		for i, k := range gone {
			assert.Equal(t, sessionKey{dev("greedy"), uint32(i)}, k)
		}
		gone = nil
		busy := learn("greedy", 9, 20) // the newest of the greedy client, and in use
		learn("greedy", 20, 490)()
		learn("greedy", 21, 490)()
		learn("greedy", 22, 490)()
		assert.NotContains(t, gone, sessionKey{dev("modest"), 1})
		assert.NotContains(t, gone, sessionKey{dev("greedy"), 9}, "it is evicted but still in use")
		assert.LessOrEqual(t, s.tokens, 1000)
		busy()
		busy()
		assert.Equal(t, 1, count(gone, sessionKey{dev("greedy"), 9}))
		s.expire(time.Hour)
		before := len(gone)
		time.Sleep(time.Hour)
		s.expire(time.Hour)
		assert.Greater(t, len(gone), before)
		assert.Empty(t, s.byKey)
		assert.Zero(t, s.tokens)
	})
}

// TestSessionsPerDevice: a limited number of sessions per device is kept, the most recently used ones.
func TestSessionsPerDevice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var gone []sessionKey
		o := Options{MaxSessions: 100, MaxTokens: 1000, shares: shares{MaxSessionsPerDevice: 3, MaxSessionTokens: 500}}
		s := newSessions(o, func(x *session) { gone = append(gone, x.key) })
		learn := func(client string, number uint32) {
			_, _, done := s.learn(sessionKey{dev(client), number}, ids(5, int32(number)), false)
			done()
			time.Sleep(time.Second)
		}
		for _, number := range []uint32{1, 2, 3, 1} {
			learn("one", number)
			learn("other", number)
		}
		assert.Empty(t, gone)
		learn("one", 4)
		assert.Equal(t, []sessionKey{{dev("one"), 2}}, gone)
		gone = nil
		s.expire(3500 * time.Millisecond)
		assert.Equal(t, []sessionKey{{dev("other"), 2}, {dev("one"), 3}, {dev("other"), 3}}, gone,
			"the first ones were used again")
	})
}

// TestSessionsForgottenOnce: a session is forgotten after the last of its asks, and once.
func TestSessionsForgottenOnce(t *testing.T) {
	forgotten := 0
	s := newSessions(Options{MaxSessions: 1, MaxTokens: 1000, shares: shares{MaxSessionsPerDevice: 9, MaxSessionTokens: 500}},
		func(*session) { forgotten++ })
	key := sessionKey{dev("a"), 1}
	_, _, first := s.learn(key, ids(5, 1), false)
	_, _, second := s.learn(key, ids(6, 1), false)
	s.end(key)
	first()
	assert.Zero(t, forgotten)
	second()
	assert.Equal(t, 1, forgotten)
}

// TestSessionsExpire: a session expires when it was idle for the limit, not earlier; without a limit at once.
func TestSessionsExpire(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		forgotten := 0
		s := newSessions(Options{MaxSessions: 9, MaxTokens: 1000, shares: shares{MaxSessionsPerDevice: 9, MaxSessionTokens: 500}},
			func(*session) { forgotten++ })
		for number := range uint32(2) {
			_, _, done := s.learn(sessionKey{dev("a"), number}, ids(5, 1), false)
			done()
			time.Sleep(time.Second)
		}
		s.expire(2*time.Second + 1)
		assert.Zero(t, forgotten)
		s.expire(2 * time.Second)
		assert.Equal(t, 1, forgotten)
		_, _, done := s.learn(sessionKey{dev("a"), 1}, ids(5, 1), false)
		done()
		s.expire(0)
		assert.Equal(t, 2, forgotten)
	})
}

func count(all []sessionKey, one sessionKey) (n int) {
	for _, k := range all {
		if k == one {
			n++
		}
	}
	return n
}

// TestSessionsBase: a base is found only in the same session.
func TestSessionsBase(t *testing.T) {
	s := newSessions(Options{MaxSessions: 4, MaxTokens: 1000, shares: shares{MaxSessionsPerDevice: 100, MaxSessionTokens: 500}},
		func(*session) {})
	mine := sessionKey{dev("me"), 1}
	path := ids(20, 3)
	_, seen, done := s.learn(mine, path, true)
	done()
	assert.Zero(t, seen)
	h := netproto.RootHash.Over(path[:15])
	base, _, ok := s.base(mine, netproto.Path{Base: 15, Hash: h}, true)
	assert.True(t, ok)
	assert.Equal(t, path[:15], base)
	for _, key := range []sessionKey{{dev("me"), 2}, {dev("other"), 1}} {
		_, need, ok := s.base(key, netproto.Path{Base: 15, Hash: h}, true)
		assert.False(t, ok)
		assert.Equal(t, netproto.Need{Hash: netproto.RootHash}, need)
	}
	for _, none := range []netproto.Path{{Base: 15, Hash: netproto.RootHash}, {Base: 0, Hash: h}} {
		_, _, ok := s.base(mine, none, true)
		assert.False(t, ok, "there is no such path")
	}
	_, _, ok = s.base(mine, netproto.Path{Hash: netproto.RootHash}, true)
	assert.True(t, ok)
	_, need, ok := s.base(mine, netproto.Path{Base: 14, Hash: h}, true)
	assert.False(t, ok)
	assert.Equal(t, netproto.Need{Position: 20, Hash: netproto.RootHash.Over(path)}, need,
		"settled tokens are kept")
	_, need, ok = s.base(mine, netproto.Path{Base: 14, Hash: h}, false)
	assert.False(t, ok)
	assert.Equal(t, netproto.Need{Hash: netproto.RootHash}, need, "a connection that has not sent it learns nothing")
}
