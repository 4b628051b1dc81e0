package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// seeds returns some that are always the same and some that are not; a test that fails prints its own.
func seeds() []uint64 { return []uint64{1, 2, 3, 4, 5, 6, 7, 8, rand.Uint64(), rand.Uint64()} }

// queue says in the plainest way what turns does: all asks in one list, and every rule looked up in it.
type queue struct {
	places, maxOpen, perDevice int

	now  float64
	ends map[deviceID]float64 // of each device's last ask; never forgotten
	asks []*asking
}

type asking struct {
	who    deviceID
	tokens int
	ends   float64
	held   bool
}

func (q *queue) count(so func(*asking) bool) (n int) {
	for _, a := range q.asks {
		if so(a) {
			n++
		}
	}
	return n
}

func (q *queue) open(who deviceID) int { return q.count(func(a *asking) bool { return a.who == who }) }
func (q *queue) held(who deviceID) int {
	return q.count(func(a *asking) bool { return a.who == who && a.held })
}
func (q *queue) free() int { return q.places - q.count(func(a *asking) bool { return a.held }) }
func (q *queue) devices() int {
	all := map[deviceID]bool{}
	for _, a := range q.asks {
		all[a.who] = true
	}
	return len(all)
}

// enter returns what a refusal says, "" where the ask is taken.
func (q *queue) enter(who deviceID, tokens int, background bool) (*asking, string) {
	waiting := len(q.asks) > q.places-q.free()
	switch fair := max(4, q.maxOpen/max(q.devices(), 1)); {
	case q.open(who) >= q.perDevice:
		return nil, fmt.Sprintf("%d asks of this device are open", q.open(who))
	case len(q.asks) >= q.maxOpen && q.open(who) >= fair:
		return nil, fmt.Sprintf("%d asks of all devices are open", len(q.asks))
	case background && (waiting || q.free() < q.places && q.held(who)+1 >= q.free()):
		return nil, "all places at the large model are taken"
	}
	a := &asking{who: who, tokens: max(tokens, 1)}
	a.ends = max(q.now, q.ends[who]) + float64(a.tokens)
	q.ends[who] = a.ends
	q.asks = append(q.asks, a)
	q.give()
	return a, ""
}

// give hands out free places: next is the ask that ends first of those whose device holds fewer places than are free.
func (q *queue) give() {
	for {
		var next *asking
		for _, a := range q.asks {
			if !a.held && q.held(a.who) < q.free() && (next == nil || a.ends < next.ends) {
				next = a
			}
		}
		if next == nil {
			return
		}
		next.held = true
		q.now += float64(next.tokens) / float64(q.devices())
	}
}

func (q *queue) leave(a *asking) {
	q.asks = slices.DeleteFunc(q.asks, func(x *asking) bool { return x == a })
	if a.held {
		q.give()
	}
}

// Whatever devices ask, wait for, give up and give back: turns does what the plain queue does, and refuses what it
// refuses, in the same words.
func TestTurnsAgainstQueue(t *testing.T) {
	for _, seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 1))
		places, o := 1+r.IntN(9), Options{MaxAsks: 5 + r.IntN(30), MaxAsksPerDevice: 1 + r.IntN(20)}
		turns := newTurns(o, places)
		plain := &queue{places: places, maxOpen: o.MaxAsks, perDevice: o.MaxAsksPerDevice, ends: map[deviceID]float64{}}
		type pair struct {
			mine *turn
			its  *asking
		}
		var open []pair
		busy := 1 + r.IntN(5) // devices
		for step := range 700 {
			who := dev(fmt.Sprint(r.IntN(busy)))
			if r.IntN(100) == 0 {
				busy = 1 + r.IntN(9)
			}
			if r.IntN(5) < 3 || len(open) == 0 {
				tokens, background := r.IntN(1e6), r.IntN(4) == 0 // so many that no two asks end at the same time
				turns.mu.Lock()
				mine, err := turns.enter(who, tokens, background)
				turns.mu.Unlock()
				its, refused := plain.enter(who, tokens, background)
				if refused != "" {
					require.Equal(t, netproto.Refusal{
						Code: netproto.Busy, RetryAfter: 100 * time.Millisecond, Detail: refused,
					}, err)
					continue
				}
				require.NoError(t, err, "seed %d, step %d", seed, step)
				open = append(open, pair{mine, its})
			} else {
				i := r.IntN(len(open))
				p := open[i]
				open = slices.Delete(open, i, i+1)
				if p.mine.given && r.IntN(2) == 0 {
					turns.release(p.its.who)
				} else {
					turns.giveUp(p.its.who, p.mine)
				}
				plain.leave(p.its)
			}
			for _, p := range open {
				ready := false
				select {
				case <-p.mine.ready:
					ready = true
				default:
				}
				if p.its.held != p.mine.given || p.its.held != ready {
					t.Fatalf("seed %d, step %d: given %v, ready %v, should be %v",
						seed, step, p.mine.given, ready, p.its.held)
				}
			}
			want := [3]int{plain.free(), plain.devices(), len(plain.asks)}
			have := [3]int{turns.free, turns.busy, turns.open}
			require.Equal(t, want, have, "seed %d, step %d", seed, step)
		}
		for _, p := range open {
			turns.giveUp(p.its.who, p.mine)
		}
		empty(t, turns, places)
	}
}

// A place that is given at the moment when its asker gives up is not lost, whichever of the two the asker sees.
func TestTurnsGivenAndGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		turns := newTurns(Options{MaxAsks: 20, MaxAsksPerDevice: 15}, 2)
		gone, end := context.WithCancelCause(t.Context())
		why := errors.New("gone")
		end(why)
		seen := map[bool]int{}
		for range 200 {
			release, err := turns.take(gone, dev("a"), 1, false)
			seen[err == nil]++
			if err == nil {
				release()
			} else {
				require.ErrorIs(t, err, why)
			}
			require.Equal(t, 2, turns.free)
		}
		assert.Len(t, seen, 2)
		empty(t, turns, 2)
	})
}

// Devices that are refused, or that come once, leave nothing behind: what is kept is bounded by those that have an
// influence.
func TestTurnsKeepLittle(t *testing.T) {
	turns := newTurns(Options{MaxAsks: 1, MaxAsksPerDevice: 4}, 1)
	turns.mu.Lock()
	defer turns.mu.Unlock()
	for i := range 4 {
		_, err := turns.enter(dev("busy"), 10, false)
		require.NoError(t, err, i)
	}
	for i := range 200 {
		_, err := turns.enter(dev(fmt.Sprint(i)), 10, true)
		require.ErrorIs(t, err, netproto.Busy)
	}
	assert.Len(t, turns.lines, 1)
}

// told is a session in a plain list.
type told struct {
	key    sessionKey
	tokens int
}

// Whatever is told, and however little room there is: what goes is the session used longest ago of the device that is
// over its limit or, where the gateway is full, of one that has most; never the one that is being told. The counts
// agree with what is there.
func TestSessionsAgainstList(t *testing.T) {
	for _, seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 2))
		o := Options{MaxSessions: 1 + r.IntN(30), MaxSessionsPerDevice: 1 + r.IntN(9), MaxTokens: 20 + r.IntN(900),
			MaxSessionTokens: 1000}
		var out []sessionKey
		s := newSessions(o, func(x *session) { out = append(out, x.key) })
		var list []told // the one used longest ago first
		for step := range 350 {
			key := sessionKey{dev(fmt.Sprint(r.IntN(9))), uint32(r.IntN(12))}
			path := ids(1+r.IntN(60), 7)
			held, seen, done := s.learn(key, path, false)
			done()
			one := told{key: key, tokens: len(path)}
			if i := slices.IndexFunc(list, func(x told) bool { return x.key == key }); i >= 0 {
				require.Equal(t, min(list[i].tokens, len(path)), seen, "seed %d, step %d", seed, step)
				one.tokens = max(one.tokens, list[i].tokens)
				list = slices.Delete(list, i, i+1)
			} else {
				require.Zero(t, seen)
			}
			list = append(list, one)
			for _, gone := range out {
				allowed := victims(o, list)
				i := slices.IndexFunc(list, func(x told) bool { return x.key == gone })
				require.Contains(t, allowed, i, "seed %d, step %d", seed, step)
				list = slices.Delete(list, i, i+1)
			}
			out = nil
			require.Empty(t, victims(o, list), "seed %d, step %d", seed, step)
			agree(t, s, list)
			require.Same(t, held, s.byKey[key])
			if r.IntN(6) == 0 {
				s.end(key)
				require.Equal(t, []sessionKey{key}, out)
				out, list = nil, list[:len(list)-1]
				s.end(key)
				require.Empty(t, out)
			}
		}
		s.expire(0)
		agree(t, s, nil)
		require.Len(t, out, len(list))
		require.Empty(t, s.shelves)
	}
}

// victims returns which sessions of a list may go next, the last one of which is being told.
func victims(o Options, list []told) (all []int) {
	sessions, tokens, inAll := map[deviceID]int{}, map[deviceID]int{}, 0
	for _, x := range list {
		sessions[x.key.device]++
		tokens[x.key.device] += x.tokens
		inAll += x.tokens
	}
	oldest := func(d deviceID) int {
		return slices.IndexFunc(list[:len(list)-1], func(x told) bool { return x.key.device == d })
	}
	most := func(of map[deviceID]int) (all []int) {
		best := -1
		for d, n := range of {
			if i := oldest(d); i < 0 || n < best {
				continue
			} else if n > best {
				all, best = []int{i}, n
			} else {
				all = append(all, i)
			}
		}
		return all
	}
	own := list[len(list)-1].key.device
	switch {
	case sessions[own] > o.MaxSessionsPerDevice:
		return []int{oldest(own)}
	case len(list) > o.MaxSessions:
		return most(sessions)
	case inAll > o.MaxTokens:
		return most(tokens)
	}
	return nil
}

// agree wants the sessions to be those of a list.
func agree(t *testing.T, s *sessions, list []told) {
	t.Helper()
	tokens, of := 0, map[deviceID]int{}
	for _, x := range list {
		tokens += x.tokens
		of[x.key.device] += x.tokens
		if s.byKey[x.key] == nil || s.byKey[x.key].known.Tokens() != x.tokens {
			t.Fatalf("%v has not the %d tokens that it should have", x.key, x.tokens)
		}
	}
	want := [6]int{tokens, len(list), len(list), len(of), len(of), len(of)}
	have := [6]int{s.tokens, len(s.byKey), s.used.Len(), len(s.shelves), s.byCount.Len(), s.byTokens.Len()}
	require.Equal(t, want, have)
	for d, n := range of {
		if s.shelves[d].tokens != n {
			t.Fatalf("%v has %d tokens and should have %d", d, s.shelves[d].tokens, n)
		}
	}
}
