package gateway

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/stretchr/testify/require"
)

// seeds returns fixed seeds and two new ones; failures print the seed.
func seeds() []uint64 { return []uint64{1, 2, 3, 4, 5, 6, 7, 8, rand.Uint64(), rand.Uint64()} }

// listed is a session in a plain list.
type listed struct {
	key    sessionKey
	tokens int
}

// TestSessionsAgainstList: for any paths and limits, the evicted session is the least recently used one of the device
// that exceeds its limit or, if the gateway is full, of a device with the most, of an access token with the most; never
// the session in use. The counts are right.
func TestSessionsAgainstList(t *testing.T) {
	for _, seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 2))
		o := Options{derived: derivedLimits{MaxSessions: 1 + r.IntN(30), MaxSessionsPerDevice: 1 + r.IntN(9),
			MaxSessionTokens: 1000}, MaxTokens: 20 + r.IntN(900)}
		var out []sessionKey
		s := newSessions(o, func(x *session) { out = append(out, x.key) })
		var list []listed // the least recently used first
		for step := range 350 {
			key := sessionKey{deviceID{client: fmt.Sprint(r.IntN(3)), device: netproto.Device{byte(r.IntN(4))}},
				uint32(r.IntN(12))}
			path := ids(1+r.IntN(60), 7)
			held, seen, done := s.storeContext(key, path, false)
			done()
			one := listed{key: key, tokens: len(path)}
			if i := slices.IndexFunc(list, func(x listed) bool { return x.key == key }); i >= 0 {
				require.Equal(t, min(list[i].tokens, len(path)), seen, "seed %d, step %d", seed, step)
				one.tokens = max(one.tokens, list[i].tokens)
				list = slices.Delete(list, i, i+1)
			} else {
				require.Zero(t, seen)
			}
			list = append(list, one)
			for _, gone := range out {
				allowed := victims(o, list)
				i := slices.IndexFunc(list, func(x listed) bool { return x.key == gone })
				require.Contains(t, allowed, i, "seed %d, step %d", seed, step)
				list = slices.Delete(list, i, i+1)
			}
			out = nil
			require.Empty(t, victims(o, list), "seed %d, step %d", seed, step)
			agree(t, s, list)
			require.Same(t, held, s.byKey[key])
			if r.IntN(6) == 0 {
				s.endSession(key)
				require.Equal(t, []sessionKey{key}, out)
				out, list = nil, list[:len(list)-1]
				s.endSession(key)
				require.Empty(t, out)
			}
		}
		s.expireIdle(0)
		agree(t, s, nil)
		require.Len(t, out, len(list))
		require.Empty(t, s.byDevice)
		require.Empty(t, s.byClient)
	}
}

// victims returns the indices of sessions in a list that may be evicted next; the last session is in use.
func victims(o Options, list []listed) (all []int) {
	sessions, tokens, inAll := map[deviceID]int{}, map[deviceID]int{}, 0
	for _, x := range list {
		sessions[x.key.device]++
		tokens[x.key.device] += x.tokens
		inAll += x.tokens
	}
	oldest := func(d deviceID) int {
		return slices.IndexFunc(list[:len(list)-1], func(x listed) bool { return x.key.device == d })
	}
	largest := func(of map[deviceID]int) (all []int) {
		tokens, most, best := map[string]int{}, -1, -1 // of access tokens that have a session that is not in use
		for d, n := range of {
			tokens[d.client] += n
		}
		for d := range of {
			if oldest(d) >= 0 {
				most = max(most, tokens[d.client])
			}
		}
		ofToken := map[string]int{} // the best device of each
		for d, n := range of {
			if oldest(d) >= 0 && tokens[d.client] == most {
				ofToken[d.client] = max(ofToken[d.client], n)
			}
		}
		for d, n := range of {
			if best = ofToken[d.client]; oldest(d) >= 0 && tokens[d.client] == most && n == best {
				all = append(all, oldest(d))
			}
		}
		return all
	}
	own := list[len(list)-1].key.device
	switch {
	case sessions[own] > o.derived.MaxSessionsPerDevice:
		return []int{oldest(own)}
	case len(list) > o.derived.MaxSessions:
		return largest(sessions)
	case inAll > o.MaxTokens:
		return largest(tokens)
	}
	return nil
}

// agree checks that the sessions are those of a list.
func agree(t *testing.T, s *sessions, list []listed) {
	t.Helper()
	tokens, of := 0, map[deviceID]int{}
	for _, x := range list {
		tokens += x.tokens
		of[x.key.device] += x.tokens
		if s.byKey[x.key] == nil || s.byKey[x.key].known.Tokens() != x.tokens {
			t.Fatalf("%v does not have its %d tokens", x.key, x.tokens)
		}
	}
	racks := map[string]int{}
	for d, n := range of {
		racks[d.client] += n
	}
	want := [7]int{tokens, len(list), len(list), len(of), len(racks), len(racks), len(racks)}
	have := [7]int{s.tokens, len(s.byKey), s.used.Len(), len(s.byDevice), len(s.byClient), s.byCount.Len(),
		s.byTokens.Len()}
	require.Equal(t, want, have)
	for name, n := range racks {
		require.Equal(t, n, s.byClient[name].tokens)
	}
	for d, n := range of {
		if s.byDevice[d].tokens != n {
			t.Fatalf("%v has %d tokens, want %d", d, s.byDevice[d].tokens, n)
		}
	}
}
