package routing

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// pair holds the demo's two models, and the large one's file.
type pair struct {
	edge, large *engine.Engine
	file        string
}

// openModel opens a model of the demo for the time of the test.
func openModel(t testing.TB, b []byte) *engine.Engine {
	t.Helper()
	f, err := gguf.Parse(b)
	require.NoError(t, err)
	e, err := engine.New(f, "demo", engine.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

func openPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{edge: openModel(t, demo.Small()), large: openModel(t, demo.Large()),
		file: filepath.Join(t.TempDir(), "large.gguf")}
	require.NoError(t, os.WriteFile(p.file, demo.Large(), 0o600))
	return p
}

// serving starts an engine of a dialect that serves the large model.
func (p *pair) serving(t testing.TB, dialect string) *fakeengine.Engine {
	t.Helper()
	tokens, err := p.large.Tokenizer()
	require.NoError(t, err)
	var pieces [][]byte
	special := int32(tokens.Used())
	for id := range int32(tokens.Used()) {
		if tokens.IsControl(id) {
			special = min(special, id)
			pieces = append(pieces, []byte(tokens.Text(id)))
		} else {
			pieces = append(pieces, tokens.Bytes(id))
		}
	}
	encode := func(text string) []int32 { return tokens.Encode(text, true) }
	var known sync.Map // texts repeat in each mode
	return &fakeengine.Engine{Dialect: dialect, Vocabulary: fakeengine.VocabularyOf(pieces, special, encode),
		Model: func(ids []int32) []float64 {
			text := fmt.Sprint(ids)
			if all, ok := known.Load(text); ok {
				return all.([]float64)
			}
			logits, top, err := p.large.Logits(context.Background(), ids, 1)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			sum := 0.0
			for _, l := range logits {
				sum += math.Exp(float64(l - top[0].Logit))
			}
			all := make([]float64, len(pieces))
			for i := range all {
				all[i] = float64(logits[i]-top[0].Logit) - math.Log(sum)
			}
			known.Store(text, all)
			return all
		}}
}

// stage returns the way to a gateway with engines.
func (p *pair) stage(t *testing.T, o engine.UpstreamOptions) *remote.Stage {
	t.Helper()
	u, err := engine.OpenUpstream(t.Context(), p.file, o)
	require.NoError(t, err)
	t.Cleanup(u.Close)
	return openStage(t, p.edge, p.large, remote.StageOptions{RTT: 2 * time.Millisecond, Upstream: u})
}

// said holds a text and the origins of its tokens.
type said struct {
	ids     []int32
	origins []string
	ended   bool
	sum     draft.Summary
}

// prompt returns a question of the demo as tokens.
func (p *pair) prompt(t *testing.T, text string) []int32 {
	t.Helper()
	ids, err := p.edge.Chat(tokenizer.Message{Role: "user", Content: text})
	require.NoError(t, err)
	return ids
}

// decode answers a question of the demo; tokens with a confidence below the threshold are escalated.
func (p *pair) decode(t *testing.T, cloud draft.Cloud, text string, threshold float64, o draft.Options) (s said) {
	t.Helper()
	session, err := p.edge.NewSession()
	require.NoError(t, err)
	r, err := router.New(router.Options{Policy: router.Margin, Threshold: &threshold})
	require.NoError(t, err)
	o.Audit, o.Branches = true, 2
	o.Deadline = cmp.Or(o.Deadline, -1) // without deadlines, so that texts are equal on a busy machine, too
	route := engine.Route{Settings: terms.Settings{MaxTokens: 64}.With(o.Sampling), Router: r,
		Cloud: cloud, Draft: o}
	for token, err := range session.Routed(t.Context(), p.prompt(t, text), route) {
		require.NoError(t, err)
		s.ids, s.origins = append(s.ids, token.ID), append(s.origins, string(token.Origin))
	}
	s.sum = session.Summary().Routing
	s.ended = session.Summary().Stop == "end"
	return s
}

// local returns the built-in engine without a network.
func (p *pair) local(t *testing.T) draft.Cloud {
	t.Helper()
	service, err := p.large.Serve(engine.ServeOptions{Slots: 4096})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	return service.Local(1)
}

// TestUpstreamEqualsBuiltIn: over the gateway and HTTP, in each dialect, the large model gives the same tokens as with
// the built-in engine, in each mode.
func TestUpstreamEqualsBuiltIn(t *testing.T) {
	p := openPair(t)
	built := p.local(t)
	questions := demo.Questions(demo.HeldOut)[:2]
	dialects := []string{"llama", "sglang", "vllm"}
	if testing.Short() { // the race detector makes the model ten times slower
		questions, dialects = questions[:1], dialects[:1]
	}
	for _, dialect := range dialects {
		server := httptest.NewServer(p.serving(t, dialect))
		defer server.Close()
		s := p.stage(t, engine.UpstreamOptions{URLs: []string{server.URL}})
		cloud, end, err := s.Dial(t.Context(), 0)
		require.NoError(t, err)
		defer end()
		asked, audited := 0, 0
		for _, q := range questions {
			want := p.decode(t, built, q.Text, 0.8, draft.Options{Mode: draft.Serial})
			for _, mode := range []draft.Mode{draft.Serial, draft.Pipelined} {
				have := p.decode(t, cloud, q.Text, 0.8, draft.Options{Mode: mode})
				require.Equal(t, want.ids, have.ids, dialect)
				require.Equal(t, want.origins, have.origins, dialect)
				asked, audited = asked+have.sum.Answered, audited+have.sum.Audited
				if dialect == "sglang" && mode == draft.Serial {
					assert.Equal(t, want.sum.Audited, have.sum.Audited)
					assert.Equal(t, want.sum.Missed, have.sum.Missed)
				}
			}
		}
		assert.Greater(t, asked, 2*len(questions), dialect)
		assert.Equal(t, dialect != "llama", audited > 0, dialect)
	}
}

// TestUpstreamDraws: with a temperature, and an engine with rounding errors that differ each time, pipelined decoding
// gives the tokens of serial decoding, in any order of arrival.
func TestUpstreamDraws(t *testing.T) {
	racing.Spare(t)
	p := openPair(t)
	e := p.serving(t, "sglang")
	exact, turn := e.Model, atomic.Uint64{}
	e.Model = func(ids []int32) []float64 {
		all := slices.Clone(exact(ids))
		r := rand.New(rand.NewPCG(turn.Add(1), 1))
		for i := range all {
			all[i] += 0.2*r.Float64() - 0.2 // larger than the errors of any engine, to be visible
		}
		return all
	}
	server := httptest.NewServer(e)
	defer server.Close()
	u, err := engine.OpenUpstream(t.Context(), p.file, engine.UpstreamOptions{URLs: []string{server.URL}})
	require.NoError(t, err)
	t.Cleanup(u.Close)
	s := openStage(t, p.edge, p.large, remote.StageOptions{RTT: 2 * time.Millisecond, Upstream: u})
	questions := demo.Questions(demo.HeldOut)[:3]
	if testing.Short() {
		questions = questions[:1]
	}
	for i, q := range questions {
		modes := []draft.Mode{draft.Serial, draft.Pipelined, draft.Serial}
		if i%2 == 1 {
			modes = []draft.Mode{draft.Pipelined, draft.Serial, draft.Pipelined}
		}
		var first said
		for n, mode := range modes {
			cloud, end, err := s.Dial(t.Context(), n) // a new device of the same client
			require.NoError(t, err)
			have := p.decode(t, cloud, q.Text, 1, draft.Options{Mode: mode, Sampling: terms.Sampling{
				Temperature: 0.8, TopK: 20, Seed: uint64(i)}})
			end()
			if n == 0 {
				first = have
				assert.Greater(t, have.sum.Answered, 3)
			}
			require.Equal(t, first.ids, have.ids)
			require.Equal(t, first.origins, have.origins)
		}
	}
	assert.Positive(t, u.Stats().Repeats)
}

// TestUpstreamFails: if the engine fails in the middle of texts, each text is still complete, and the tokens that the
// engine did not give are marked as the small model's.
func TestUpstreamFails(t *testing.T) {
	p := openPair(t)
	write := func(status int, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request){
		"broken":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"hangs":     func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"503":       write(503, ""),
		"garbage":   write(200, "\x00\xff{{{"),
		"half":      write(200, `{"tokens":[5`),
		"no id":     write(200, `{"tokens":[768]}`),
		"too large": write(200, `{"tokens":[1e99]}`),
	} {
		t.Run(name, func(t *testing.T) {
			var on atomic.Bool
			e := p.serving(t, "llama")
			e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if on.Load() {
					fault(w, r)
				}
				return on.Load()
			}
			server := httptest.NewServer(e)
			defer server.Close()
			s := p.stage(t, engine.UpstreamOptions{URLs: []string{server.URL}})
			cloud, end, err := s.Dial(t.Context(), 0)
			require.NoError(t, err)
			defer end()
			questions := demo.Questions(demo.HeldOut)[:4]
			o := draft.Options{Mode: draft.Pipelined, Deadline: 200 * time.Millisecond, Breaker: new(draft.Breaker)}
			lost := 0
			for i, q := range questions {
				on.Store(i == 1 || i == 2)
				have := p.decode(t, cloud, q.Text, 0.8, o)
				assert.True(t, have.ended || len(have.ids) == 64, "complete")
				timeouts := 0
				for _, origin := range have.origins {
					if origin == string(draft.EdgeTimeout) {
						timeouts++
					}
				}
				assert.Equal(t, have.sum.Timeouts, timeouts)
				if lost += timeouts; on.Load() {
					assert.Zero(t, have.sum.Answered)
				}
			}
			assert.Positive(t, lost)
		})
	}
}
