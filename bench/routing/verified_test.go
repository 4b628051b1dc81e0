package routing_test

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// verifiedTexts is the number of texts of each pair; `make verified` uses all.
var verifiedTexts = flag.Int("verified-texts", 16, "verified texts for each pair of models, up to 400")

// verifiedPair holds a small and a large model, texts to continue, and the max number of tokens.
type verifiedPair struct {
	edge, large *engine.Engine
	prompts     [][]int32
	maxTokens   int
}

// demoTexts returns held-out questions of the demo.
func demoTexts(t *testing.T, n int) verifiedPair {
	d := demoPairs(t, 1)[0]
	p := verifiedPair{edge: d.small.e, large: d.large.e, maxTokens: 64}
	for _, q := range demo.Questions(demo.HeldOut)[:n] {
		ids, err := p.edge.Chat(tokenizer.Message{Role: "user", Content: q.Text})
		require.NoError(t, err)
		p.prompts = append(p.prompts, ids)
	}
	return p
}

// storyTexts returns beginnings of stories, on which the models often differ.
func storyTexts(t *testing.T, n int) verifiedPair {
	d := storyPair(t, 1)[0]
	p := verifiedPair{edge: d.small.e, large: d.large.e, maxTokens: 64}
	for _, text := range beginnings(t, p.large, n, 3, map[string]bool{}) {
		ids, err := p.large.RawPrompt(text)
		require.NoError(t, err)
		p.prompts = append(p.prompts, ids)
	}
	return p
}

// each calls f with each text, several at a time, each with a new session and cloud.
func (p *verifiedPair) each(t *testing.T, stage *remote.Stage, f func(i int, s *engine.Session, far draft.Cloud)) {
	next := make(chan int, len(p.prompts))
	for i := range p.prompts {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for device := range 8 {
		all.Go(func() {
			s, err := p.edge.NewSession()
			if !assert.NoError(t, err) {
				return
			}
			far, hangUp, err := stage.Dial(t.Context(), device)
			if !assert.NoError(t, err) {
				return
			}
			defer hangUp()
			for i := range next {
				f(i, s, far)
			}
		})
	}
	all.Wait()
}

// alone returns the large model's own continuation of each text.
func (p *verifiedPair) alone(t *testing.T, sampling terms.Sampling) (all [][]int32) {
	s, err := p.large.NewSession()
	require.NoError(t, err)
	for i, prompt := range p.prompts {
		sampling.Seed = uint64(i)
		all = append(all, tokensOf(t, s.Generate(t.Context(), prompt,
			terms.Settings{MaxTokens: p.maxTokens}.With(sampling))))
	}
	return all
}

func tokensOf(t *testing.T, tokens func(func(engine.Token, error) bool)) (ids []int32) {
	for tok, err := range tokens {
		if !assert.NoError(t, err) {
			return ids
		}
		ids = append(ids, tok.ID)
	}
	return ids
}

// TestVerifiedIsTheLargeModel: with verification and no margin the text is that of the large model alone, token for
// token: greedy and sampled with shared noise, serial and pipelined, with any router, with answers ahead, and over a
// link of 300 ms that loses a fifth of the packets each way.
func TestVerifiedIsTheLargeModel(t *testing.T) {
	type weather struct {
		rtt  time.Duration
		loss float64
	}
	for name, of := range map[string]func(*testing.T, int) verifiedPair{"demo": demoTexts, "stories": storyTexts} {
		for _, w := range []weather{{}, {300 * time.Millisecond, 0.2}} {
			t.Run(fmt.Sprintf("%s, %v, loss %v", name, w.rtt, w.loss), func(t *testing.T) {
				t.Parallel() // the tests wait for the link more than they compute
				maxTokens := map[string]int{"demo": 400, "stories": 200}[name]
				n := min(*verifiedTexts, maxTokens)
				if w.rtt > 0 {
					if testing.Short() {
						t.Skip("takes minutes over a poor link: make long")
					}
					n = min((n+1)/2, 80)
				}
				p := of(t, n)
				stage, err := remote.NewStage(p.edge, p.large, remote.StageOptions{RTT: w.rtt, Loss: w.loss, Seed: 5})
				require.NoError(t, err)
				defer func() { assert.NoError(t, stage.Close()) }()
				for _, temperature := range []float64{0, 0.8} {
					p.verify(t, stage, terms.Sampling{Temperature: temperature})
				}
			})
		}
	}
}

// verify compares the texts of several ways of decoding with those of the large model alone.
func (p *verifiedPair) verify(t *testing.T, stage *remote.Stage, sampling terms.Sampling) {
	want := p.alone(t, sampling)
	ways := []draft.Options{
		{Mode: draft.Serial, VerifyEvery: 5}, {VerifyEvery: 7, Branches: 2}, {Ahead: 8, VerifyEvery: 16},
		{Branches: draft.AutoBranches, VerifyEvery: 64, Ahead: 4},
		{}, {Branches: draft.AutoBranches}, {Ahead: 8, InFlight: 2}, // with checks
	}
	counts := make([]draft.Summary, len(p.prompts))
	p.each(t, stage, func(i int, s *engine.Session, far draft.Cloud) {
		o := ways[i%len(ways)]
		o.Verify, o.Deadline, o.Audit = true, -1, true
		drawn := sampling
		drawn.Seed = uint64(i)
		r, err := router.New(router.Options{Policy: router.Margin, Threshold: new([]float64{0, 0.3, 0.6}[i%3])})
		if !assert.NoError(t, err) {
			return
		}
		route := engine.Route{
			Settings: terms.Settings{MaxTokens: p.maxTokens}.With(drawn), Router: r, Cloud: far, Draft: o,
		}
		got := tokensOf(t, s.Routed(t.Context(), p.prompts[i], route))
		assert.Equal(t, want[i], got, "text %d, %+v", i, ways[i%len(ways)])
		counts[i] = s.Summary().Routing
	})
	var turned, asks, known, unverified int
	for _, c := range counts {
		turned, asks, known = turned+c.Turned, asks+c.Asks, known+c.Known
		unverified += c.Unverified + c.Timeouts
		assert.NoError(t, c.Err)
	}
	assert.Zero(t, unverified)
	assert.Positive(t, turned, "the small model was corrected")
	t.Logf("temperature %v: %d texts, %d tokens replaced, %d asks, %d known", sampling.Temperature, len(counts), turned,
		asks, known)
}

// TestSpeculativeRounds: speculative-K drafts K tokens for each verdict of the large model, which adds one more. If the
// small model is always right, each verdict yields K+1 tokens. overlapped-K asks for the same.
func TestSpeculativeRounds(t *testing.T) {
	p := demoTexts(t, 4)
	p.edge = p.large // equal models always agree
	stage, err := remote.NewStage(p.edge, p.large, remote.StageOptions{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, stage.Close()) }()
	for _, name := range []string{"speculative-4", "overlapped-4", "speculative-1", "speculative-16"} {
		m, err := outcome.ParseMode(name)
		require.NoError(t, err)
		o := m.Draft(draft.Options{Deadline: -1})
		r, err := m.Router(router.Options{Policy: router.Always})
		require.NoError(t, err)
		p.each(t, stage, func(i int, s *engine.Session, far draft.Cloud) {
			var at []int
			route := engine.Route{Settings: terms.Settings{MaxTokens: p.maxTokens}, Router: r, Cloud: far, Draft: o}
			route.Observe = func(e engine.Event) {
				if q := e.Escalation; q != nil {
					at = append(at, q.Pos-len(p.prompts[i]))
				}
			}
			ids := tokensOf(t, s.Routed(t.Context(), p.prompts[i], route))
			var want []int
			for pos := o.VerifyEvery; pos < len(ids); pos += o.VerifyEvery + 1 {
				want = append(want, pos)
			}
			if last := len(ids); len(want) == 0 || want[len(want)-1] != last {
				want = append(want, last) // the end token
			}
			assert.Equal(t, want, at, name)
			assert.Zero(t, s.Summary().Routing.Turned)
		})
	}
}
