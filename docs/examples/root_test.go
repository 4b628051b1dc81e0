package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// demoModel opens one of the demo's models until the test ends.
func demoModel(t *testing.T, file []byte) *pilotfish.Model {
	t.Helper()
	m, err := pilotfish.Load(file, "demo.gguf", pilotfish.Options{Context: 512})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// TestText: the text of an answer, and the partial text before an error.
func TestText(t *testing.T) {
	errCut := errors.New("cut")
	answer := func(err error) iter.Seq2[pilotfish.Token, error] {
		return func(yield func(pilotfish.Token, error) bool) {
			_ = yield(pilotfish.Token{Text: "a "}, nil) && yield(pilotfish.Token{}, nil) &&
				yield(pilotfish.Token{Text: "text"}, nil) && err != nil && yield(pilotfish.Token{Text: "no"}, err)
		}
	}
	got, err := pilotfish.Text(answer(nil))
	assert.NoError(t, err)
	assert.Equal(t, "a text", got)
	got, err = pilotfish.Text(answer(errCut))
	assert.ErrorIs(t, err, errCut)
	assert.Equal(t, "a text", got)
}

// picker takes the best token and never escalates; it reports the number of candidates that it gets.
type picker struct{ shown func(n int) }

func (p picker) Pick(h pilotfish.Head) int32 {
	p.shown(len(h.Best))
	return h.Best[0].ID
}

func (p picker) Decide(h pilotfish.Head) pilotfish.Decision {
	p.shown(len(h.Best))
	return pilotfish.Decision{Confidence: 1}
}

// TestBest: samplers, routers and watchers get the requested number of candidates, and two by default.
func TestBest(t *testing.T) {
	m := demoModel(t, demo.Small())
	service, err := demoModel(t, demo.Large()).Serve(pilotfish.ServeOptions{Tokens: 1024})
	require.NoError(t, err)
	defer service.Close()
	for _, best := range []int{0, 2, 17} {
		for who, option := range map[string]func(p picker) []pilotfish.Option{
			"sampler": func(p picker) []pilotfish.Option {
				return []pilotfish.Option{pilotfish.SampleBy(p)}
			},
			"router": func(p picker) []pilotfish.Option {
				return []pilotfish.Option{pilotfish.Route{Cloud: service, Router: p, Serial: true}}
			},
			"watcher": func(p picker) []pilotfish.Option {
				return []pilotfish.Option{pilotfish.WatchHeads(func(h pilotfish.Head) { p.shown(len(h.Best)) })}
			},
		} {
			fewest, calls := 1000, 0
			p := picker{func(n int) { fewest, calls = min(fewest, n), calls+1 }}
			options := append(option(p), pilotfish.Best(best), pilotfish.MaxTokens(3))
			_, err := pilotfish.Text(m.NewSession().Generate(context.Background(), "In the barn", options...))
			require.NoError(t, err)
			assert.Positive(t, calls, who)
			assert.GreaterOrEqual(t, fewest, max(best, 2), who)
		}
	}
}

// served opens the demo's pair, with the large model as a service, until the test ends.
func served(t *testing.T) (*pilotfish.Model, *pilotfish.Service) {
	t.Helper()
	m := demoModel(t, demo.Small())
	service, err := demoModel(t, demo.Large()).Serve(pilotfish.ServeOptions{Tokens: 1024})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, service.Close()) })
	return m, service
}

// TestQuestions: an invalid question is refused by a gateway and by a service, with a clear error; the limits
// themselves are valid.
func TestQuestions(t *testing.T) {
	m, service := served(t)
	addr, pin := gateway(t)
	g, err := m.Dial(t.Context(), addr, pilotfish.DialOptions{Pin: pin})
	require.NoError(t, err)
	defer g.Close()
	vocabulary, err := m.Vocabulary()
	require.NoError(t, err)
	last := int32(vocabulary - 1)
	for name, c := range map[string]pilotfish.Cloud{"gateway": g, "service": service} {
		for want, q := range map[string]pilotfish.Question{
			"the context is empty":                             {},
			"token 1 of the context is -1: ids of this model":  {Context: []int32{1, -1}},
			"token 0 of the context is 768: ids of this model": {Context: []int32{last + 1}},
			"best: -1 tokens are not possible, 0 to 256 are":   {Context: []int32{1}, Best: -1},
			"best: 257 tokens are not possible, 0 to 256 are":  {Context: []int32{1}, Best: pilotfish.MostBest + 1},
			"temperature: NaN is not a number of at least 0": {Context: []int32{1},
				Sampling: pilotfish.Sampling{Temperature: math.NaN()}},
			"top-p: 7 is not within 0 to 1": {Context: []int32{1},
				Sampling: pilotfish.Sampling{Temperature: 1, TopP: 7}},
			"top-k: -1 is negative": {Context: []int32{1},
				Sampling: pilotfish.Sampling{TopK: -1}},
			"513 tokens are given, the large model takes 1 to 5": {Context: make([]int32, 513)},
		} {
			_, err := c.Ask(t.Context(), q)
			assert.ErrorContains(t, err, "ask: ", name)
			assert.ErrorContains(t, err, want, name)
			assert.Equal(t, len(q.Context) > 512, errors.Is(err, pilotfish.ErrContext), name)
		}
		longest := append(make([]int32, 511), last)
		a, err := c.Ask(t.Context(), pilotfish.Question{Context: longest, Best: pilotfish.MostBest})
		require.NoError(t, err, name)
		assert.Len(t, a.Best, pilotfish.MostBest, name)
		a, err = c.Ask(t.Context(), pilotfish.Question{Context: []int32{1}})
		require.NoError(t, err, name)
		assert.Empty(t, a.Best, name)
	}
}

// TestClosedParts: every use of a closed gateway, service or model returns ErrClosed.
func TestClosedParts(t *testing.T) {
	m, service := served(t)
	addr, pin := gateway(t)
	g, err := m.Dial(t.Context(), addr, pilotfish.DialOptions{Pin: pin})
	require.NoError(t, err)
	require.NoError(t, g.Close())
	require.NoError(t, service.Close())
	for name, c := range map[string]pilotfish.Cloud{"gateway": g, "service": service} {
		_, err := c.Ask(t.Context(), pilotfish.Question{Context: []int32{1}})
		assert.ErrorIs(t, err, pilotfish.ErrClosed, name)
		_, err = pilotfish.Text(m.NewSession().Generate(t.Context(), "In the barn", pilotfish.Via(c, nil)))
		assert.ErrorIs(t, err, pilotfish.ErrClosed, name)
	}
	require.NoError(t, m.Close())
	assert.ErrorIs(t, m.Check(), pilotfish.ErrClosed)
}

// TestCloseWithin: if a chat or session is closed during an answer, the next answer is refused as closed, not as busy.
func TestCloseWithin(t *testing.T) {
	m := demoModel(t, demo.Small())
	s, chat := m.NewSession(), m.NewChat(pilotfish.ChatOptions{})
	for name, c := range map[string]struct {
		ask   func() iter.Seq2[pilotfish.Token, error]
		close func() error
	}{
		"session": {func() iter.Seq2[pilotfish.Token, error] { return s.Generate(t.Context(), "One day") }, s.Close},
		"chat":    {func() iter.Seq2[pilotfish.Token, error] { return chat.Send(t.Context(), question) }, chat.Close},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range c.ask() {
				require.NoError(t, err)
				_, err = pilotfish.Text(c.ask())
				assert.ErrorIs(t, err, pilotfish.ErrBusy)
				require.NoError(t, c.close())
				_, err = pilotfish.Text(c.ask())
				assert.ErrorIs(t, err, pilotfish.ErrClosed)
				break
			}
			_, err := pilotfish.Text(c.ask())
			assert.ErrorIs(t, err, pilotfish.ErrClosed)
		})
	}
}

// TestDialAdvice: an error of Dial contains the address once, the cause, and what to do.
func TestDialAdvice(t *testing.T) {
	m := demoModel(t, demo.Small())
	addr, pin := gateway(t)
	silent, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	none := silent.LocalAddr().String()
	for name, c := range map[string]struct {
		addr string
		o    pilotfish.DialOptions
		want []string
	}{
		"no pin":      {addr, pilotfish.DialOptions{}, []string{"signed by unknown authority", "DialOptions.Pin"}},
		"another pin": {addr, pilotfish.DialOptions{Pin: strings.Repeat("12", 32)}, []string{pin, "DialOptions.Pin"}},
		"no pin at all": {addr, pilotfish.DialOptions{Pin: "zz"},
			[]string{"pin: ", "2 hexadecimal digits instead of 64"}},
		"no reply": {none, pilotfish.DialOptions{Pin: pin, Timeout: 1},
			[]string{"no reply", "is a gateway running"}},
		"no port":    {"localhost", pilotfish.DialOptions{}, []string{"missing port in address: give host:port"}},
		"no address": {"", pilotfish.DialOptions{}, []string{"missing port in address: give host:port"}},
		"wrong port": {"localhost:99999", pilotfish.DialOptions{}, []string{"invalid port: give host:port"}},
		"no time":    {addr, pilotfish.DialOptions{Timeout: -1}, []string{"timeout: -1ns is negative"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Dial(t.Context(), c.addr, c.o)
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), "dial "+c.addr+": "), err)
			assert.Equal(t, 1, strings.Count(err.Error(), "dial"), err)
			for _, want := range c.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

// leaver is a cloud that ends its goroutine.
type leaver struct{}

func (leaver) Ask(context.Context, pilotfish.Question) (pilotfish.Answer, error) {
	runtime.Goexit()
	return pilotfish.Answer{}, nil
}

// TestLeaver: a cloud that ends its goroutine instead of answering ends the answer with a clear error, also without a
// deadline, and the session stays usable.
func TestLeaver(t *testing.T) {
	s := demoModel(t, demo.Small()).NewSession()
	always, err := pilotfish.NewRouter(pilotfish.RouterOptions{Policy: "always"})
	require.NoError(t, err)
	for _, serial := range []bool{false, true} {
		_, err := pilotfish.Text(s.Generate(t.Context(), "In the barn", pilotfish.MaxTokens(8),
			pilotfish.Route{Cloud: leaver{}, Router: always, Serial: serial, Deadline: -1}))
		assert.ErrorContains(t, err, "runtime.Goexit")
		assert.NotErrorIs(t, err, context.Canceled, "the caller's context has not ended")
		_, err = pilotfish.Text(s.Generate(t.Context(), "In the barn", pilotfish.MaxTokens(2)))
		assert.NoError(t, err)
	}
}

// TestCloudTokens: the counted tokens of the large model are part of the answer, which does not include the end token.
func TestCloudTokens(t *testing.T) {
	m, service := served(t)
	always, err := pilotfish.NewRouter(pilotfish.RouterOptions{Policy: "always"})
	require.NoError(t, err)
	for _, limit := range []int{1, 5, 0} {
		chat, large := m.NewChat(pilotfish.ChatOptions{}), 0
		for tok, err := range chat.Send(t.Context(), question, pilotfish.MaxTokens(limit),
			pilotfish.Route{Cloud: service, Router: always, Deadline: -1}) {
			require.NoError(t, err)
			assert.Equal(t, pilotfish.Large, tok.Origin)
			large++
		}
		got := chat.Stats()
		assert.Equal(t, large, got.Tokens)
		assert.Equal(t, large, got.CloudTokens)
		assert.Zero(t, got.Timeouts)
		assert.Equal(t, limit == 0, got.Stop == "end", "the end token is not yielded")
	}
}

// TestRouteEvents: audits are counted, events have reasons and previews only if the route requests them.
func TestRouteEvents(t *testing.T) {
	m, service := served(t)
	assert.Positive(t, m.Threads())
	for name, c := range map[string]pilotfish.Route{
		"plain": {}, "audit": {Audit: true}, "explain": {Explain: true},
		"verify": {Verify: true, Preview: true, VerifyEvery: 4},
	} {
		t.Run(name, func(t *testing.T) {
			reasons, previews := 0, 0
			c.Cloud, c.Deadline = service, -1
			var err error
			c.Router, err = pilotfish.NewRouter(pilotfish.RouterOptions{Threshold: new(0.5)})
			require.NoError(t, err)
			chat := m.NewChat(pilotfish.ChatOptions{})
			_, err = pilotfish.Text(chat.Send(t.Context(), question, c, pilotfish.Watch(func(e pilotfish.Event) {
				if e.Token != nil && e.Token.Reason != nil {
					reasons++
				}
				if e.Preview != nil {
					previews++
				}
			})))
			require.NoError(t, err)
			require.Positive(t, chat.Stats().Asks)
			assert.Equal(t, c.Audit || c.Verify, chat.Stats().Audited > 0)
			assert.Equal(t, c.Explain, reasons > 0)
			assert.Equal(t, c.Preview, previews > 0)
		})
	}
	margin, err := pilotfish.NewRouter(pilotfish.RouterOptions{Policy: "margin"})
	require.NoError(t, err)
	_, err = pilotfish.Text(m.NewSession().Generate(t.Context(), "In the barn",
		pilotfish.Route{VerifyEvery: 4, Cloud: service, Router: margin}))
	assert.ErrorContains(t, err, "no verification")
}

// TestRefused: invalid options are refused by the check and by the answer, and invalid routers when they are made.
func TestRefused(t *testing.T) {
	m := demoModel(t, demo.Small())
	for want, o := range map[string]pilotfish.Option{
		"best: -1 tokens are not possible":    pilotfish.Best(-1),
		"there is no token -5 to add a bias":  pilotfish.Settings{LogitBias: map[int32]float32{-5: 1, 3: 1}},
		"there is no token 768 to add a bias": pilotfish.Settings{LogitBias: map[int32]float32{768: 1}},
		"must not be negative, but is -1":     pilotfish.MaxTokens(-1),
	} {
		assert.ErrorContains(t, m.Check(o), want)
		_, err := pilotfish.Text(m.NewSession().Generate(t.Context(), "In the barn", o))
		assert.ErrorContains(t, err, want)
	}
	assert.NoError(t, m.Check(pilotfish.Settings{LogitBias: map[int32]float32{0: 1, 767: -1}}))
	for _, o := range []pilotfish.RouterOptions{
		{Policy: "always", Budget: 0.5}, {Policy: "never", Threshold: new(0.5)}, {Policy: "value"}, {Policy: "learned"},
	} {
		_, err := pilotfish.NewRouter(o)
		assert.Error(t, err, "%+v", o)
	}
	_, err := pilotfish.Text(m.NewSession().GenerateTokens(t.Context(), make([]int32, 600)))
	assert.ErrorIs(t, err, pilotfish.ErrContext)
	_, err = pilotfish.Text(m.NewSession().GenerateTokens(t.Context(), []int32{5, 768}))
	assert.ErrorContains(t, err, "token 1 of the prompt is 768")
	_, err = pilotfish.Load(demo.Small(), "demo.gguf", pilotfish.Options{Threads: 1 << 30})
	assert.ErrorContains(t, err, "threads: 1073741824 are not possible: give 1 to 1024")
	_, err = m.Serve(pilotfish.ServeOptions{Tokens: 1 << 50})
	assert.ErrorContains(t, err, "more than this machine has memory for")
}

// TestRefusedIsClosed: of a model that is refused nothing stays open, nor of its drafter; after Close neither.
func TestRefusedIsClosed(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	large, small := file("large.gguf", demo.Large()), file("small.gguf", demo.Small())
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	var other bytes.Buffer
	require.NoError(t, synth.Tiny(recipe, 1).Write(&other, nil))
	for want, o := range map[string]pilotfish.Options{
		"drafter: ":                       {Drafter: filepath.Join(dir, "none.gguf")},
		"not a GGUF file":                 {Drafter: file("text.gguf", []byte("a text"))},
		"its tokens are not those of":     {Drafter: file("other.gguf", other.Bytes())},
		"a context of 1000000 tokens":     {Context: 1000000},
		"":                                {Drafter: small},
		"threads: 1073741824 are not pos": {Threads: 1 << 30},
	} {
		held.Same(t, func() {
			m, err := pilotfish.Open(large, o)
			if want == "" {
				require.NoError(t, err)
				_, err = pilotfish.Text(m.NewSession().Generate(t.Context(), "In the barn", pilotfish.MaxTokens(4)))
				require.NoError(t, err)
				require.NoError(t, m.Close())
				return
			}
			require.ErrorContains(t, err, want)
		})
	}
}

// voter is a cloud that always gives the same answer.
type voter struct{}

func (voter) Ask(_ context.Context, q pilotfish.Question) (pilotfish.Answer, error) {
	return pilotfish.Answer{Token: 70, Best: []pilotfish.Candidate{{ID: 70, LogProb: -0.1}, {ID: 71, LogProb: -2}}}, nil
}

// TestCloudByRules: bias and penalties also apply to the large model's candidates.
func TestCloudByRules(t *testing.T) {
	m := demoModel(t, demo.Small())
	always, err := pilotfish.NewRouter(pilotfish.RouterOptions{Policy: "always"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		settings pilotfish.Settings
		want     []int32
	}{
		"no rule":           {pilotfish.Settings{}, []int32{70, 70, 70}},
		"bias":              {pilotfish.Settings{LogitBias: map[int32]float32{70: -100}}, []int32{71, 71, 71}},
		"presence penalty":  {pilotfish.Settings{PresencePenalty: 2}, []int32{70, 71, 70}},
		"frequency penalty": {pilotfish.Settings{FrequencyPenalty: 1}, []int32{70, 70, 71}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int32
			c.settings.MaxTokens = 3
			for tok, err := range m.NewSession().GenerateTokens(t.Context(), []int32{5}, c.settings,
				pilotfish.Route{Cloud: voter{}, Router: always, Serial: true, Deadline: -1}) {
				require.NoError(t, err)
				assert.Equal(t, pilotfish.Large, tok.Origin)
				got = append(got, tok.ID)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// TestBudget: all answers with a router share its budget, in chats and sessions. A balance that is read continues it,
// and a route without a router uses the model's budget.
func TestBudget(t *testing.T) {
	m, service := served(t)
	ended := false // with an end token, which is not counted
	decode := func(r pilotfish.Router, n int) (asked, tokens int, ids []int32) {
		s, chat := m.NewSession(), m.NewChat(pilotfish.ChatOptions{})
		route := pilotfish.Route{Cloud: service, Router: r, Deadline: -1}
		for i := range n {
			answer, stats := s.Generate(t.Context(), "In the barn", pilotfish.MaxTokens(12), route), s.Stats
			if i%2 == 1 {
				answer, stats = chat.Send(t.Context(), question, pilotfish.MaxTokens(48), route), chat.Stats
			}
			for tok, err := range answer {
				require.NoError(t, err)
				ids = append(ids, tok.ID)
			}
			ended = ended || stats().Stop == "end"
			asked, tokens = asked+stats().CloudTokens, tokens+stats().Tokens
		}
		return asked, tokens, ids
	}
	router := func(b *pilotfish.Balance, budget float64) pilotfish.Router {
		r, err := pilotfish.NewRouter(pilotfish.RouterOptions{Budget: budget, Balance: b})
		require.NoError(t, err)
		return r
	}
	var whole, half pilotfish.Balance
	asked, tokens, want := decode(router(&whole, 0.2), 8)
	got := whole.Total()
	assert.True(t, ended)
	assert.Equal(t, tokens, got.Tokens)
	assert.GreaterOrEqual(t, got.Escalations, asked, "an end token counts, too")
	assert.LessOrEqual(t, got.Share(), 0.2)
	assert.Greater(t, got.Share(), 0.1)

	_, _, first := decode(router(&half, 0.2), 4)
	stored, err := json.Marshal(&half)
	require.NoError(t, err)
	var again pilotfish.Balance
	require.NoError(t, json.Unmarshal(stored, &again))
	_, _, second := decode(router(&again, 0.2), 4)
	assert.Equal(t, want[:len(first)], first)
	assert.Equal(t, half.Total().Tokens+len(second), again.Total().Tokens)
	assert.LessOrEqual(t, again.Total().Share(), 0.2)

	asked, tokens, _ = decode(nil, 10)
	assert.Positive(t, asked, "in all answers together")
	assert.LessOrEqual(t, float64(asked), 0.07*float64(tokens))
	for _, o := range []pilotfish.RouterOptions{
		{Policy: "always", Balance: &whole}, {Threshold: new(0.5), Balance: &whole}, {Budget: 0.3, Balance: &whole},
		{Balance: &whole},
	} {
		_, err := pilotfish.NewRouter(o)
		assert.ErrorContains(t, err, "balance", "%+v", o)
	}
}

// wrapped is a router of the caller that delegates most decisions.
type wrapped struct{ pilotfish.Router }

// TestWrappedBudget: a wrapped router keeps its budget in each answer, and its balance does not change.
func TestWrappedBudget(t *testing.T) {
	m, service := served(t)
	var b pilotfish.Balance
	r, err := pilotfish.NewRouter(pilotfish.RouterOptions{Budget: 0.25, Balance: &b})
	require.NoError(t, err)
	for range 3 {
		chat := m.NewChat(pilotfish.ChatOptions{})
		_, err := pilotfish.Text(chat.Send(t.Context(), question, pilotfish.MaxTokens(16),
			pilotfish.Route{Cloud: service, Router: wrapped{r}, Deadline: -1}))
		require.NoError(t, err)
		assert.LessOrEqual(t, float64(chat.Stats().CloudTokens), 0.25*float64(chat.Stats().Tokens))
		assert.Zero(t, b.Total().Tokens)
	}
}
