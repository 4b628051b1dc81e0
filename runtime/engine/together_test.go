//go:build !noasm

package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// togetherRoutes returns the ways in which sessions decode together.
func togetherRoutes(t *testing.T) map[string]Route {
	few, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.2), Seed: 2})
	require.NoError(t, err)
	drawn := terms.Settings{Temperature: 0.9, TopP: 0.9, Seed: 3, IgnoreEnd: true}
	return map[string]Route{
		"local":     {},
		"no lookup": {Settings: terms.Settings{Lookup: -1}},
		"drawn":     {Settings: drawn},
		"serial":    {Router: few, Draft: DraftOptions{Mode: Serial, Deadline: -1}},
		"pipelined": {Router: few, Draft: DraftOptions{Deadline: -1}},
		"branches":  {Router: few, Draft: DraftOptions{Deadline: -1, Branches: 4}},
		"verified":  {Router: few, Draft: DraftOptions{Deadline: -1, Verify: true}},
		"both":      {Settings: drawn, Router: few, Draft: DraftOptions{Deadline: -1}},
	}
}

// TestTogetherOrAlone: concurrent sessions, local, sampled, routed and verified, with short texts and long prompts,
// give the same results as alone, to the last bit of their confidences; and they share passes.
func TestTogetherOrAlone(t *testing.T) {
	long := func(seed uint64) func(s *synth.Spec) {
		return func(s *synth.Spec) { s.Seed, s.Context = seed, 1000 }
	}
	e := small(t, Options{Threads: 2, Context: 1000}, long(4))
	large := small(t, Options{Threads: 1, Context: 1000}, long(5))
	cloud, err := large.Serve(ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	routes := togetherRoutes(t)
	prompts := map[string][]int32{}
	want := map[string]text{}
	var session atomic.Uint64
	decode := func(name string) text {
		r := routes[name]
		if r.MaxTokens, r.IgnoreEnd = 60, true; r.Router != nil {
			r.Cloud = cloud.Local(session.Add(1))
		}
		s, err := e.NewSession()
		require.NoError(t, err)
		defer s.Close()
		return read(t, s, prompts[name], r)
	}
	for name := range routes {
		prompts[name] = make([]int32, 3+200*(len(name)%4))
		for i := range prompts[name] {
			prompts[name][i] = int32(7 * (i + len(name)) % 250)
		}
		want[name] = decode(name)
		assert.Len(t, want[name].ids, 60)
	}
	assert.Equal(t, e.batcher.calls, e.batcher.passes, "one session at a time")
	acquire := e.batcher.acquire
	for range 3 {
		passes, calls := e.batcher.passes, e.batcher.calls
		var first sync.Once // the first pass waits for a second session
		e.batcher.acquire = func(ctx context.Context) (func(), error) {
			first.Do(func() { waitFor(e.batcher, 2) })
			return acquire(ctx)
		}
		var all sync.WaitGroup
		for name := range routes {
			all.Go(func() { assert.Equal(t, want[name], decode(name), name) })
		}
		all.Wait()
		t.Logf("%.1f of %d sessions in a pass",
			float64(e.batcher.calls-calls)/float64(e.batcher.passes-passes), len(routes))
		assert.Less(t, e.batcher.passes-passes, e.batcher.calls-calls, "some passes are shared")
	}
}

// waitFor returns when this number of calls waits for a pass.
func waitFor(c *batcher, calls int) {
	for waiting := 0; waiting < calls; runtime.Gosched() {
		c.mu.Lock()
		waiting = len(c.queue)
		c.mu.Unlock()
	}
}

// TestMemoryGrows: keys and values are allocated in chunks as the text grows, up to the context.
func TestMemoryGrows(t *testing.T) {
	e := small(t, Options{Context: 3*backend.KVChunk + 10}, func(s *synth.Spec) { s.Context = 4 * backend.KVChunk })
	s := session(t, e)
	assert.Zero(t, s.KVBytes(), "no memory before the first text")
	chunk := e.kvBytes(backend.KVChunk)
	assert.Equal(t, e.kvBytes(3*backend.KVChunk+10), s.KVLimit())
	grow := func(prompt, tokens int, want int64) {
		r := terms.Settings{MaxTokens: tokens, IgnoreEnd: true, Lookup: -1}
		for _, err := range s.Generate(t.Context(), make([]int32, prompt), r) {
			require.NoError(t, err)
		}
		assert.Equal(t, want, s.KVBytes(), "%d tokens", prompt+tokens)
	}
	grow(10, 5, chunk)
	grow(backend.KVChunk-20, 10, chunk)
	grow(backend.KVChunk-20, 30, 2*chunk)
	grow(2*backend.KVChunk, 10, 3*chunk)
	grow(3*backend.KVChunk, 10, s.KVLimit())
	grow(10, 1, s.KVLimit())
	require.NoError(t, s.Close())
	assert.Zero(t, s.KVBytes())
}

// TestMemoryOfBranches: drafts with branches allocate no memory far after the text. The window keeps the whole tree, 8
// leaves of 8 tokens, in the first part of the memory, however late the cloud answers.
func TestMemoryOfBranches(t *testing.T) {
	limit := func(s *synth.Spec) { s.Context = 40 * backend.KVChunk }
	e := small(t, Options{Context: 40 * backend.KVChunk}, limit)
	large := small(t, Options{}, func(s *synth.Spec) { limit(s); s.Seed = 5 })
	cloud, err := large.Serve(ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	few, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.2), Seed: 2})
	require.NoError(t, err)
	s := session(t, e)
	route := Route{Router: few, Cloud: cloud.Local(1), Draft: DraftOptions{Deadline: -1, Branches: 4, Window: 8}}
	route.MaxTokens, route.IgnoreEnd = 120, true
	for _, err := range s.Routed(t.Context(), make([]int32, 10), route) {
		require.NoError(t, err)
	}
	assert.Equal(t, e.kvBytes(backend.KVChunk), s.KVBytes())
}

// collected reports whether the target of a pointer is freed after some collections.
func collected[T any](p weak.Pointer[T]) bool {
	for range 20 {
		if runtime.GC(); p.Value() == nil {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// TestMemoryBack: Close frees the memory of a session when nothing runs in it. An unreachable session is freed without
// Close.
func TestMemoryBack(t *testing.T) {
	e := small(t, Options{}, nil)
	request := terms.Settings{MaxTokens: 20, IgnoreEnd: true}
	used := func() *Session {
		s := session(t, e)
		other := session(t, e)
		var all sync.WaitGroup
		for _, s := range []*Session{s, other} { // so that they share passes
			all.Go(func() {
				for _, err := range s.Generate(t.Context(), []int32{1, 2, 3}, request) {
					assert.NoError(t, err)
				}
			})
		}
		all.Wait()
		return s
	}
	closed := used()
	memory := weak.Make(closed.cache)
	require.NoError(t, closed.Close())
	assert.True(t, collected(memory), "closed")
	assert.Zero(t, closed.KVBytes())
	require.NoError(t, closed.Close(), "twice")
	_, err := generateAll(closed, t.Context(), request)
	assert.ErrorIs(t, err, ErrClosed)
	assert.ErrorIs(t, closed.Read(t.Context(), []int32{1, 2}, 1, 0, nil), ErrClosed)

	forgotten := weak.Make(used())
	assert.True(t, collected(forgotten), "forgotten")

	within := used()
	memory = weak.Make(within.cache)
	n := 0
	for _, err := range within.Generate(t.Context(), []int32{1, 2, 3}, request) {
		if n++; n == 3 {
			require.NoError(t, within.Close())
			assert.Positive(t, within.KVBytes(), "it is still in use")
			continue
		}
		if n > 3 {
			assert.ErrorIs(t, err, ErrClosed)
		}
	}
	assert.Equal(t, 4, n)
	assert.True(t, collected(memory), "closed in its loop")
	runtime.KeepAlive(closed)
	runtime.KeepAlive(within)
}

// generateAll counts the tokens of a text.
func generateAll(s *Session, ctx context.Context, r terms.Settings) (n int, err error) {
	for _, err = range s.Generate(ctx, []int32{1, 2, 3}, r) {
		if err == nil {
			n++
		}
	}
	return n, err
}

// hanging is a cloud that does not answer before its context ends.
type hanging struct{ asked chan struct{} }

func (h hanging) Ask(ctx context.Context, _ CloudQuestion) (CloudAnswer, error) {
	h.asked <- struct{}{}
	<-ctx.Done()
	return CloudAnswer{}, context.Cause(ctx)
}

// TestCloseWhileWaiting: Close at once ends a text that waits for the cloud.
func TestCloseWhileWaiting(t *testing.T) {
	e := small(t, Options{}, nil)
	all, err := router.New(router.Options{Policy: router.Always})
	require.NoError(t, err)
	for _, mode := range []DraftOptions{{Mode: Serial, Deadline: -1}, {Deadline: -1}} {
		s := session(t, e)
		cloud := hanging{make(chan struct{}, 10)}
		var ends sync.WaitGroup
		ends.Go(func() {
			<-cloud.asked
			assert.NoError(t, s.Close())
		})
		for _, err := range s.Routed(t.Context(), []int32{1, 2}, Route{Router: all, Cloud: cloud, Draft: mode}) {
			assert.ErrorIs(t, err, ErrClosed)
			assert.NotErrorIs(t, err, context.Canceled, "no context ended")
		}
		ends.Wait()
		assert.Zero(t, s.KVBytes())
	}
}

// TestPanics: a panic of the caller's code passes through, and session and engine stay usable, with unchanged tokens.
func TestPanics(t *testing.T) {
	why := errors.New("the caller's own")
	asAskedOrInFlight(t, func(t *testing.T, e *Engine) {
		want := session(t, e)
		request := terms.Settings{MaxTokens: 12, IgnoreEnd: true}
		expected := read(t, want, []int32{1, 2, 3}, Route{Settings: request})
		all, err := router.New(router.Options{Policy: router.Always})
		require.NoError(t, err)
		cloud := hanging{make(chan struct{}, 1000)}
		soon := DraftOptions{Deadline: time.Millisecond}
		count := func(at int) func() {
			return func() {
				if at--; at == 0 {
					panic(why)
				}
			}
		}
		for at := 1; at < 12; at += 2 {
			step := count(at)
			for name, r := range map[string]Route{
				"observe": {Observe: func(Event) { step() }},
				"head":    {Head: func(int, *backend.Output) { step() }},
				"pick":    {Pick: func(int, []int32, *backend.Output) int32 { step(); return 5 }},
				"decide":  {Decider: decides(step), Cloud: cloud, Draft: soon},
				"yield":   {},
				"waiting": {Router: all, Cloud: cloud, Draft: soon, Head: func(int, *backend.Output) { step() }},
			} {
				s := session(t, e)
				step = count(at)
				r.Settings = request
				var got any
				func() {
					defer func() { got = recover() }()
					for range s.Routed(t.Context(), []int32{1, 2, 3}, r) {
						if name == "yield" {
							step()
						}
					}
				}()
				require.Equal(t, why, got, "%s, %d", name, at)
				require.Equal(t, expected, read(t, s, []int32{1, 2, 3}, Route{Settings: request}), "%s, %d", name, at)
				require.NoError(t, s.Close())
			}
		}
	})
}

// decides is a router that escalates some tokens.
type decides func()

func (d decides) Want(w backend.Want) backend.Want { return w }

func (d decides) Decide(path uint64, pos int, _ *backend.Output) (float32, bool, uint64) {
	d()
	return 0.5, pos%4 == 0, path
}

// asAskedOrInFlight runs a test on a device without flights, and on one with flights.
func asAskedOrInFlight(t *testing.T, test func(t *testing.T, e *Engine)) {
	t.Run("as asked", func(t *testing.T) { test(t, small(t, Options{}, nil)) })
	t.Run("flights", func(t *testing.T) { e, _ := troubled(t, Options{}, true); test(t, e) })
}
