package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

func dev(name string) deviceID { return deviceID{client: name} }

// bounded returns a gateway that bounds asks, and nothing else.
func bounded(most, ofOne, places int) *Gateway {
	return &Gateway{admission: admission{maxOpen: most, perDevice: ofOne}, places: newPlaces(places)}
}

// empty wants that nothing of any ask is left.
func empty(t *testing.T, g *Gateway, devices ...*device) {
	t.Helper()
	assert.Equal(t, [4]int{g.places.all}, [4]int{g.places.free, g.places.waiting, g.admission.open, g.admission.busy})
	assert.Empty(t, slices.Collect(g.places.queue.All))
	for _, d := range devices {
		assert.Zero(t, d.taken+d.open)
	}
}

// Devices share places by tokens, whatever the number of their asks and how many tokens each brings. Greedy ones have
// 100 asks of 20 tokens before a modest one comes with one of 2 tokens, again and again.
//
// The bound: while all greedy devices wait, virtual time is at most the least tag of theirs, so each of their asks ends
// at least 20 after now. The modest one has at most 5 asks of 2 tokens while they have 20 each, so its own ends at most
// 2*5 after now, and is next. It waits until a place is free, for at most one ask of 20 seconds, and then takes 2.
func TestPlacesAreFair(t *testing.T) {
	for _, greedy := range []int{1, 4, 64} {
		bubble.Test(t, func(t *testing.T) {
			const second = time.Second
			g := bounded(10000, 1000, 4)
			var all sync.WaitGroup
			use := func(who *device, tokens int) {
				leave, err := g.admit(t.Context(), who, tokens, false)
				if assert.NoError(t, err) {
					time.Sleep(time.Duration(tokens) * second)
					leave()
				}
			}
			for n := range greedy {
				who := &device{number: uint64(n)}
				for range 100 {
					all.Go(func() { use(who, 20) })
				}
			}
			synctest.Wait()
			modest := &device{number: 999}
			for range 20 {
				began := time.Now()
				use(modest, 2)
				assert.LessOrEqual(t, time.Since(began), 22*second, "one ask that holds a place, and its own time")
				time.Sleep(time.Duration(7+greedy) * second) // so it asks for less than its share
			}
			all.Wait()
			empty(t, g, modest)
		})
	}
}

// One device alone holds half of the places; when the gateway is full, devices with few asks still get in; one that has
// its fill is refused by name of the limit.
func TestAdmission(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := bounded(20, 15, 8)
		var all sync.WaitGroup
		var mu sync.Mutex
		var leaves []func()
		devices := make([]*device, 5)
		for i := range devices {
			devices[i] = &device{number: uint64(i)}
		}
		greedy, other, third, fourth, late := devices[0], devices[1], devices[2], devices[3], devices[4]
		take := func(who *device) error {
			leave, err := g.admit(t.Context(), who, 1, false)
			if err == nil {
				mu.Lock()
				leaves = append(leaves, leave)
				mu.Unlock()
			}
			return err
		}
		for range 4 {
			require.NoError(t, take(greedy))
		}
		for range 11 {
			all.Go(func() { assert.NoError(t, take(greedy)) })
		}
		synctest.Wait()
		assert.Equal(t, 4, g.places.free, "half is left for others")
		assert.ErrorContains(t, take(greedy), "15 asks of this device are open")
		for _, who := range []*device{other, other, third, fourth} {
			require.NoError(t, take(who))
		}
		all.Go(func() { assert.NoError(t, take(other)) })
		synctest.Wait()
		assert.Equal(t, 20, g.admission.open)
		for range 20 / 5 { // its share among the five
			all.Go(func() { assert.NoError(t, take(late)) })
			synctest.Wait()
		}
		err := take(late)
		require.ErrorIs(t, err, netproto.Busy)
		assert.ErrorContains(t, err, "asks of all devices are open")
		for range 24 { // each that leaves lets another one in
			mu.Lock()
			for _, leave := range leaves {
				leave()
			}
			leaves = nil
			mu.Unlock()
			synctest.Wait()
		}
		all.Wait()
		empty(t, g, devices...)
	})
}

// An upstream that schedules by itself gets every ask at once, within the same limits.
func TestAdmissionAlone(t *testing.T) {
	g, who := &Gateway{admission: admission{maxOpen: 3, perDevice: 5}}, &device{}
	var leaves []func()
	for i := range 4 { // few are let in beyond the limit of all
		leave, err := g.admit(t.Context(), who, 1, i%2 == 0)
		require.NoError(t, err)
		leaves = append(leaves, leave)
	}
	_, err := g.admit(t.Context(), who, 1, true)
	require.ErrorContains(t, err, "4 asks of all devices are open")
	for _, leave := range leaves {
		leave()
	}
	assert.Zero(t, g.admission.open+g.admission.busy+who.open)
}

// A background ask never waits and never takes the last place, and what it was counted as is taken back.
func TestPlacesBackground(t *testing.T) {
	g := bounded(20, 15, 4)
	eager, second, other := &device{number: 1}, &device{number: 2}, &device{number: 3}
	var leaves []func()
	take := func(who *device, background bool) error {
		leave, err := g.admit(t.Context(), who, 5, background)
		if err == nil {
			leaves = append(leaves, leave)
		}
		return err
	}
	require.NoError(t, take(eager, true))
	require.NoError(t, take(eager, true))
	require.NoError(t, take(second, true))
	require.ErrorIs(t, take(other, true), netproto.Busy)
	require.NoError(t, take(other, false))
	for _, leave := range leaves {
		leave()
	}
	empty(t, g, eager, second, other)
}

// Who gives up frees his place at once and leaves no trace, also when the place comes at the same moment.
func TestPlacesGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g, a, b := bounded(20, 3, 1), &device{number: 1}, &device{number: 2}
		gone := errors.New("gone")
		var all sync.WaitGroup
		for range 100 {
			leave, err := g.admit(t.Context(), a, 1, false)
			require.NoError(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			for range 2 {
				all.Go(func() {
					leave, err := g.admit(ctx, a, 1, false)
					if err == nil {
						leave()
						return
					}
					assert.ErrorIs(t, err, gone)
				})
			}
			all.Go(func() {
				leave, err := g.admit(t.Context(), b, 1000, false)
				assert.NoError(t, err)
				leave()
			})
			synctest.Wait()
			_, err = g.admit(ctx, a, 1, false)
			require.ErrorContains(t, err, "3 asks of this device are open")
			leave()
			cancel(gone) // while one has got the place, and may not have seen it
			all.Wait()
			empty(t, g, a, b)
		}
	})
}

// seeds returns some that are always the same and some that are not; a test that fails prints its own.
func seeds() []uint64 { return []uint64{1, 2, 3, 4, 5, 6, 7, 8, rand.Uint64(), rand.Uint64()} }

// queue says in the plainest way what places does: all asks in one list, and every rule looked up in it.
type queue struct {
	places, now, spent int
	start              map[*device]int // never forgotten
	asks               []*asking
}

type asking struct {
	who    *device
	tokens int
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

func (q *queue) held(who *device) int {
	return q.count(func(a *asking) bool { return a.who == who && a.held })
}
func (q *queue) free() int { return q.places - q.count(func(a *asking) bool { return a.held }) }

// first returns the ask that would end first, of those that wait longest of a device that is so.
func (q *queue) first(so func(*device) bool) (next *asking) {
	seen := map[*device]bool{}
	for _, a := range q.asks {
		if a.held || seen[a.who] {
			continue
		}
		seen[a.who] = true
		if so(a.who) && (next == nil || q.start[a.who]+a.tokens < q.start[next.who]+next.tokens) {
			next = a
		}
	}
	return next
}

func (q *queue) enter(who *device, tokens int) *asking {
	a := &asking{who: who, tokens: max(tokens, 1)}
	a.held = len(q.asks) == q.places-q.free() && q.held(who) < q.free()
	if q.count(func(x *asking) bool { return x.who == who && !x.held }) == 0 && !a.held {
		q.start[who] = max(q.start[who], q.now)
	}
	q.asks = append(q.asks, a)
	if !a.held {
		q.serve()
	}
	return a
}

func (q *queue) serve() {
	if a := q.first(func(*device) bool { return true }); a != nil {
		q.now = max(q.now, min(q.start[a.who], q.now+q.spent))
	}
	q.spent = 0
	for {
		next := q.first(func(who *device) bool { return q.held(who) < q.free() })
		if next == nil {
			return
		}
		next.held = true
		q.start[next.who] += next.tokens
		q.spent += next.tokens
	}
}

func (q *queue) leave(a *asking) {
	q.asks = slices.DeleteFunc(q.asks, func(x *asking) bool { return x == a })
	if a.held {
		q.serve()
	}
}

// Whatever devices ask, wait for, give up and give back: places does what the plain queue does.
func TestPlacesAgainstQueue(t *testing.T) {
	for _, seed := range seeds() {
		bubble.Test(t, func(t *testing.T) {
			againstQueue(t, rand.New(rand.NewPCG(seed, 1)), fmt.Sprint("seed ", seed))
		})
	}
}

func againstQueue(t *testing.T, r *rand.Rand, seed string) {
	places := 1 + r.IntN(9)
	p, plain := newPlaces(places), &queue{places: places, start: map[*device]int{}}
	type pair struct {
		its    *asking
		leave  context.CancelFunc
		err    error
		given  bool
		waiter sync.WaitGroup
	}
	devices, busy := make([]*device, 9), 1+r.IntN(5)
	for i := range devices {
		devices[i] = &device{number: uint64(i)}
	}
	var open []*pair
	end := func(o *pair) {
		if o.leave(); o.given {
			p.release(o.its.who)
		}
		o.waiter.Wait()
	}
	for range 500 {
		if r.IntN(100) == 0 {
			busy = 1 + r.IntN(9)
		}
		if r.IntN(5) < 3 || len(open) == 0 {
			who, tokens := devices[r.IntN(busy)], r.IntN(1e6) // so many that no two asks end at the same time
			ctx, cancel := context.WithCancel(t.Context())
			o := &pair{leave: cancel, its: plain.enter(who, tokens)}
			o.waiter.Go(func() { o.err = p.take(ctx, who, tokens); o.given = o.err == nil })
			open = append(open, o)
		} else {
			i := r.IntN(len(open))
			plain.leave(open[i].its)
			end(open[i])
			open = slices.Delete(open, i, i+1)
		}
		synctest.Wait()
		for _, o := range open {
			require.Equal(t, o.its.held, o.given, seed)
		}
		require.Equal(t, [2]int{plain.free(), len(plain.asks) - places + plain.free()}, [2]int{p.free, p.waiting}, seed)
	}
	for _, o := range open {
		end(o)
		synctest.Wait()
	}
	empty(t, &Gateway{places: p}, devices...)
}

// A bucket lets a burst through, then its rate.
func TestBucket(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBucket(10, 5)
		for range 5 {
			require.Zero(t, b.take())
		}
		assert.Equal(t, 100*time.Millisecond, b.take().Round(time.Millisecond))
		passed := 0
		for range 1000 {
			if b.take() == 0 {
				passed++
			}
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 100, passed, 1)
		time.Sleep(time.Hour)
		for range 5 {
			require.Zero(t, b.take())
		}
		assert.Positive(t, b.take())
		assert.Zero(t, (*bucket)(nil).take())
	})
}
