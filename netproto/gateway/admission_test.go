package gateway

import (
	"cmp"
	"context"
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

// some returns n new devices.
func some(n int) (all []*device) {
	for i := range n {
		all = append(all, &device{client: new(client), number: uint64(i)})
	}
	return all
}

// empty checks that no ask is left.
func empty(t *testing.T, a *admission, devices ...*device) {
	t.Helper()
	assert.Equal(t, a.places, a.free)
	assert.Zero(t, a.open)
	assert.Zero(t, a.busy)
	assert.Empty(t, slices.Collect(a.queue.All))
	for _, d := range devices {
		assert.Zero(t, d.taken+d.open)
	}
}

// TestTurnsAreFair: devices share places by tokens, for any number of asks and any number of tokens per ask. Greedy
// devices have 100 asks of 20 tokens each waiting when a modest one repeatedly asks for 2 tokens.
//
// The bound: virtual time is at most the min tag of the greedy devices, so each of their asks ends at least 20 after
// now. While each of them gets 20 more tokens, the modest one has at most 5 asks of 2, so its own ends at most 10 after
// now, and is next. It waits until a place is free, for at most one ask of 20 seconds, and then takes 2.
func TestTurnsAreFair(t *testing.T) {
	for _, greedy := range []int{1, 4, 64} {
		bubble.Test(t, func(t *testing.T) {
			const second = time.Second
			a := newAdmission(Options{derived: derivedLimits{MaxAsks: 10000, MaxAsksPerDevice: 1000}}, 4)
			var all sync.WaitGroup
			use := func(who *device, tokens int) {
				leave, err := a.acquirePlace(t.Context(), who, tokens, false)
				if assert.NoError(t, err) {
					time.Sleep(time.Duration(tokens) * second)
					leave()
				}
			}
			devices := some(1 + greedy)
			for _, who := range devices[1:] {
				for range 100 {
					all.Go(func() { use(who, 20) })
				}
			}
			synctest.Wait()
			for range 20 {
				began := time.Now()
				use(devices[0], 2)
				assert.LessOrEqual(t, time.Since(began), 22*second, "one ask that holds a place, and its own time")
				time.Sleep(time.Duration(7+greedy) * second) // so that it asks for less than its share
			}
			all.Wait()
			empty(t, a, devices...)
		})
	}
}

// TestTurnsOfClients: a client with 50 devices, which all wait, delays the device of another client by one turn, and no
// longer, if that one asks for as much. When the gateway is full, the other client still gets its half.
func TestTurnsOfClients(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := newAdmission(Options{derived: derivedLimits{MaxAsks: 100, MaxAsksPerDevice: 60}}, 1)
		crowd, single := &client{number: 1}, &device{client: &client{number: 2}, number: 1000}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		use := func(ctx context.Context, who *device) error {
			leave, err := a.acquirePlace(ctx, who, 20, false)
			if err == nil {
				time.Sleep(20 * time.Second)
				leave()
			}
			return err
		}
		devices := some(50)
		for _, who := range devices {
			who.client = crowd
			for range 2 {
				all.Go(func() {
					for ctx.Err() == nil {
						_ = use(ctx, who)
					}
				})
			}
		}
		synctest.Wait()
		assert.Equal(t, 100, a.open)
		for range 20 {
			began := time.Now()
			require.NoError(t, use(t.Context(), single))
			assert.LessOrEqual(t, time.Since(began), 3*20*time.Second, "one that holds the place, a turn, and its own")
			time.Sleep(10 * time.Second)
		}
		for range 50 {
			all.Go(func() { _ = use(ctx, single) })
		}
		synctest.Wait()
		assert.Equal(t, 50, single.open)
		_, err := a.acquirePlace(ctx, single, 1, false)
		assert.ErrorContains(t, err, "asks of all devices are open")
		cancel()
		all.Wait()
		empty(t, a, append(devices, single)...)
	})
}

// TestTurnsShareTokens: devices that always have waiting asks get equal numbers of tokens, in few asks or in many, from
// the moment when the device joins.
func TestTurnsShareTokens(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, devices := newAdmission(Options{derived: derivedLimits{MaxAsks: 10000, MaxAsksPerDevice: 1000}}, 1), some(4)
		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Second)
		defer cancel()
		var all sync.WaitGroup
		served, sizes := make([]int, 4), []int{50, 1, 7, 5} // one ask at a time
		for i, who := range devices {
			for range 900 {
				all.Go(func() {
					leave, err := a.acquirePlace(ctx, who, sizes[i], false)
					if err != nil {
						return
					}
					time.Sleep(time.Duration(sizes[i]) * time.Second)
					served[i] += sizes[i]
					leave()
				})
			}
			if i == 2 {
				time.Sleep(600 * time.Second)
			}
		}
		all.Wait()
		for i, want := range []int{200 + 150, 200 + 150, 200 + 150, 150} {
			assert.InDelta(t, want, served[i], 51, "%d", i)
		}
		empty(t, a, devices...)
	})
}

// TestTurnsLimits: a single device holds half of the places; when the gateway is full, devices with few asks still get
// in; a device at its limit is refused with the name of the limit.
func TestTurnsLimits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, devices := newAdmission(Options{derived: derivedLimits{MaxAsks: 20, MaxAsksPerDevice: 15}}, 8), some(5)
		greedy, other, late := devices[0], devices[1], devices[4]
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		wait := func(who *device, n int) {
			for range n {
				all.Go(func() {
					_, err := a.acquirePlace(ctx, who, 1, false)
					assert.ErrorIs(t, err, context.Canceled)
				})
			}
			synctest.Wait()
		}
		for _, who := range []*device{greedy, greedy, greedy, greedy, other, other, devices[2], devices[3]} {
			leave, err := a.acquirePlace(ctx, who, 1, false)
			require.NoError(t, err)
			defer leave()
			if greedy.taken == 4 && other.open == 0 {
				wait(greedy, 11)
				assert.Equal(t, 4, a.free, "half is left for other devices")
			}
		}
		_, err := a.acquirePlace(ctx, greedy, 1, false)
		assert.ErrorContains(t, err, "15 asks of this device are open")
		wait(other, 1)
		assert.Equal(t, 20, a.open)
		wait(late, 20/5) // its share of a fifth
		_, err = a.acquirePlace(ctx, late, 1, false)
		require.ErrorIs(t, err, netproto.Busy)
		assert.ErrorContains(t, err, "24 asks of all devices are open")
		cancel()
		all.Wait()
		assert.Equal(t, 8, a.open, "only asks with a place")
		assert.Equal(t, 4, a.busy, "only asks with a place")
		assert.Zero(t, a.queue.Len(), "only asks with a place")
	})
}

// TestShareOfFewDevices: when the gateway is full, a device may have its share, which is at least 4 asks.
func TestShareOfFewDevices(t *testing.T) {
	for maxOpen, share := range map[int]int{20: 10, 6: 4} {
		o := Options{derived: derivedLimits{MaxAsks: maxOpen, MaxAsksPerDevice: 100}}
		a, devices := newAdmission(o, 100), some(2)
		for i, who := range devices {
			for range map[int]int{0: maxOpen, 1: share}[i] {
				_, err := a.acquirePlace(t.Context(), who, 1, false)
				require.NoError(t, err)
			}
		}
		_, err := a.acquirePlace(t.Context(), devices[1], 1, false)
		require.ErrorIs(t, err, netproto.Busy)
	}
}

// TestTurnsBackground: a background ask never waits and never takes the last place. An upstream that schedules by
// itself gets all asks at once.
func TestTurnsBackground(t *testing.T) {
	for _, places := range []int{4, 0} {
		a, devices := newAdmission(Options{derived: derivedLimits{MaxAsks: 20, MaxAsksPerDevice: 15}}, places), some(3)
		var leaves []func()
		take := func(who *device, background bool) error {
			leave, err := a.acquirePlace(t.Context(), who, 0, background)
			if err == nil {
				leaves = append(leaves, leave)
			}
			return err
		}
		require.NoError(t, take(devices[0], true))
		require.NoError(t, take(devices[0], true))
		require.NoError(t, take(devices[1], true))
		if places > 0 {
			require.ErrorContains(t, take(devices[2], true), "all places at the large model are taken")
		} else {
			require.NoError(t, take(devices[2], true))
		}
		require.NoError(t, take(devices[2], false))
		for _, leave := range leaves {
			leave()
		}
		assert.Zero(t, a.queue.Owners(), "places given without a queue are not counted")
		empty(t, a, devices...)
	}
}

// TestTurnsRandom: devices randomly ask, wait, cancel and finish, also at the moment when they get a place. A place is
// free only if all waiting devices hold at least as many as are free, a device gets its places in the order of its
// asks, and no ask is left.
func TestTurnsRandom(t *testing.T) {
	for _, seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 1))
		o := Options{derived: derivedLimits{MaxAsks: 9999, MaxAsksPerDevice: 9999}}
		a, devices := newAdmission(o, 1+r.IntN(9)), some(9)
		var open []*waitingAsk // the oldest first
		for step := range 400 {
			if step < 280 && r.IntN(5) < 3 || len(open) == 0 {
				who := devices[r.IntN(9)]
				mine, err := a.admitAsk(t.Context(), who, r.IntN(1000), false)
				require.NoError(t, err)
				open = append(open, cmp.Or(mine, &waitingAsk{who: who}))
			} else {
				i := r.IntN(len(open))
				mine := open[i]
				open = slices.Delete(open, i, i+1)
				if mine.Waits() || r.IntN(2) == 0 {
					a.cancelWait(mine)
				} else {
					a.releasePlace(mine.who, 1)
				}
			}
			held, waits := 0, map[*device]bool{}
			for _, x := range open {
				if x.Waits() {
					waits[x.who] = true
					require.GreaterOrEqual(t, x.who.taken, a.free, "seed %d: it waits although a place is free", seed)
					continue
				}
				held++
				require.False(t, waits[x.who], "seed %d: an earlier ask of the same device waits", seed)
			}
			require.Equal(t, a.places-held, a.free)
			require.Equal(t, len(open), a.open)
			require.Equal(t, len(waits), a.queue.Len())
		}
		for _, mine := range open {
			a.cancelWait(mine)
		}
		empty(t, a, devices...)
	}
}

// TestTurnsInOrder: equal devices wait in order of arrival, also those that had to wait before.
func TestTurnsInOrder(t *testing.T) {
	a, devices := newAdmission(Options{derived: derivedLimits{MaxAsks: 99, MaxAsksPerDevice: 9}}, 1), some(20)
	for range 10 {
		leave, err := a.acquirePlace(t.Context(), devices[19], 8, false)
		require.NoError(t, err)
		var turns []*waitingAsk
		for _, i := range rand.Perm(19)[:rand.IntN(19)] {
			mine, err := a.admitAsk(t.Context(), devices[i], 8, false)
			require.NoError(t, err)
			turns = append(turns, mine)
		}
		for _, mine := range turns {
			leave()
			require.False(t, mine.Waits())
			leave = func() { a.releasePlace(mine.who, 1) }
		}
		leave()
	}
	empty(t, a, devices...)
}
