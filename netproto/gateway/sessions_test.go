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

// TestSessionsForgottenOnce: a session is forgotten after the last of its asks, and once.
func TestSessionsForgottenOnce(t *testing.T) {
	forgotten := 0
	o := Options{MaxSessions: 1, MaxTokens: 1000, shares: shares{MaxSessionsPerDevice: 9, MaxSessionTokens: 500}}
	s := newSessions(o,
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
		o := Options{MaxSessions: 9, MaxTokens: 1000, shares: shares{MaxSessionsPerDevice: 9, MaxSessionTokens: 500}}
		s := newSessions(o,
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

// TestSessionsBase: a base is found only in the same session.
func TestSessionsBase(t *testing.T) {
	o := Options{MaxSessions: 4, MaxTokens: 1000, shares: shares{MaxSessionsPerDevice: 100, MaxSessionTokens: 500}}
	s := newSessions(o,
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
