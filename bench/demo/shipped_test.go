package demo_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

var count = flag.Int("questions", 40, "held-out questions to measure the shipped files with")

// TestShipped measures the shipped files with held-out questions, by greedy decoding. The bounds are those in the
// demo's documentation; damaged, swapped or badly trained files fail. With -v it prints the figures that README.md has
// for -questions 400.
func TestShipped(t *testing.T) {
	if testing.Short() {
		t.Skip("all questions take a while: not with -short")
	}
	small, large := newReader(t, demo.Small()), newReader(t, demo.Large())
	route := confidence(t)

	alone, cloud := &mode{name: "small alone", edge: small}, &mode{name: "large alone", edge: large}
	modes, promised := []*mode{cloud}, []*mode{}
	for _, threshold := range []float64{0.9, 0.5, 0.6, 0.7, 0.8, 0.95} {
		top := &mode{name: fmt.Sprint("top probability < ", threshold), edge: small, cloud: large, threshold: threshold,
			confidence: probability}
		learned := &mode{name: fmt.Sprint("router < ", threshold), edge: small, cloud: large, threshold: threshold,
			confidence: route}
		if threshold == 0.9 {
			promised = append(promised, top, learned)
		}
		if threshold == 0.9 || testing.Verbose() {
			modes = append(modes, top, learned)
		}
	}
	answer(t, heldOut(), append(modes, alone))

	assert.Greater(t, alone.accuracy(), 0.05, "the small model answers some questions")
	assert.GreaterOrEqual(t, cloud.accuracy(), 0.9, "the large model answers nearly all questions")
	for _, routed := range promised {
		assert.GreaterOrEqual(t, routed.accuracy(), 1.6*alone.accuracy(), "%s: routing must pay", routed.name)
		assert.GreaterOrEqual(t, routed.accuracy(), 0.95*cloud.accuracy(),
			"%s: the router must find the uncertain tokens",
			routed.name)
		assert.LessOrEqual(t, routed.share(), 0.07, "%s: and escalate rarely", routed.name)
	}
}

// TestConfidence measures the predictions of the small model and its router for each token of the true answers.
func TestConfidence(t *testing.T) {
	p := continuation(t, heldOut(), newReader(t, demo.Small()), confidence(t))
	t.Logf("%v", p)
	assert.Greater(t, p.unsure.bestOf(4), 0.8, "one of four branches has the cloud's token")
	assert.Less(t, p.median, 0.9, "the small model is unsure of facts")
	assert.Greater(t, p.sure, 0.98, "and sure of the rest")
	assert.Greater(t, p.auc, 0.99, "the router separates right from wrong")
	assert.Less(t, p.ece, 0.01, "and its confidence is calibrated")
}

// confidence returns the confidence of the shipped router for an output.
func confidence(t *testing.T) func(backend.Output) float64 {
	net := shipped(t).Net
	return func(o backend.Output) float64 { return float64(net.Confidence(&o)) }
}

// heldOut returns the questions to measure with.
func heldOut() []demo.Question {
	all := demo.Questions(demo.HeldOut)
	return all[:min(*count, len(all))]
}

// reader evaluates one text at a time with a model.
type reader struct {
	t     *testing.T
	model *transformer.Model
	tok   *tokenizer.Tokenizer
	cache *transformer.Cache
	ids   []int32          // tokens in the cache
	said  []backend.Output // the output after each token, where it was requested
}

func newReader(t *testing.T, b []byte) *reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, b, 0o644))
	e, err := engine.Open(path, engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	cache, err := e.Model().NewCache(e.Context(), gguf.F16)
	require.NoError(t, err)
	tok, err := e.Tokenizer()
	require.NoError(t, err)
	return &reader{t: t, model: e.Model(), tok: tok, cache: cache}
}

// follow returns the outputs after the last n tokens of ids. It does not evaluate again the prefix that ids has in
// common with the text before.
func (r *reader) follow(ids []int32, n int) []backend.Output {
	first := len(ids) - n
	same := 0
	for same < min(len(r.ids), len(ids)) && r.ids[same] == ids[same] {
		same++
	}
	if same == len(ids) && !slices.ContainsFunc(r.said[first:same], unsaid) {
		return r.said[first:same]
	}
	same = min(same, first)
	r.cache.Truncate(same)
	rows, err := r.cache.Extend(ids[same:])
	require.NoError(r.t, err)
	want := backend.Want{K: 4, Hidden: true}
	for i := range n {
		want.Rows = append(want.Rows, first-same+i)
	}
	out := make([]backend.Output, n)
	require.NoError(r.t, r.model.Forward(r.t.Context(), r.cache.KV(), rows, out, want))
	r.ids = append(r.ids[:same], ids[same:]...)
	r.said = append(append(r.said[:same], make([]backend.Output, first-same)...), out...)
	return out
}

// unsaid reports that this output was not requested.
func unsaid(o backend.Output) bool { return o.Top == nil }

// prompt returns the ids before the answer.
func (r *reader) prompt(q demo.Question) []int32 {
	ids, err := r.tok.Chat([]tokenizer.Message{{Role: "user", Content: q.Text}}, nil)
	require.NoError(r.t, err)
	return ids
}

// probability returns the probability of the greedy token.
func probability(o backend.Output) float64 { return math.Exp(float64(o.Top[0].Logit - o.LogSumExp)) }

// mode is a way of decoding and its results: greedily with the model edge, and with the greedy token of cloud where the
// confidence is below the threshold. That is serial routing.
type mode struct {
	name        string
	edge, cloud *reader
	threshold   float64
	confidence  func(backend.Output) float64 // nil: never escalate

	questions, right, tokens, escalated int
}

func (m *mode) accuracy() float64 { return float64(m.right) / float64(m.questions) }
func (m *mode) share() float64    { return float64(m.escalated) / float64(m.tokens) }

func (m *mode) String() string {
	low, high := wilson(m.right, m.questions)
	return fmt.Sprintf("%-22s %d of %d right: %.3f (%.3f to %.3f), %d of %d tokens escalated: %.2f%%", m.name,
		m.right, m.questions, m.accuracy(), low, high, m.escalated, m.tokens, 100*m.share())
}

// answer decodes every question in every mode. A question goes through all modes before the next one, so that the
// common prefix of the texts is evaluated once.
func answer(t *testing.T, questions []demo.Question, modes []*mode) {
	t.Helper()
	for _, q := range questions {
		for _, m := range modes {
			m.answer(q)
		}
	}
	for _, m := range modes {
		t.Log(m)
	}
}

// answer decodes one question.
func (m *mode) answer(q demo.Question) {
	const longest = 60
	ids := m.edge.prompt(q)
	before := len(ids)
	for len(ids) < before+longest {
		out := m.edge.follow(ids, 1)[0]
		if m.confidence != nil && m.confidence(out) < m.threshold {
			out = m.cloud.follow(ids, 1)[0]
			m.escalated++
		}
		ids = append(ids, out.Top[0].ID)
		if m.edge.tok.IsEnd(out.Top[0].ID) {
			break
		}
	}
	m.questions++
	m.tokens += len(ids) - before
	if q.Correct(m.edge.tok.Decode(ids[before:])) {
		m.right++
	}
}

// wilson returns the 95% interval of a rate.
func wilson(hits, of int) (low, high float64) {
	const z = 1.96
	n, p := float64(of), float64(hits)/float64(of)
	mid, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, (mid-half)/(1+z*z/n)), min(1, (mid+half)/(1+z*z/n))
}

// portrait describes how a model continues the true answers, token by token.
type portrait struct {
	knowledge ranks   // tokens that state facts
	unsure    ranks   // tokens with a top probability below 0.9
	median    float64 // median of the top probability at facts
	sure      float64 // share of the other tokens with a top probability above 0.99
	auc, ece  float64 // of the router's confidence over all tokens
}

func (p portrait) String() string {
	return fmt.Sprintf("top probability at knowledge: median %.2f; above 0.99 at %.2f%% of the others; true token "+
		"among the 1, 2, 4 best: knowledge %v, below 0.9 %v; router: AUC %.4f, ECE %.4f",
		p.median, 100*p.sure, p.knowledge, p.unsure, p.auc, p.ece)
}

// ranks counts tokens by the rank of the true token among the choices.
type ranks struct {
	tokens int
	hits   [4]int
}

// add counts a token; rank is -1 if the true token is not among the choices.
func (r *ranks) add(rank int) {
	r.tokens++
	if rank >= 0 {
		r.hits[rank]++
	}
}

// bestOf returns the share of tokens with the true token among the k best.
func (r ranks) bestOf(k int) float64 {
	n := 0
	for _, h := range r.hits[:k] {
		n += h
	}
	return float64(n) / float64(r.tokens)
}

func (r ranks) String() string {
	return fmt.Sprintf("%.3f, %.3f, %.3f of %d", r.bestOf(1), r.bestOf(2), r.bestOf(4), r.tokens)
}

// continuation evaluates the true answers of questions with a model.
func continuation(t *testing.T, questions []demo.Question, model *reader, route func(backend.Output) float64) portrait {
	t.Helper()
	var p portrait
	var known []float64 // top probabilities at facts
	var verdicts []router.Verdict
	others, sure := 0, 0
	for _, q := range questions {
		answer := append(model.tok.Encode(q.Answer, false), model.tok.Encode("<|im_end|>", true)...)
		ids := append(model.prompt(q), answer[:len(answer)-1]...)
		for i, out := range model.follow(ids, len(answer)) {
			top := probability(out)
			rank := slices.IndexFunc(out.Top, func(c backend.Candidate) bool { return c.ID == answer[i] })
			verdicts = append(verdicts, router.Verdict{Confidence: float32(route(out)), Stands: rank == 0})
			if top < 0.9 {
				p.unsure.add(rank)
			}
			if text := model.tok.Decode(answer[i : i+1]); text != " "+q.Place && text != " "+q.Food {
				others++
				if top > 0.99 {
					sure++
				}
				continue
			}
			p.knowledge.add(rank)
			known = append(known, top)
		}
	}
	require.Equal(t, 2*len(questions), p.knowledge.tokens, "two tokens of each answer state facts")
	slices.Sort(known)
	p.median, p.sure = known[len(known)/2], float64(sure)/float64(others)
	p.auc, p.ece = router.AUC(verdicts), router.CalibrationError(router.Reliability(verdicts))
	return p
}

func TestWilson(t *testing.T) {
	low, high := wilson(9, 10)
	assert.InDelta(t, 0.596, low, 1e-3)
	assert.InDelta(t, 0.982, high, 1e-3)
}
