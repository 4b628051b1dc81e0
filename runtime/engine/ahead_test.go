//go:build !noasm

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// aGPU is the GPU of a Mac, and elsewhere the one in software.
func aGPU() Backend {
	if runtime.GOOS == "darwin" {
		return Metal
	}
	return Soft
}

// random opens a tiny model of random weights.
func random(t *testing.T, o Options, seed uint64) *Engine {
	t.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, synth.Tiny(recipe, seed).Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	e, err := New(f, "tiny", o)
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// randomNet is a router that is of no use.
func randomNet(t *testing.T, dim int) *router.Net {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	layers := []router.Layer{{In: dim + 2, Out: 8}, {In: 8, Out: 1}}
	for i := range layers {
		l := &layers[i]
		l.Weight, l.Bias = make([]float32, l.In*l.Out), make([]float32, l.Out)
		for j := range l.Weight {
			l.Weight[j] = float32(r.NormFloat64())
		}
	}
	n, err := router.NewNet(layers, true)
	require.NoError(t, err)
	return n
}

// text is what can be seen of an answer.
type text struct {
	ids     []int32
	origins []string
	heads   []float32 // confidences
}

func read(t *testing.T, s *Session, prompt []int32, r Route) (got text) {
	t.Helper()
	stream := s.Routed(t.Context(), prompt, r)
	if r.Router == nil {
		stream = s.Generate(t.Context(), prompt, r.Request)
	}
	for tok, err := range stream {
		require.NoError(t, err)
		got.ids, got.origins, got.heads = append(got.ids, tok.ID), append(got.origins, tok.Origin), append(got.heads, tok.Confidence)
	}
	assert.Empty(t, s.ahead.flights)
	assert.InDelta(t, len(prompt)+len(got.ids), s.KVTokens(), 1)
	return got
}

// TestRunAhead: a device that runs ahead gives the tokens of one that does not, to the last bit of their confidence, also
// where escalations, branches and rollbacks want other tokens than the best ones at any position.
func TestRunAhead(t *testing.T) {
	edge, large := random(t, Options{Backend: aGPU()}, 4), random(t, Options{}, 5)
	cloud, err := large.Serve(ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	routes := map[string]Route{"local": {}}
	for branches := range 4 {
		r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.25), Seed: 2})
		require.NoError(t, err)
		route := Route{Router: r, Cloud: cloud.Local(uint64(branches)), Draft: DraftOptions{Deadline: -1, Branches: branches}}
		if branches == 0 {
			route.Draft.Mode = Serial
		}
		routes[fmt.Sprintf("%d branches", branches)] = route
	}
	learned, err := router.New(router.Options{Policy: router.Learned, Threshold: new(0.5), Net: randomNet(t, 256)})
	require.NoError(t, err)
	routes["learned"] = Route{Router: learned, Cloud: cloud.Local(9), Draft: DraftOptions{Deadline: -1, Branches: 2}}
	const tokens = 24
	s, err := edge.NewSession()
	require.NoError(t, err)
	for name, r := range routes {
		t.Run(name, func(t *testing.T) {
			r.Request = Request{MaxTokens: tokens, IgnoreEnd: true}
			s.ahead.depth = 0
			want := read(t, s, []int32{1, 2, 3, 4, 5}, r)
			require.Len(t, want.ids, tokens)
			require.Zero(t, s.Summary().RanAhead)
			for _, depth := range []int{1, 3} {
				s.ahead.depth = depth
				assert.Equal(t, want, read(t, s, []int32{1, 2, 3, 4, 5}, r), "depth %d", depth)
				if name == "local" {
					assert.Equal(t, tokens-2, s.Summary().RanAhead, "all but the prompt's token and the first after it")
				} else {
					assert.Positive(t, s.Summary().RanAhead)
				}
				if name == "learned" {
					assert.Contains(t, want.origins, "cloud")
					assert.Contains(t, want.origins, "edge")
				}
			}
		})
	}
}

// TestRunAheadAtTheEnd: with no room left in the context, nothing runs ahead and nothing is lost.
func TestRunAheadAtTheEnd(t *testing.T) {
	want := text{}
	for _, depth := range []int{0, 3} {
		s, err := random(t, Options{Backend: aGPU(), Context: 24}, 4).NewSession()
		require.NoError(t, err)
		s.ahead.depth = depth
		got := read(t, s, []int32{1, 2, 3}, Route{Request: Request{IgnoreEnd: true}})
		assert.Len(t, got.ids, 21)
		if depth == 0 {
			want = got
		}
		assert.Equal(t, want, got)
	}
}

// TestRunAheadStops: an end in the middle leaves the session ready for the next text.
func TestRunAheadStops(t *testing.T) {
	s, err := random(t, Options{Backend: aGPU()}, 4).NewSession()
	require.NoError(t, err)
	all := read(t, s, []int32{1, 2, 3}, Route{Request: Request{MaxTokens: 10, IgnoreEnd: true}})
	for n := range 5 {
		seen := 0
		for _, err := range s.Generate(t.Context(), []int32{1, 2, 3}, Request{IgnoreEnd: true}) {
			require.NoError(t, err)
			if seen++; seen > n {
				break
			}
		}
		assert.Empty(t, s.ahead.flights)
		assert.Equal(t, all, read(t, s, []int32{1, 2, 3}, Route{Request: Request{MaxTokens: 10, IgnoreEnd: true}}))
	}
}

// TestRunAheadTogether: sessions of one engine, and a service, share a device that runs ahead.
func TestRunAheadTogether(t *testing.T) {
	e := random(t, Options{Backend: aGPU()}, 4)
	cloud, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.3)})
	require.NoError(t, err)
	answer := func(n int) text {
		s, err := e.NewSession()
		require.NoError(t, err)
		return read(t, s, []int32{1, 2, int32(n)}, Route{
			Request: Request{MaxTokens: 12, IgnoreEnd: true}, Router: r, Cloud: cloud.Local(uint64(n)), Draft: DraftOptions{Deadline: -1, Branches: 1 + n},
		})
	}
	var alone, together [3]text
	for n := range alone {
		alone[n] = answer(n)
	}
	var all sync.WaitGroup
	for n := range together {
		all.Go(func() { together[n] = answer(n) })
	}
	all.Wait()
	assert.Equal(t, alone, together)
}

// TestRunAheadSampled: what is drawn is drawn from the same numbers, and nothing runs ahead of it.
func TestRunAheadSampled(t *testing.T) {
	e := random(t, Options{Backend: aGPU()}, 4)
	s, err := e.NewSession()
	require.NoError(t, err)
	r := Route{Request: Request{MaxTokens: 12, IgnoreEnd: true, Sampling: sample.Options{Temperature: 1, TopK: 20, Seed: 3}}}
	want := read(t, s, []int32{1, 2, 3}, r)
	assert.Zero(t, s.Summary().RanAhead)
	s.ahead.depth = 0
	assert.Equal(t, want, read(t, s, []int32{1, 2, 3}, r))
}

// TestCloseAhead: Close while the device runs ahead, from within the loop and from beside it, at any token: the text
// ends with ErrClosed, and what ran ahead is waited for.
func TestCloseAhead(t *testing.T) {
	for n := range 6 {
		for _, inside := range []bool{true, false} {
			e := random(t, Options{Backend: aGPU()}, 4)
			s, err := e.NewSession()
			require.NoError(t, err)
			r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.3)})
			require.NoError(t, err)
			cloud, err := e.Serve(ServeOptions{})
			require.NoError(t, err)
			route := Route{Request: Request{IgnoreEnd: true}}
			if n%2 == 1 {
				route.Router, route.Cloud, route.Draft = r, cloud.Local(1), DraftOptions{Deadline: -1, Branches: 3}
			}
			var all sync.WaitGroup
			seen, last := 0, error(nil)
			for _, last = range s.Routed(t.Context(), []int32{1, 2, 3}, route) {
				if seen++; seen != n+1 {
					continue
				}
				if inside {
					assert.NoError(t, e.Close())
				} else {
					all.Go(func() { assert.NoError(t, e.Close()) })
				}
			}
			all.Wait()
			assert.ErrorIs(t, last, ErrClosed)
			assert.Empty(t, s.ahead.flights)
			cloud.Close()
		}
	}
}

// TestSettleAfterClose: keys and values that would have to move are left alone when the device is gone.
func TestSettleAfterClose(t *testing.T) {
	e := random(t, Options{Backend: aGPU()}, 4)
	s, err := e.NewSession()
	require.NoError(t, err)
	slot, err := s.cache.Alloc(5)
	require.NoError(t, err)
	require.NotZero(t, slot, "it would have to be copied")
	require.NoError(t, e.Close())
	assert.Empty(t, s.settle(slot))
	assert.Zero(t, s.cache.Len())
	s.stopAhead()
}
