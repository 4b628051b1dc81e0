//go:build !noasm

package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// aGPU returns the GPU of a Mac, and elsewhere the software GPU.
func aGPU() Backend {
	if runtime.GOOS == "darwin" {
		return Metal
	}
	return Soft
}

// random opens a tiny model of random weights.
func random(t *testing.T, o Options, seed uint64) *Engine {
	t.Helper()
	e, err := New(smallest(t, func(s *synth.Spec) { s.Seed = seed }), "small", o)
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// runners open the smallest model on devices with flights: one that computes at once, and a GPU, which is slower.
var runners = map[string]func(t *testing.T, o Options) *Engine{
	"at once": func(t *testing.T, o Options) *Engine { e, _ := troubled(t, o, true); return e },
	"gpu":     func(t *testing.T, o Options) *Engine { o.Backend = aGPU(); return random(t, o, 4) },
}

// onRunners runs a test on both devices. With -short only tests that name the GPU use it.
func onRunners(t *testing.T, test func(t *testing.T, open func(o Options) *Engine)) {
	for name, open := range runners {
		t.Run(name, func(t *testing.T) {
			if name == "gpu" && testing.Short() {
				t.Skip("takes seconds: make long")
			}
			test(t, func(o Options) *Engine { return open(t, o) })
		})
	}
}

// randomNet returns a router with random weights.
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

// text holds the visible result of an answer.
type text struct {
	ids     []int32
	origins []string
	heads   []float32 // confidences
}

func read(t *testing.T, s *Session, prompt []int32, r Route) (got text) {
	t.Helper()
	stream := s.Routed(t.Context(), prompt, r)
	if r.Router == nil {
		stream = s.Generate(t.Context(), prompt, r.Settings)
	}
	for tok, err := range stream {
		require.NoError(t, err)
		got.ids, got.origins = append(got.ids, tok.ID), append(got.origins, string(tok.Origin))
		if got.heads = append(got.heads, tok.Confidence); r.Router == nil && r.Lookup < 0 {
			assert.Equal(t, len(prompt)+len(got.ids)-1, s.KVTokens(), "flights are not counted")
		}
	}
	assert.Empty(t, s.speculation.passes)
	assert.InDelta(t, len(prompt)+len(got.ids), s.KVTokens(), 1)
	return got
}

// flightRoutes returns the ways of decoding with different numbers of branches, and with the hidden states of a router.
func flightRoutes(t *testing.T, cloud *Service) map[string]Route {
	routes := map[string]Route{"local": {}}
	for branches := range 4 {
		r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.25), Seed: 2})
		require.NoError(t, err)
		route := Route{
			Router: r, Cloud: cloud.Local(uint64(branches)), Draft: DraftOptions{Deadline: -1, Branches: branches},
		}
		if branches == 0 {
			route.Draft.Mode = Serial
		}
		routes[fmt.Sprintf("%d branches", branches)] = route
	}
	learned, err := router.New(router.Options{Policy: router.Learned, Threshold: new(0.5), Net: randomNet(t, 64)})
	require.NoError(t, err)
	routes["learned"] = Route{Router: learned, Cloud: cloud.Local(9), Draft: DraftOptions{Deadline: -1, Branches: 2}}
	drawn := routes["2 branches"]
	drawn.Settings = drawn.With(terms.Sampling{Temperature: 1, TopK: 30, TopP: 0.9, Seed: 4})
	routes["2 branches, drawn"] = drawn
	return routes
}

// TestFlights: a device with flights gives the tokens of one without, to the last bit of their confidence, also where
// escalations, branches and rollbacks need other tokens than the best ones.
func TestFlights(t *testing.T) {
	racing.Spare(t)
	large := random(t, Options{Threads: 1}, 5)
	cloud, err := large.Serve(ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	routes := flightRoutes(t, cloud)
	const tokens = 24
	for device, open := range runners {
		s, err := open(t, Options{}).NewSession()
		require.NoError(t, err)
		for name, r := range routes {
			if device == "at once" && name == "learned" {
				continue // it evaluates no router, and flights have no hidden states
			}
			if device == "gpu" && testing.Short() && (name == "1 branches" || name == "3 branches") {
				continue
			}
			t.Run(device+"/"+name, func(t *testing.T) {
				r.Settings = terms.Settings{MaxTokens: tokens, IgnoreEnd: true, Lookup: -1}.With(r.Sampling())
				s.speculation.depth = 0
				want := read(t, s, []int32{1, 2, 3, 4, 5}, r)
				require.Len(t, want.ids, tokens)
				require.Zero(t, s.Summary().RanAhead)
				for _, depth := range []int{1, 3} {
					s.speculation.depth = depth
					assert.Equal(t, want, read(t, s, []int32{1, 2, 3, 4, 5}, r), "depth %d", depth)
					if name == "local" {
						assert.Equal(t, tokens-2, s.Summary().RanAhead,
							"all except the prompt's token and the first after it")
					} else {
						assert.Positive(t, s.Summary().RanAhead)
					}
					if name == "learned" {
						assert.Contains(t, want.origins, "cloud")
						assert.Contains(t, want.origins, "edge")
					}
					r.Lookup = 0
					assert.Equal(t, want, read(t, s, []int32{1, 2, 3, 4, 5}, r),
						"depth %d, with guesses from the text", depth)
					r.Lookup = -1
				}
			})
		}
	}
}

// TestFlightsAtTheEnd: at the end of the context there are no flights and nothing is lost.
func TestFlightsAtTheEnd(t *testing.T) {
	onRunners(t, func(t *testing.T, open func(o Options) *Engine) {
		want := text{}
		for _, depth := range []int{0, 3} {
			s, err := open(Options{Context: 24}).NewSession()
			require.NoError(t, err)
			s.speculation.depth = depth
			got := read(t, s, []int32{1, 2, 3}, Route{Settings: terms.Settings{IgnoreEnd: true}})
			assert.Len(t, got.ids, 21)
			if depth == 0 {
				want = got
			}
			assert.Equal(t, want, got)
		}
	})
}

// TestSpeculates: a flight needs nothing of a head that the device does not keep or cannot follow.
func TestSpeculates(t *testing.T) {
	s := &speculation{depth: 1}
	drawn := backend.Draw{Sampling: terms.Sampling{Temperature: 1}}
	for _, want := range []backend.Want{{K: 2}, {K: 2, Draw: drawn}, {Logits: true, Draw: drawn}} {
		assert.True(t, s.canSpeculate(want), "%+v", want)
	}
	for _, want := range []backend.Want{{Hidden: true}, {Logits: true}} {
		assert.False(t, s.canSpeculate(want), "%+v", want)
	}
	s.off = true
	assert.False(t, s.canSpeculate(backend.Want{K: 2}))
	assert.False(t, new(speculation).canSpeculate(backend.Want{K: 2}))
}

// TestFlightsStops: if a text ends early, the session is ready for the next one.
func TestFlightsStops(t *testing.T) {
	onRunners(t, func(t *testing.T, open func(o Options) *Engine) {
		s, err := open(Options{}).NewSession()
		require.NoError(t, err)
		assert.Equal(t, 1, s.speculation.depth, "an escalation waits for at most one useless pass")
		all := read(t, s, []int32{1, 2, 3}, Route{Settings: terms.Settings{MaxTokens: 10, IgnoreEnd: true}})
		for n := range 5 {
			seen := 0
			for _, err := range s.Generate(t.Context(), []int32{1, 2, 3}, terms.Settings{IgnoreEnd: true}) {
				require.NoError(t, err)
				if seen++; seen > n {
					break
				}
			}
			assert.Empty(t, s.speculation.passes)
			ten := Route{Settings: terms.Settings{MaxTokens: 10, IgnoreEnd: true}}
			assert.Equal(t, all, read(t, s, []int32{1, 2, 3}, ten))
		}
	})
}

// TestFlightsTogether: sessions of one engine, and a service, share a device with flights.
func TestFlightsTogether(t *testing.T) {
	e := random(t, Options{Backend: aGPU()}, 4)
	cloud, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.3)})
	require.NoError(t, err)
	answer := func(n int) text {
		s := session(t, e)
		return read(t, s, []int32{1, 2, int32(n)}, Route{
			Settings: terms.Settings{MaxTokens: 8, IgnoreEnd: true}, Router: r, Cloud: cloud.Local(uint64(n)),
			Draft: DraftOptions{Deadline: -1, Branches: 1 + n},
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

// anySampling returns a random request for sampling, with or without each of the rules that a device can guess with.
func anySampling(r *rand.Rand) terms.Settings {
	q := terms.Settings{IgnoreEnd: true, Lookup: -1, MaxTokens: 30} // with the prompt's token, 28 can be in flight
	q.Temperature, q.Seed = []float64{0.3, 0.7, 1, 1.5}[r.IntN(4)], r.Uint64()
	q.TopK = []int{0, 0, 2, 20, 40, 64, 100}[r.IntN(7)]
	q.TopP = []float64{0, 0.5, 0.8, 0.95}[r.IntN(4)]
	q.MinP = []float64{0, 0, 0.05, 0.2}[r.IntN(4)]
	return q
}

// TestFlightsSampled: sampled texts are the same with and without flights, to the last bit of their confidence, for all
// rules, and on a GPU as well. Nearly all tokens are in flight when they are needed, and most if more tokens can be
// sampled than the candidates that a GPU finds. A device that guesses wrong sometimes or always does not change the
// texts.
func TestFlightsSampled(t *testing.T) {
	reference, err := small(t, Options{Exact: true}, nil).NewSession()
	require.NoError(t, err)
	onRunners(t, func(t *testing.T, open func(o Options) *Engine) {
		e := open(Options{KV: KVF32})
		s := session(t, e)
		// by whether the device has all candidates
		r, held, all := rand.New(rand.NewPCG(7, 9)), map[bool]int{}, map[bool]int{}
		for n := range 16 {
			route := Route{Settings: anySampling(r)}
			prompt := []int32{1, 2, int32(3 + n)}
			s.speculation.depth = 0
			want := read(t, s, prompt, route)
			assert.Zero(t, s.Summary().RanAhead+s.Summary().RanInVain)
			for _, depth := range []int{1, 3} {
				s.speculation.depth = depth
				assert.Equal(t, want, read(t, s, prompt, route), "depth %d, %+v", depth, route.Settings)
				sum := s.Summary()
				assert.Equal(t, 28, sum.RanAhead+sum.RanInVain, "all except the prompt's token and the first after it")
				o := route.Settings
				knows := o.TopK > 0 && o.TopK <= 64 || o.TopK == 0 && o.TopP == 0 && route.MinP == 0
				held[knows], all[knows] = held[knows]+sum.RanAhead, all[knows]+28
				for _, wrong := range []int{1, 5} {
					d, ok := e.device.(eager)
					if !ok {
						break
					}
					d.wrong = wrong
					assert.Equal(t, want, read(t, s, prompt, route), "one of %d guesses is wrong", wrong)
					assert.Positive(t, s.Summary().RanInVain)
					d.wrong = 0
				}
			}
			if _, ok := e.device.(*gpu.Device); ok {
				assert.Equal(t, want.ids, read(t, reference, prompt, route).ids, "%+v", route.Settings)
			}
		}
		t.Logf("%d of %d guesses accepted, and %d of %d without all candidates", held[true], all[true], held[false],
			all[false])
		assert.GreaterOrEqual(t, 100*held[true], 99*all[true])
		assert.GreaterOrEqual(t, 100*held[false], 90*all[false])
	})
}

// TestFlightsNotGuessed: no token is in flight if a device cannot predict the sampled token: with penalties, a bias, a
// schema, or a sampler of the caller. The texts are those without flights.
func TestFlightsNotGuessed(t *testing.T) {
	e, _ := troubled(t, Options{}, true)
	s := session(t, e)
	drawn := terms.Sampling{Temperature: 1, Seed: 3, TopK: 20}
	for name, r := range map[string]Route{
		"penalty": {Settings: terms.Settings{RepeatPenalty: 1.5}.With(drawn)},
		"bias":    {Settings: terms.Settings{LogitBias: map[int32]float32{7: 3}}.With(drawn)},
		"JSON":    {Settings: terms.Settings{JSON: true}.With(drawn)},
		"pick": {Settings: terms.Settings{}.With(drawn),
			Pick: func(_ int, _ []int32, o *backend.Output) int32 { return o.Top[0].ID }},
	} {
		r.MaxTokens, r.IgnoreEnd, r.Lookup = 10, !r.JSON, -1
		tokens(t, s, []int32{1, 2, 3}, r)
		assert.Zero(t, s.Summary().RanAhead+s.Summary().RanInVain, name)
	}
}

// TestEscalationWaitsForOne: with sampling and a router that sometimes escalates, at most one pass is in flight after
// the one that is waited for. Texts and origins are those without flights.
func TestEscalationWaitsForOne(t *testing.T) {
	e, d := troubled(t, Options{}, true)
	large := random(t, Options{Threads: 1}, 5)
	cloud, err := large.Serve(ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	s := session(t, e)
	for n, mode := range []DraftOptions{{Mode: Serial}, {Branches: 1}, {Branches: 3}} {
		r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.25), Seed: 2})
		require.NoError(t, err)
		mode.Deadline = -1
		route := Route{Router: r, Cloud: cloud.Local(uint64(n)), Draft: mode, Settings: terms.Settings{
			MaxTokens: 30, IgnoreEnd: true, Lookup: -1,
			Temperature: 1, Seed: uint64(n), TopK: 30, TopP: 0.9,
		}}
		s.speculation.depth = 0
		want := read(t, s, []int32{1, 2, 3}, route)
		assert.Contains(t, want.origins, "cloud")
		s.speculation.depth, d.maxOpen = speculationDepth, 0
		assert.Equal(t, want, read(t, s, []int32{1, 2, 3}, route))
		assert.Equal(t, 2, d.maxOpen, "the pass that is waited for, and one more")
		assert.Positive(t, s.Summary().RanAhead)
	}
}

// TestCloseInFlight: if Close is called while tokens are in flight, in the loop or concurrently, at any token, the text
// ends with ErrClosed, and Close waits for flights.
func TestCloseInFlight(t *testing.T) {
	for name, open := range runners {
		for n := range 6 {
			for _, inside := range []bool{true, false} {
				if name == "gpu" && testing.Short() && n != 4-n%2*3 {
					continue // one with and one without a router
				}
				closeInFlight(t, open(t, Options{}), n, inside)
			}
		}
	}
}

func closeInFlight(t *testing.T, e *Engine, n int, inside bool) {
	s := session(t, e)
	r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.3)})
	require.NoError(t, err)
	cloud, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer cloud.Close()
	route := Route{Settings: terms.Settings{IgnoreEnd: true}}
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
			<-e.closing.Done()
		}
	}
	all.Wait()
	assert.ErrorIs(t, last, ErrClosed)
	assert.Empty(t, s.speculation.passes)
}

// TestSettleAfterClose: keys and values are not moved after the device is closed.
func TestSettleAfterClose(t *testing.T) {
	e, _ := troubled(t, Options{}, true)
	s := session(t, e)
	slot, err := s.cache.Alloc(5)
	require.NoError(t, err)
	require.NotZero(t, slot, "it would have to be copied")
	require.NoError(t, e.Close())
	assert.Empty(t, s.speculation.settleSlots(s.cache, slot))
	assert.Zero(t, s.cache.Len())
	s.speculation.stopPasses(s.cache)
}

// TestGPU: the software device has the requested variant, and a GPU reports its work.
func TestGPU(t *testing.T) {
	if aGPU() != Soft {
		t.Skip("for the software device")
	}
	for name, want := range map[Backend]string{"soft": "(fast)", "soft:check": "(check)"} {
		e := random(t, Options{Backend: name, Context: 16}, 4)
		assert.Contains(t, e.Device(), want)
		assert.Equal(t, runtime.GOMAXPROCS(0), e.Threads())
		_, _, err := e.Logits(t.Context(), []int32{1, 2}, 1)
		require.NoError(t, err)
		did, ok := e.LastEncoded()
		require.True(t, ok)
		last := e.device.(*gpu.Device).LastPass()
		assert.Equal(t, last, did)
		assert.Greater(t, did.Levels, 10)
	}
}
