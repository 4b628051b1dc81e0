package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// slow is a device in virtual time: a pass takes base, and each for every row. The result for a row is
// 3·token+position. It checks that rows are in order and that no store is in two passes at once.
type slow struct {
	t          testing.TB
	base, each time.Duration
	layers     int           // number of checks of the context in a pass
	shapes     []map[int]int // rows by store, for each pass
	whole      []int         // rows, for each pass
	began      []time.Time   // start of each pass
	bad        int32         // a token that gives an error; 0: none
	runs       bool
}

var errBad = errors.New("a bad token")

// store is a KV store with a number.
type store struct {
	backend.KV
	number int
}

func (d *slow) forward(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	assert.False(d.t, d.runs, "two passes at once")
	d.runs = true
	defer func() { d.runs = false }()
	shape := map[int]int{}
	for _, r := range rows {
		of := kv
		if r.KV != nil {
			of = r.KV
		}
		shape[of.(*store).number]++
		if d.bad != 0 && r.Token == d.bad {
			return errBad
		}
	}
	d.shapes, d.whole, d.began = append(d.shapes, shape), append(d.whole, len(rows)), append(d.began, time.Now())
	if len(shape) > 1 {
		assert.Nil(d.t, ctx.Value(sessionKey{}), "values of one context are not visible to other sessions")
	}
	layers := max(1, d.layers)
	for range layers {
		time.Sleep((d.base + time.Duration(len(rows))*d.each) / time.Duration(layers))
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	require.Len(d.t, out, len(want.Rows))
	for i, r := range want.Rows {
		out[i] = found(rows[r], want.Of(i))
	}
	return nil
}

// sessionKey is a key of contexts.
type sessionKey struct{}

// found returns the result of the device for a row.
func found(r backend.Row, w backend.WantRow) backend.Output {
	out := backend.Output{Top: make([]backend.Candidate, w.K), LogSumExp: float32(r.Token)}
	out.Top[0].ID = 3*r.Token + r.Pos
	if w.Logits {
		out.Logits = []float32{float32(r.Token)}
	}
	if w.Hidden {
		out.Hidden = []float32{float32(r.Pos)}
	}
	return out
}

// newSlow returns a batcher with a slow device.
func newSlow(t testing.TB) (*batcher, *slow) {
	d := &slow{t: t, base: 16 * time.Millisecond, each: time.Millisecond}
	c := newBatcher()
	turn := make(chan struct{}, 1)
	c.acquire = func(ctx context.Context) (func(), error) {
		select {
		case turn <- struct{}{}:
			return func() { <-turn }, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	c.forward = d.forward
	return c, d
}

// worker is a session that decodes.
type worker struct {
	c  *batcher
	m  *batchSession
	kv *store
	at int32
}

func newWorker(c *batcher, number int) *worker {
	w := &worker{c: c, m: newBatchSession(), kv: &store{number: number}}
	c.addSession(w.m)
	return w
}

// step evaluates n rows, and checks some results.
func (w *worker) step(t testing.TB, ctx context.Context, r *rand.Rand, n int, long bool) error {
	rows := make([]backend.Row, n)
	want := backend.Want{K: 1 + r.IntN(3), Logits: r.IntN(4) == 0, Hidden: r.IntN(4) == 0}
	for i := range rows {
		rows[i] = backend.Row{Token: 1 + r.Int32N(1000), Pos: w.at + int32(i)}
		if i == n-1 || r.IntN(4) == 0 {
			want.Rows = append(want.Rows, i)
		}
	}
	out := make([]backend.Output, len(want.Rows))
	if err := w.c.runCall(ctx, w.m, w.kv, rows, out, want, long); err != nil {
		return err
	}
	for i, at := range want.Rows {
		assert.Equal(t, found(rows[at], want.Of(i)), out[i])
	}
	w.at += int32(n)
	return nil
}

// TestSessionsMeet: sessions that decode at the same time all take part in every pass, however they started and however
// short their time between tokens is. A single session never waits.
func TestSessionsMeet(t *testing.T) {
	for _, n := range []int{1, 2, 4, 9} {
		bubble.Test(t, func(t *testing.T) {
			c, d := newSlow(t)
			const tokens = 50
			var all sync.WaitGroup
			begin := time.Now()
			for i := range n {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				all.Go(func() {
					time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
					w := newWorker(c, i)
					defer c.removeSession(w.m)
					ctx := context.WithValue(t.Context(), sessionKey{}, i)
					for range tokens {
						require.NoError(t, w.step(t, ctx, r, 1, false))
						if n > 1 {
							time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
						}
					}
				})
			}
			all.Wait()
			assert.LessOrEqual(t, len(d.whole), tokens+3, "%d sessions", n)
			assert.Equal(t, n, d.whole[len(d.whole)/2])
			if one := d.base + time.Duration(n)*d.each; n == 1 {
				assert.LessOrEqual(t, time.Since(begin), tokens*one+40*time.Millisecond)
			} else {
				assert.LessOrEqual(t, time.Since(begin), (tokens+3)*(one+time.Millisecond)+40*time.Millisecond)
			}
			assert.EqualValues(t, n*tokens, c.calls)
			assert.EqualValues(t, len(d.whole), c.passes)
		})
	}
}

// TestSlowSession: a session that takes long between tokens delays the others once, not at each of its tokens;
// when it becomes fast again, it rejoins them.
func TestSlowSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, d := newSlow(t)
		var all sync.WaitGroup
		r := func() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }
		begin := time.Now()
		var ends [2]time.Time
		for i := range ends {
			r := r()
			all.Go(func() {
				w := newWorker(c, i)
				defer c.removeSession(w.m)
				for range 100 {
					require.NoError(t, w.step(t, t.Context(), r, 1, false))
				}
				ends[i] = time.Now()
			})
		}
		r3 := r()
		all.Go(func() {
			w := newWorker(c, 2)
			defer c.removeSession(w.m)
			for i := range 40 {
				require.NoError(t, w.step(t, t.Context(), r3, 1, false))
				if i < 20 {
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
		all.Wait()
		assert.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, d.shapes[len(d.shapes)-5], "all meet")
		end := ends[0]
		if ends[1].After(end) {
			end = ends[1]
		}
		idle := end.Sub(begin)
		for i, at := range d.began {
			if at.Before(end) {
				idle -= d.base + time.Duration(d.whole[i])*d.each
			}
		}
		assert.LessOrEqual(t, idle, 2*(d.base+3*d.each)/patience, "time without a pass")
	})
}

// TestPromptBesideDecoding: a long prompt of one session does not delay the decoding of others: it takes few rows of
// each pass, and many while no other session decodes.
func TestPromptBesideDecoding(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, d := newSlow(t)
		var all sync.WaitGroup
		var over atomic.Bool
		all.Go(func() {
			w := newWorker(c, 0)
			defer c.removeSession(w.m)
			r := rand.New(rand.NewPCG(1, 2))
			for !over.Load() {
				begin := time.Now()
				require.NoError(t, w.step(t, t.Context(), r, 1, false))
				assert.LessOrEqual(t, time.Since(begin), d.base+(1+promptBeside)*d.each)
			}
		})
		time.Sleep(time.Second)
		for i := range 3 {
			all.Go(func() {
				w := newWorker(c, 1+i)
				defer c.removeSession(w.m)
				r := rand.New(rand.NewPCG(1, 3))
				require.NoError(t, w.step(t, t.Context(), r, 300+600*i, true))
				over.Store(true)
			})
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		first := slices.IndexFunc(d.whole, func(n int) bool { return n > 1 })
		assert.Equal(t, map[int]int{0: 1, 1: promptBeside}, d.shapes[first])
		assert.Equal(t, map[int]int{0: 1, 1: promptBeside}, d.shapes[first+12], "the shortest one")
		last := len(d.shapes) - 1
		for d.shapes[last][0] == 0 {
			last--
		}
		assert.Greater(t, d.whole[last+3], promptBeside+1, "no session decodes")
		assert.LessOrEqual(t, slices.Max(d.whole), promptAlone)
	})
}

// TestShortPrompts: short prompts that come while a long one is read are evaluated before the rest of it, in the time
// that they take alone, one after the other, and one piece of a prompt; beside a session that decodes, too. The long
// one takes longer by not much more than the time of the others, and goes on however many short ones come.
func TestShortPrompts(t *testing.T) {
	const long, short, shorts = 8000, 100, 3
	for _, decodes := range []bool{false, true} {
		alone := func(n, others int) (longest, first time.Duration) {
			bubble.Test(t, func(t *testing.T) { longest, first = playPrompts(t, decodes, n, others, short) })
			return longest, first
		}
		t.Run(fmt.Sprintf("decodes %t", decodes), func(t *testing.T) {
			_, one := alone(0, 1)
			longAlone, _ := alone(long, 0)
			both, slowest := alone(long, shorts)
			piece := 16*time.Millisecond + promptAlone*time.Millisecond
			assert.LessOrEqual(t, slowest, shorts*one+piece)
			assert.LessOrEqual(t, both, longAlone*115/100)
			flooded, _ := alone(1000, 200)
			lengthAlone, _ := alone(1000, 0)
			assert.LessOrEqual(t, flooded, (mostSkipped+1)*lengthAlone*11/10)
		})
	}
}

// playPrompts reads a prompt of long tokens and, from when it is under way, others, the first three at once and then
// one whenever one of them has ended. It returns the time of the long prompt, and the longest one of the first others.
func playPrompts(t *testing.T, decodes bool, long, others, short int) (took, slowest time.Duration) {
	c, _ := newSlow(t)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	if decodes {
		all.Go(func() {
			w, r := newWorker(c, 0), rand.New(rand.NewPCG(1, 2))
			defer c.removeSession(w.m)
			for w.step(t, ctx, r, 1, false) == nil {
			}
		})
		time.Sleep(time.Second)
	}
	read := func(number, n int) time.Duration {
		w, begin := newWorker(c, number), time.Now()
		defer c.removeSession(w.m)
		require.NoError(t, w.step(t, t.Context(), rand.New(rand.NewPCG(1, uint64(number))), n, true))
		return time.Since(begin)
	}
	var prompts sync.WaitGroup
	if long > 0 {
		prompts.Go(func() { took = read(1, long) })
		time.Sleep(10 * time.Millisecond)
	}
	const abreast = 3
	times := make([]time.Duration, others)
	for lane := range abreast {
		prompts.Go(func() {
			for i := lane; i < others; i += abreast {
				times[i] = read(2+i, short)
			}
		})
	}
	prompts.Wait()
	cancel()
	all.Wait()
	return took, slices.Max(append(times[:min(others, abreast)], 0))
}

// TestSessionsShare: if more sessions decode than fit into a pass, all get equal numbers of tokens.
func TestSessionsShare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, d := newSlow(t)
		const n = maxShared + 50
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		tokens := make([]int, n)
		for i := range n {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			all.Go(func() {
				w := newWorker(c, i)
				defer c.removeSession(w.m)
				for w.step(t, ctx, r, 1, false) == nil {
					tokens[i]++
				}
			})
		}
		all.Wait()
		assert.LessOrEqual(t, slices.Max(d.whole), maxShared)
		assert.LessOrEqual(t, slices.Max(tokens)-slices.Min(tokens), 1)
		assert.Greater(t, slices.Min(tokens), 50)
	})
}

// TestCallsEnd: a call that is cancelled while it waits, for a pass of others or for its turn to lead, returns at once.
// A call that takes part in a pass returns with it, and a pass ends early when all of its calls are cancelled.
func TestCallsEnd(t *testing.T) {
	why := errors.New("why")
	bubble.Test(t, func(t *testing.T) {
		c, d := newSlow(t)
		d.layers = 16
		r := rand.New(rand.NewPCG(1, 1))
		a, b, e := newWorker(c, 0), newWorker(c, 1), newWorker(c, 2)
		var all sync.WaitGroup
		for _, w := range []*worker{a, b, e} {
			c.removeSession(w.m) // no pass waits for it
		}
		go1 := func(w *worker, ctx context.Context, r *rand.Rand, takes time.Duration, want error) {
			r = rand.New(rand.NewPCG(r.Uint64(), 1))
			all.Go(func() {
				begin := time.Now()
				assert.ErrorIs(t, w.step(t, ctx, r, 1, false), want)
				assert.Equal(t, takes, time.Since(begin))
			})
		}
		one := d.base + d.each
		// alone, and no other call waits: the pass ends early
		ctx, cancel := context.WithCancelCause(t.Context())
		go1(a, ctx, r, one/16*4, why)
		time.Sleep(one / 16 * 7 / 2)
		cancel(why)
		all.Wait()
		// in the queue, while a pass of another session runs
		ctx, cancel = context.WithCancelCause(t.Context())
		go1(a, t.Context(), r, one, nil)
		time.Sleep(time.Millisecond)
		go1(b, ctx, rand.New(r), time.Millisecond, why)
		time.Sleep(time.Millisecond)
		cancel(why)
		all.Wait()
		// in a pass with another session
		ctx, cancel = context.WithCancelCause(t.Context())
		go1(a, t.Context(), r, one, nil)
		time.Sleep(time.Millisecond)
		go1(b, ctx, rand.New(rand.NewPCG(2, 2)), 2*one+d.each-time.Millisecond, why)
		go1(e, t.Context(), rand.New(rand.NewPCG(3, 2)), 2*one+d.each-time.Millisecond, nil)
		time.Sleep(one + time.Millisecond)
		cancel(why)
		all.Wait()
		// both: the pass of two ends early
		ctx, cancel = context.WithCancelCause(t.Context())
		go1(a, t.Context(), r, one, nil)
		time.Sleep(time.Millisecond)
		pass := (d.base + 2*d.each) / 16
		go1(b, ctx, rand.New(rand.NewPCG(2, 2)), one+pass-time.Millisecond, why)
		go1(e, ctx, rand.New(rand.NewPCG(3, 2)), one+pass-time.Millisecond, why)
		time.Sleep(one - time.Millisecond + pass/2)
		cancel(why)
		all.Wait()
		assert.False(t, c.led)
		assert.Empty(t, c.queue)
	})
}

// TestWithdrawCall: a call whose context ends leaves the queue, unless it takes part in a pass or has just become the
// leader: then it has to hand on, or no call would lead.
func TestWithdrawCall(t *testing.T) {
	for name, c := range map[string]struct {
		state forwardCall
		left  bool
	}{
		"waits": {forwardCall{}, true}, "in a pass": {forwardCall{now: 1}, false},
		"over":  {forwardCall{over: true}, false},
		"leads": {forwardCall{leads: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, l := newBatcher(), &c.state
			b.queue = []*forwardCall{l}
			assert.Equal(t, c.left, b.withdrawCall(l))
			assert.Equal(t, c.left, len(b.queue) == 0)
		})
	}
}

// TestLeaderWaits: the leader waits for the sessions of the last pass, but not for one that has ended its text, and
// only while its own context lives; then another session leads.
func TestLeaderWaits(t *testing.T) {
	why := errors.New("why")
	bubble.Test(t, func(t *testing.T) {
		c, d := newSlow(t)
		r := rand.New(rand.NewPCG(1, 1))
		a, b := newWorker(c, 0), newWorker(c, 1)
		var all sync.WaitGroup
		meet := func() {
			for both := 0; both < 2; {
				for i, w := range []*worker{a, b} {
					r := rand.New(rand.NewPCG(1, uint64(i)))
					all.Go(func() { assert.NoError(t, w.step(t, t.Context(), r, 1, false)) })
				}
				all.Wait()
				if both++; len(d.shapes[len(d.shapes)-1]) < 2 {
					both = 0
				}
			}
		}
		meet()
		require.Equal(t, map[int]int{0: 1, 1: 1}, d.shapes[len(d.shapes)-1])
		two := d.base + 2*d.each
		begin := time.Now()
		c.came <- struct{}{} // too late for an earlier pass
		require.NoError(t, a.step(t, t.Context(), r, 1, false))
		assert.Equal(t, two/patience+d.base+d.each, time.Since(begin), "the other session does not return")
		begin = time.Now()
		require.NoError(t, a.step(t, t.Context(), r, 1, false))
		assert.Equal(t, d.base+d.each, time.Since(begin), "it was not in the last pass")
		require.NoError(t, b.step(t, t.Context(), r, 1, false))
		meet()
		require.Equal(t, map[int]int{0: 1, 1: 1}, d.shapes[len(d.shapes)-1])
		begin = time.Now()
		all.Go(func() {
			require.NoError(t, a.step(t, t.Context(), r, 1, false))
			assert.Equal(t, time.Millisecond+d.base+d.each, time.Since(begin), "the other text has ended")
		})
		time.Sleep(time.Millisecond)
		c.removeSession(b.m)
		all.Wait()
		c.addSession(b.m)
		meet()
		ctx, cancel := context.WithCancelCause(t.Context())
		begin = time.Now()
		all.Go(func() {
			assert.ErrorIs(t, a.step(t, ctx, r, 1, false), why)
			assert.Equal(t, time.Millisecond, time.Since(begin))
		})
		time.Sleep(time.Millisecond)
		cancel(why)
		all.Wait()
		require.NoError(t, b.step(t, t.Context(), r, 1, false))
	})
}

// TestErrorOfOneSession: an error in the rows of one session affects only this session.
func TestErrorOfOneSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, d := newSlow(t)
		d.bad = 7
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				w := newWorker(c, i)
				defer c.removeSession(w.m)
				for n := range 10 {
					token := int32(1)
					if i == 2 && n == 5 {
						token = 7
					}
					out := make([]backend.Output, 1)
					row, want := []backend.Row{{Token: token}}, backend.Want{Rows: []int{0}, K: 1}
					err := c.runCall(t.Context(), w.m, w.kv, row, out, want, false)
					if token == 7 {
						assert.ErrorIs(t, err, errBad)
						continue
					}
					assert.NoError(t, err)
					assert.EqualValues(t, 3, out[0].Top[0].ID)
				}
			})
		}
		all.Wait()
	})
}

// TestAddSession: the time between two texts is not one of decoding, and who joins has taken part as often as the
// others.
func TestAddSession(t *testing.T) {
	c, m := newBatcher(), newBatchSession()
	c.served, m.given, m.away = 3, time.Now(), time.Hour
	c.addSession(m)
	assert.True(t, m.decodes)
	assert.Zero(t, m.given)
	assert.Zero(t, m.away)
	assert.EqualValues(t, 3, m.served)
	c.served = 2
	c.addSession(m)
	assert.EqualValues(t, 3, m.served)
}

// TestNewSession: a session that begins does not go before those that waited while others fill the pass.
func TestNewSession(t *testing.T) {
	c := newBatcher()
	c.served = 5
	arrive := func(m *batchSession) *forwardCall {
		c.addSession(m)
		m.call.batchSession, m.call.rows = m, make([]backend.Row, 1)
		c.queue = append(c.queue, &m.call)
		return &m.call
	}
	for range maxShared {
		m := newBatchSession()
		m.served = 5
		arrive(m)
	}
	newcomer := arrive(newBatchSession())
	c.chooseCalls()
	assert.Len(t, c.taken, maxShared)
	assert.NotContains(t, c.taken, newcomer)
}

// TestBatcherClosed: if the model is closed, all waiting calls get the error.
func TestBatcherClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, d := newSlow(t)
		acquire := c.acquire
		var closed atomic.Bool
		c.acquire = func(ctx context.Context) (func(), error) {
			if closed.Load() {
				return nil, ErrClosed
			}
			return acquire(ctx)
		}
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				w := newWorker(c, i)
				time.Sleep(time.Duration(i) * time.Millisecond)
				err := w.step(t, t.Context(), rand.New(rand.NewPCG(1, 1)), 1, false)
				if closed.Store(true); i == 0 {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, ErrClosed)
				}
			})
		}
		all.Wait()
		assert.Len(t, d.whole, 1)
		assert.False(t, c.led)
		assert.Empty(t, c.queue)
	})
}

// TestWatchedSession: a watched session has its own passes; if its watcher panics, the others continue.
func TestWatchedSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, d := newSlow(t)
		forward := c.forward
		c.forward = func(
			ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
		) error {
			err := forward(ctx, kv, rows, out, want)
			if backend.IsWatched(ctx) {
				panic("the caller's")
			}
			return err
		}
		ctx := backend.Watch(t.Context(), &backend.Watcher{})
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				w, r := newWorker(c, i), rand.New(rand.NewPCG(1, 1))
				defer c.removeSession(w.m)
				for range 10 {
					if i == 3 {
						assert.Panics(t, func() { w.step(t, ctx, r, 1, false) })
						continue
					}
					assert.NoError(t, w.step(t, t.Context(), r, 1, false))
				}
			})
		}
		all.Wait()
		for _, shape := range d.shapes {
			if shape[3] > 0 {
				assert.Equal(t, map[int]int{3: 1}, shape)
			}
		}
		assert.False(t, c.led)
	})
}

// TestBatcherRandom: sessions randomly start, end, read prompts, decode, pause and cancel. Every call gets the right
// result, its rows are evaluated once and in order, and no call waits forever.
func TestBatcherRandom(t *testing.T) {
	for seed := range uint64(30) {
		bubble.Test(t, func(t *testing.T) {
			c, d := newSlow(t)
			r := rand.New(rand.NewPCG(seed, 1))
			d.layers = 1 + r.IntN(3)
			var all sync.WaitGroup
			for i := range 1 + r.IntN(12) {
				r := rand.New(rand.NewPCG(seed, 2+uint64(i)))
				all.Go(func() {
					for text := range 3 {
						time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
						w := newWorker(c, 10*i+text)
						ctx, cancel := context.WithCancel(t.Context())
						if r.IntN(3) == 0 {
							time.AfterFunc(time.Duration(r.IntN(1000))*time.Millisecond, cancel)
						}
						err := w.step(t, ctx, r, 1+r.IntN(300), true)
						for n := r.IntN(40); err == nil && n > 0; n-- {
							if r.IntN(8) == 0 {
								time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
							}
							err = w.step(t, ctx, r, 1+r.IntN(8), false)
						}
						if err != nil {
							assert.Equal(t, context.Canceled, err)
							assert.Error(t, ctx.Err())
						}
						c.removeSession(w.m)
						cancel()
					}
				})
			}
			all.Wait()
			assert.False(t, c.led)
			assert.Empty(t, c.queue)
			assert.LessOrEqual(t, slices.Max(d.whole), maxShared, fmt.Sprint(seed))
		})
	}
}
