package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// kindOfEngine is a configuration of an engine with its properties.
type kindOfEngine struct {
	name    string
	engine  *fakeengine.Engine
	audit   netproto.Audit
	choices int
	context int // max context
	path    string
}

func kinds() []kindOfEngine {
	const generate, completions = "/inference/v1/generate", "/v1/completions"
	return []kindOfEngine{
		{"llama", &fakeengine.Engine{Dialect: "llama"}, netproto.NoAudit, 256, 511, "/completion"},
		{"sglang", &fakeengine.Engine{Dialect: "sglang"}, netproto.ExactAudit, 256, 504, "/generate"},
		{"vllm that gives rows", &fakeengine.Engine{Dialect: "vllm"}, netproto.ExactAudit, 20, 511, generate},
		{"vllm with its other API", &fakeengine.Engine{Dialect: "vllm", NoGenerate: true, MaxTop: 50},
			netproto.NoAudit, 50, 511, completions},
	}
}

// TestDialects: each kind is recognized, reports its features, and answers as its model does: the token, the best ones,
// and an audit of its kind. Repeated questions have the same answers.
func TestDialects(t *testing.T) {
	for _, c := range kinds() {
		t.Run(c.name, func(t *testing.T) {
			e := c.engine
			u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
			info := u.Info()
			assert.Equal(t, "fake", info.Model)
			assert.Equal(t, c.audit, info.Audit)
			assert.Equal(t, c.choices, info.Choices)
			assert.Equal(t, c.context, info.MaxContext)
			r := rand.New(rand.NewPCG(1, 2))
			for i := range many(200) {
				q := question(uint64(i%5), contextOf(r, 2+r.IntN(60)))
				q.K, q.AuditFrom = r.IntN(min(c.choices, 16)+1), r.IntN(len(q.Context)+1)
				a, err := u.Ask(t.Context(), q)
				want := truth(e, q.Context)
				require.NoError(t, err)
				require.Equal(t, want[0].ID, a.Token)
				require.Len(t, a.Top, q.K)
				for j := range a.Top {
					require.Equal(t, want[j].ID, a.Top[j].ID)
					require.InDelta(t, want[j].LogProb, a.Top[j].LogProb, 1e-6)
				}
				checkAudit(t, e, c.audit, q.Context, q.AuditFrom, a.Audited, a.Audit)
				again := mustAsk(t, u, q)
				require.Equal(t, a.Token, again.Token)
				require.Equal(t, a.Top, again.Top)
			}
			assert.EqualValues(t, u.Stats().Repeats, u.Stats().Engines[0].Answered, "each question was sent twice")
			u.Forget(1)
			assert.NotEmpty(t, e.Calls(c.path))
		})
	}
}

// checkAudit compares an audit with the choice of the model at each position.
func checkAudit(
	t *testing.T, e *fakeengine.Engine, kind netproto.Audit, context []int32, from, audited int,
	found []terms.Finding,
) {
	t.Helper()
	window := len(context) - from
	if from == 0 || window == 0 || kind == netproto.NoAudit {
		require.Zero(t, audited+len(found))
		return
	}
	if e.Dialect == "sglang" {
		require.Equal(t, window, audited, "from the requested position")
	}
	require.LessOrEqual(t, audited, window)
	var want []terms.Finding
	for pos := len(context) - audited; pos < len(context); pos++ {
		if best := truth(e, context[:pos])[0]; best.ID != context[pos] {
			want = append(want, terms.Finding{Pos: pos, Token: best.ID, LogProb: best.LogProb})
		}
	}
	require.Len(t, found, len(want))
	for i := range want {
		require.Equal(t, want[i].Pos, found[i].Pos)
		require.Equal(t, want[i].Token, found[i].Token)
		require.InDelta(t, want[i].LogProb, found[i].LogProb, 1e-6)
	}
}

// TestDrawing: with a temperature the token is sampled from exactly the best tokens.
func TestDrawing(t *testing.T) {
	for _, c := range kinds() {
		t.Run(c.name, func(t *testing.T) {
			e := c.engine
			u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
			r := rand.New(rand.NewPCG(3, 4))
			for i := range 50 {
				q := question(1, contextOf(r, 10))
				q.K = r.IntN(min(c.choices, 16) + 1)
				q.Sampling = terms.Sampling{Temperature: 1, TopK: 1 + i%c.choices, Seed: r.Uint64() >> 8}
				a := mustAsk(t, u, q)
				top := truth(e, q.Context)[:q.Sampling.TopK]
				want, _, _, _ := drawn(q.Sampling, 10, top, -1)
				require.Equal(t, want, a.Token)
				require.Len(t, a.Top, q.K)
				q.Sampling.Temperature = 0
				a = mustAsk(t, u, q)
				require.Equal(t, top[0].ID, a.Token, "greedy is a different question")
			}
		})
	}
}

// TestSalts: engines that support it have separate caches for each client, and a shared one for all sessions of a
// client. A new key changes all of them.
func TestSalts(t *testing.T) {
	for _, c := range []struct{ engine, path, field string }{
		{"sglang", "/generate", "extra_key"}, {"vllm", "/inference/v1/generate", "cache_salt"},
	} {
		t.Run(c.engine, func(t *testing.T) {
			e := &fakeengine.Engine{Dialect: c.engine}
			w := fakeengine.NewWire(map[string]http.Handler{"one": e})
			salt := func(key byte, client, session uint64) string {
				u := open(t, options(w, "one"))
				u.saltKey = [32]byte{key}
				q := question(session, []int32{1, 2, 3})
				q.Client = client
				mustAsk(t, u, q)
				calls := e.Calls(c.path)
				var body map[string]any
				require.NoError(t, json.Unmarshal(calls[len(calls)-1].Body, &body))
				return body[c.field].(string)
			}
			first := salt(1, 1, 1)
			assert.NotEmpty(t, first)
			assert.Equal(t, first, salt(1, 1, 2))
			assert.NotEqual(t, first, salt(1, 2, 1))
			assert.NotEqual(t, first, salt(2, 1, 1))
			u := open(t, options(w, "one"))
			assert.NotEqual(t, first, u.cacheSalt(1, 0), "the key is drawn at random")
			u.saltKey = [32]byte{1}
			assert.Equal(t, first, u.cacheSalt(1, 0))
			assert.NotEqual(t, first, u.cacheSalt(1, 7), "a device of a private token")
		})
	}
}

// TestTooLong: a context that is too long for the engine is refused as such, and is not an error of the engine.
func TestTooLong(t *testing.T) {
	for _, c := range kinds() {
		o := options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine, "two": c.engine}), "one", "two")
		u := open(t, o)
		_, err := u.Ask(t.Context(), question(1, contextOf(rand.New(rand.NewPCG(7, 8)), 600)))
		no, ok := errors.AsType[netproto.Refusal](err)
		require.True(t, ok, "%s: %v", c.name, err)
		assert.Equal(t, netproto.TooLarge, no.Code)
		require.NoError(t, u.Ready())
		s := u.Stats().Engines
		assert.Zero(t, s[0].Outages+s[1].Outages)
		assert.EqualValues(t, 1, s[0].Failed+s[1].Failed, "the other engine has the same limit")
	}
}

// TestKey: the key is sent with every request, and a wrong one is reported.
func TestKey(t *testing.T) {
	for _, c := range kinds() {
		c.engine.Key = "open sesame"
		o := options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine}), "one")
		_, err := Open(t.Context(), o)
		require.ErrorContains(t, err, "requires another key", c.name)
		assert.NotContains(t, err.Error(), "sesame")
		o.Key = "open sesame"
		u := open(t, o)
		_, err = u.Ask(t.Context(), question(1, []int32{1, 2, 3}))
		require.NoError(t, err, c.name)
	}
}

// TestOtherVocabulary: an engine with another vocabulary is refused, with the first id that differs.
func TestOtherVocabulary(t *testing.T) {
	racing.Spare(t)
	v := fakeengine.NewVocabulary()
	for _, c := range kinds() {
		for _, swap := range [][2]int32{{270, 285}, {256, 257}, {297, 298}, {280, 281}} {
			c.engine.Vocabulary = v.Swapped(swap[0], swap[1])
			e := fakeengine.Engine{Dialect: c.engine.Dialect, Vocabulary: c.engine.Vocabulary,
				NoGenerate: c.engine.NoGenerate}
			_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": &e}), "one"))
			require.ErrorContains(t, err, "vocabulary is not that of --tokenizer", c.name)
			if swap[0] == 270 { // in none of the texts
				assert.ErrorContains(t, err, "have another text there", c.name)
			}
		}
	}
	small := &fakeengine.Engine{Dialect: "llama"}
	o := options(fakeengine.NewWire(map[string]http.Handler{"one": small}), "one")
	o.Vocabulary = larger{v}
	_, err := Open(t.Context(), o)
	assert.ErrorContains(t, err, "its model has 304 tokens, that of --tokenizer has 400")
}

// larger has a vocabulary with more tokens.
type larger struct{ *fakeengine.Vocabulary }

func (larger) Size() int { return 400 }

// TestComparisonFails: an engine with a token outside the vocabulary, or without an endpoint for the comparison of
// vocabularies, is refused.
func TestComparisonFails(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "sglang", Fault: replying(`{"output_ids":[300]}`)}
	_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	assert.ErrorContains(t, err, "its token 300 is not in the vocabulary")
	assert.True(t, isUnsuitable(err))
	for _, path := range []string{"/tokenize", "/detokenize"} {
		e = &fakeengine.Engine{Dialect: "sglang", Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path == path {
				w.WriteHeader(http.StatusNotFound)
			}
			return r.URL.Path == path
		}}
		_, err = Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
		require.ErrorContains(t, err, "its vocabulary cannot be compared")
		assert.True(t, isUnsuitable(err))
	}
}

// TestModelName: a named model that the engine does not serve is an error for which waiting does not help.
func TestModelName(t *testing.T) {
	for _, c := range kinds() {
		o := options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine}), "one")
		o.Model = "another"
		_, err := Open(t.Context(), o)
		assert.ErrorContains(t, err, `serves no model "another", but "fake"`)
		assert.True(t, isUnsuitable(err))
		o.Model = "fake"
		assert.Equal(t, "fake", open(t, o).Info().Model)
	}
}

// TestRecognised: an engine that its list of models does not identify is recognised by an endpoint.
func TestRecognised(t *testing.T) {
	for page, dialect := range map[string]string{"props": "llama", "info": "sglang", "{}": "vllm", "<html>": "vllm",
		"broken": "vllm"} {
		t.Run(page, func(t *testing.T) {
			e := &fakeengine.Engine{Dialect: dialect}
			e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				switch {
				case r.URL.Path == "/v1/models":
					fmt.Fprint(w, `{"data":[{"id":"fake","owned_by":"somebody","meta":{"n_vocab":300}}]}`)
				case page == "broken" && r.Method == http.MethodGet:
					broken(w, r)
				case r.URL.Path == "/props" && dialect != "llama", r.URL.Path == "/get_model_info" && dialect == "vllm":
					fmt.Fprint(w, page) // it has a page at every path
				default:
					return false
				}
				return true
			}
			o := options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one")
			if page == "broken" { // it may be any engine
				_, err := Open(t.Context(), o)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				assert.False(t, isUnsuitable(err), "waiting helps")
				return
			}
			f, _ := open(t, o).engines[0].serviceState()
			assert.Equal(t, dialect, f.Dialect)
		})
	}
}

// TestReplayedKinds: real engines are recognised.
func TestReplayedKinds(t *testing.T) {
	at, err := dialect.ParseURL("http://engine")
	require.NoError(t, err)
	for kind, want := range map[string]dialect.Engine{
		"llama": &dialect.Llama{}, "sglang": &dialect.SGLang{}, "vllm": &dialect.VLLM{},
	} {
		t.Run(kind, func(t *testing.T) {
			got, err := detectDialect(t.Context(), dialect.NewClient(at, "", fakeengine.Recorded("testdata/"+kind)), "")
			require.NoError(t, err)
			assert.IsType(t, want, got)
		})
	}
}

// TestNoEngine: a server that is not an engine is reported as such.
func TestNoEngine(t *testing.T) {
	for name, h := range map[string]http.Handler{
		"not SGLang, vLLM or llama-server": http.NotFoundHandler(),
		"reply is invalid": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>hello</html>")
		}),
		"301": http.RedirectHandler("http://elsewhere/", http.StatusMovedPermanently),
	} {
		_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": h}), "one"))
		assert.ErrorContains(t, err, name)
	}
}

// TestOptions: an Upstream without engines, vocabulary or draws is refused.
func TestOptions(t *testing.T) {
	for text, change := range map[string]func(*Options){
		"no engine is given":                func(o *Options) { o.URLs = nil },
		"Vocabulary and Draw are required":  func(o *Options) { o.Draw = nil },
		"Vocabulary and Draw are required ": func(o *Options) { o.Vocabulary = nil },
	} {
		o := options(fakeengine.NewWire(map[string]http.Handler{"one": &fakeengine.Engine{Dialect: "llama"}}), "one")
		change(&o)
		_, err := Open(t.Context(), o)
		assert.EqualError(t, err, "upstream: "+strings.TrimSpace(text))
	}
}

// TestURLs: an error about an address names its number, and does not repeat a password.
func TestURLs(t *testing.T) {
	o := options(fakeengine.NewWire(nil))
	o.URLs = []string{"http://one", "http://user:hunter22@one"}
	_, err := Open(t.Context(), o)
	require.ErrorContains(t, err, "upstream 2: ")
	require.ErrorContains(t, err, "leave the user and password out")
	assert.NotContains(t, err.Error(), "hunter22")
}

// TestNamedTwice: two addresses of one engine would share only its name.
func TestNamedTwice(t *testing.T) {
	w := fakeengine.NewWire(map[string]http.Handler{"one": &fakeengine.Engine{Dialect: "llama"}})
	o := options(w, "one", "one")
	_, err := Open(t.Context(), o)
	assert.ErrorContains(t, err, "http://one is given twice")
	o.URLs = []string{"http://one/", "https://one"}
	_, err = Open(t.Context(), o)
	assert.ErrorContains(t, err, "https://one is given twice")

	paths := http.NewServeMux() // two engines at one address
	for _, path := range []string{"/a", "/b"} {
		paths.Handle(path+"/", http.StripPrefix(path, &fakeengine.Engine{Dialect: "llama"}))
	}
	o = options(fakeengine.NewWire(map[string]http.Handler{"one": paths}))
	o.URLs = []string{"http://one/a", "http://one/b/"}
	for _, e := range open(t, o).Stats().Engines {
		assert.True(t, e.In, e.URL)
	}
}

// TestWarm: text that is sent early becomes a request if much of it is new, in the format of each dialect.
func TestWarm(t *testing.T) {
	for _, c := range kinds() {
		e := c.engine
		u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
		before := len(e.Calls(c.path))
		q := question(1, contextOf(rand.New(rand.NewPCG(9, 9)), 300))
		q.Base = 173
		require.NoError(t, u.Warm(context.Background(), q))
		assert.Len(t, e.Calls(c.path), before, "%s: 127 new tokens", c.name)
		q.Base, q.Domain = 172, 7
		require.NoError(t, u.Warm(context.Background(), q), c.name)
		require.Len(t, e.Calls(c.path), before+1, "%s: 128 new tokens", c.name)
		if e.Dialect == "sglang" || e.Dialect == "vllm" {
			assert.Contains(t, string(e.Calls(c.path)[before].Body), `"`+u.cacheSalt(1, 7)+`"`,
				"the cache of its questions")
		}
		mustAsk(t, u, q)
		if s := u.Stats().Engines[0]; s.Context > 0 {
			assert.GreaterOrEqual(t, s.Cached, uint64(288), c.name)
		}
	}
}
