package pilotfish

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestAdvice: an error of connecting has its cause and what to do about it, once; other errors stay as they are.
func TestAdvice(t *testing.T) {
	const fingerprint = ", which `pilotfish cloud` prints where the gateway runs)"
	refusal := netproto.Refusal{Code: netproto.Busy, Detail: "64 connections"}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"another pin": {&engine.PinError{}, (&engine.PinError{}).Error() +
			" (if the gateway has a new certificate, set DialOptions.Pin to its fingerprint" + fingerprint},
		"an unknown certificate": {&tls.CertificateVerificationError{Err: errors.New("unknown")},
			"tls: failed to verify certificate: unknown (set DialOptions.Pin to the fingerprint of its certificate" +
				fingerprint},
		"an unknown host": {&net.DNSError{Err: "no such host", Name: "h"},
			"lookup h: no such host (is the name of the host right?)"},
		"a wrong secret": {netproto.WrongSecret, netproto.WrongSecret.Error() +
			" (set DialOptions.Token to the access token of the gateway)"},
		"another tokenizer": {netproto.WrongTokenizer, netproto.WrongTokenizer.Error() +
			" (open a small model of the same family as the gateway's)"},
		"another version": {netproto.WrongVersion, netproto.WrongVersion.Error() +
			" (use the same version of pilotfish here and there)"},
		"no reply": {io.ErrUnexpectedEOF,
			"unexpected EOF (is a gateway running there, and does its UDP port let this machine in?)"},
		"a refusal": {refusal, "no connection to the gateway at h:1: " + refusal.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			got := addConnectAdvice(&ConnectError{Addr: "h:1", Err: c.err})
			assert.EqualError(t, got, c.want)
			assert.ErrorIs(t, got, c.err)
			assert.ErrorAs(t, got, new(*ConnectError))
		})
	}
	assert.Equal(t, io.EOF, addConnectAdvice(io.EOF))
	assert.EqualError(t, addConnectAdvice(&net.AddrError{Err: "missing port in address", Addr: "h"}),
		"missing port in address: give host:port, such as gpu.example.org:4433")
}

// headFor returns an output of a model for rows of the demo's width.
func headFor(seed uint64) backend.Output {
	r := rand.New(rand.NewPCG(seed, 1))
	out := backend.Output{Entropy: 3 * r.Float32(), Hidden: make([]float32, 128)}
	sum := 0.1
	for id := range int32(4) {
		logit := 5 - r.Float32() - float32(id)
		out.Top = append(out.Top, backend.Candidate{ID: id, Logit: logit})
		sum += math.Exp(float64(logit))
	}
	out.LogSumExp = float32(math.Log(sum))
	for i := range out.Hidden {
		out.Hidden[i] = r.Float32() - 0.5
	}
	return out
}

// TestDecisionOfHead: a router that a caller's router asks about a head decides as it does about the output of the
// model, with the state of the decision before.
func TestDecisionOfHead(t *testing.T) {
	f, err := gguf.Parse(demo.Router())
	require.NoError(t, err)
	file, err := router.Read(f)
	require.NoError(t, err)
	for _, o := range []router.Options{{Policy: router.Margin}, {Policy: router.Entropy},
		{Policy: router.Random, Seed: 3}, {Policy: router.Learned, Net: file.Net}} {
		o.Budget = 0.3
		r, err := router.New(o)
		require.NoError(t, err)
		state, asks, confidences := uint64(0), map[bool]int{}, map[float32]bool{}
		for pos := range 60 {
			out := headFor(uint64(pos))
			confidence, ask, next := r.Decide(state, pos, &out)
			h := headOf(pos, &out)
			h.State = state
			got := policy{r}.Decide(h)
			assert.InDelta(t, confidence, got.Confidence, 1e-5, o.Policy)
			assert.Equal(t, ask, got.Ask, o.Policy)
			assert.Equal(t, next, got.State, o.Policy)
			state = next
			asks[ask]++
			confidences[confidence] = true
		}
		assert.Len(t, asks, 2, "both decisions")
		assert.Greater(t, len(confidences), 30)
	}
}

// asker is a router and a sampler of the caller, which records what it gets.
type asker struct{ got *[]Head }

func (a asker) Decide(h Head) Decision {
	*a.got = append(*a.got, h)
	return Decision{Confidence: 0.25, Ask: true, State: h.State + 1}
}

func (a asker) Pick(h Head) int32 {
	*a.got = append(*a.got, h)
	return 77
}

// TestHooks: all functions of the caller are called, in the order of the options, with what the model said.
func TestHooks(t *testing.T) {
	var calls []string
	var heads []Head
	said := func(name string) func(Event) { return func(Event) { calls = append(calls, name) } }
	saw := func(name string) func(Head) {
		return func(h Head) { calls, heads = append(calls, name), append(heads, h) }
	}
	own := asker{&heads}
	route := func(options ...Option) engine.Route {
		made, err := new(Model).engineRoute(newRequest(options), nil)
		require.NoError(t, err)
		return made
	}
	out := headFor(5)
	want := Head{Pos: 9, Best: out.LogProbs(4), Entropy: float64(out.Entropy), Hidden: out.Hidden,
		Margin: math.Exp(float64(out.Top[0].Logit-out.LogSumExp)) - math.Exp(float64(out.Top[1].Logit-out.LogSumExp))}
	made := route(Watch(said("a")), WatchHeads(saw("b")), Watch(said("c")), WatchHeads(saw("d")), SampleBy(own),
		Best(5))
	made.Observe(engine.Event{})
	made.Head(9, &out)
	assert.Equal(t, []string{"a", "c", "b", "d"}, calls)
	assert.Equal(t, int32(77), made.Pick(9, []int32{3, 4}, &out))
	require.Len(t, heads, 3)
	assert.InDelta(t, want.Margin, heads[0].Margin, 1e-6)
	want.Margin = heads[0].Margin
	assert.Equal(t, []Head{want, want}, heads[:2])
	want.Answer = []int32{3, 4}
	assert.Equal(t, want, heads[2])
	assert.Equal(t, backend.Want{K: 5, Hidden: true}, made.Want(backend.Want{K: 1}))
	assert.Equal(t, backend.Want{K: 6, Hidden: true}, made.Want(backend.Want{K: 6}), "as many as are needed anyway")
	assert.Equal(t, backend.Want{K: 2, Hidden: true}, route(SampleBy(own)).Want(backend.Want{}))
	assert.Equal(t, backend.Want{K: 4, Hidden: true}, route(WatchHeads(saw("b")), Best(4)).Want(backend.Want{K: 1}))

	heads = nil
	made = route(Route{Cloud: &Gateway{}, Router: own}, Best(3))
	assert.Nil(t, made.Router)
	assert.Equal(t, backend.Want{K: 3, Hidden: true}, made.Decider.Want(backend.Want{}))
	confidence, ask, next := made.Decider.Decide(41, 9, &out)
	assert.Equal(t, float32(0.25), confidence)
	assert.True(t, ask)
	assert.EqualValues(t, 42, next, "the next state")
	want.Answer, want.State = nil, 41
	assert.Equal(t, []Head{want}, heads)
	none := route()
	assert.True(t, none.Observe == nil && none.Head == nil && none.Pick == nil && none.Want == nil)
}

// listener is a cloud of the caller that records the questions.
type listener struct{ got []Question }

func (l *listener) Ask(_ context.Context, q Question) (Answer, error) {
	l.got = append(l.got, q)
	return Answer{Token: 70, Best: []Candidate{{ID: 70, LogProb: -0.5}}}, nil
}

// TestQuestionsOfAnswer: a cloud of the caller gets the text, how a token is chosen, and how many tokens are wanted.
func TestQuestionsOfAnswer(t *testing.T) {
	m := loaded(t, demo.Small())
	always, err := NewRouter(RouterOptions{Policy: "always"})
	require.NoError(t, err)
	drawn := Settings{MaxTokens: 3, Seed: 9, Temperature: 0.5, TopK: 7, TopP: 0.75}
	for best, settings := range map[int]Settings{0: {MaxTokens: 3}, 1: drawn} {
		cloud, s := &listener{}, m.NewSession()
		route := Route{Cloud: cloud, Router: always, Serial: true, Deadline: -1, Explain: best == 1}
		var text []int32
		for tok, err := range s.GenerateTokens(t.Context(), []int32{5, 6}, settings, route) {
			require.NoError(t, err)
			text = append(text, tok.ID)
		}
		assert.Equal(t, []int32{70, 70, 70}, text)
		require.Len(t, cloud.got, 3)
		for i, q := range cloud.got {
			assert.Equal(t, append([]int32{5, 6}, text[:i]...), q.Context)
			assert.Equal(t, best, q.Best)
			assert.Equal(t, newRequest([]Option{settings}).settings.Sampling(), terms.Sampling(q.Sampling))
		}
		assert.Equal(t, Receipt{Tokens: 2 + 3 + 4}, s.Stats().Receipt)
	}
}
