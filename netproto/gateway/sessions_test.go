package gateway

import (
	"testing"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/stretchr/testify/assert"
)

func ids(n int, first int32) []int32 {
	p := make([]int32, n)
	p[0] = first
	return p
}

// TestSessionsBase: a base is found only in the same session.
func TestSessionsBase(t *testing.T) {
	o := Options{MaxTokens: 1000,
		derived: derivedLimits{MaxSessions: 4, MaxSessionsPerDevice: 100, MaxSessionTokens: 500}}
	s := newSessions(o, func(*session) {})
	mine := sessionKey{dev("me"), 1}
	path := ids(20, 3)
	_, seen, done := s.storeContext(mine, path, true)
	done()
	assert.Zero(t, seen)
	h := netproto.RootHash.Over(path[:15])
	base, _, ok := s.findBase(mine, netproto.Path{Base: 15, Hash: h}, true)
	assert.True(t, ok)
	assert.Equal(t, path[:15], base)
	for _, key := range []sessionKey{{dev("me"), 2}, {dev("other"), 1}} {
		_, need, ok := s.findBase(key, netproto.Path{Base: 15, Hash: h}, true)
		assert.False(t, ok)
		assert.Equal(t, netproto.Need{Hash: netproto.RootHash}, need)
	}
	for _, none := range []netproto.Path{{Base: 15, Hash: netproto.RootHash}, {Base: 0, Hash: h}} {
		_, _, ok := s.findBase(mine, none, true)
		assert.False(t, ok, "there is no such path")
	}
	_, _, ok = s.findBase(mine, netproto.Path{Hash: netproto.RootHash}, true)
	assert.True(t, ok)
	_, need, ok := s.findBase(mine, netproto.Path{Base: 14, Hash: h}, true)
	assert.False(t, ok)
	assert.Equal(t, netproto.Need{Position: 20, Hash: netproto.RootHash.Over(path)}, need,
		"settled tokens are kept")
	_, need, ok = s.findBase(mine, netproto.Path{Base: 14, Hash: h}, false)
	assert.False(t, ok)
	assert.Equal(t, netproto.Need{Hash: netproto.RootHash}, need, "a connection that has not sent it learns nothing")
}
