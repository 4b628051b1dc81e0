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
	"time"

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
		{"llama", &fakeengine.Engine{Dialect: "llama"}, netproto.SampledAudit, 256, 511, "/completion"},
		{"sglang", &fakeengine.Engine{Dialect: "sglang"}, netproto.ExactAudit, 256, 504, "/generate"},
		{"vllm that gives rows", &fakeengine.Engine{Dialect: "vllm"}, netproto.ExactAudit, 20, 511, generate},
		{"vllm that gives rubbish", &fakeengine.Engine{Dialect: "vllm", Rows: fakeengine.RubbishRows, MaxTop: 50},
			netproto.SampledAudit, 50, 511, generate},
		{"vllm that computes all again", &fakeengine.Engine{Dialect: "vllm", Rows: fakeengine.WholeRows},
			netproto.SampledAudit, 20, 511, generate},
		{"vllm with its other API", &fakeengine.Engine{Dialect: "vllm", NoGenerate: true},
			netproto.SampledAudit, 20, 511, completions},
		{"openai with ids", &fakeengine.Engine{Dialect: "openai", Echo: true}, netproto.NoAudit, 20, 0, completions},
		{"openai with texts", &fakeengine.Engine{Dialect: "openai", Echo: true, Strict: true, MaxTop: 5},
			netproto.NoAudit, 5, 0, completions},
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
			assert.Equal(t, []any{c.audit, c.choices, c.context}, []any{info.Audit, info.Choices, info.MaxContext})
			r := rand.New(rand.NewPCG(1, 2))
			for i := range many(200) {
				q := question(uint64(i%5), contextOf(r, 2+r.IntN(60)))
				q.K, q.AuditFrom = r.IntN(min(c.choices, 16)+1), r.IntN(len(q.Context)+1)
				a, err := u.Ask(t.Context(), q)
				want := truth(e, q.Context)
				if err != nil && e.Strict { // its token may be part of a character, so that it is unknown
					assert.ErrorContains(t, err, "a part of a character")
					continue
				}
				require.NoError(t, err)
				require.Equal(t, want[0].ID, a.Token)
				if !e.Strict || len(a.Top) > 0 {
					require.Len(t, a.Top, q.K)
				}
				for j := range a.Top {
					require.Equal(t, want[j].ID, a.Top[j].ID)
					require.InDelta(t, want[j].LogProb, a.Top[j].LogProb, 1e-6)
				}
				checkAudit(t, e, c.audit, q.Context, q.AuditFrom, a.Audited, a.Sampled, a.Audit)
				again, err := u.Ask(t.Context(), q)
				require.NoError(t, err)
				require.Equal(t, []any{a.Token, a.Top}, []any{again.Token, again.Top})
			}
			assert.EqualValues(t, u.Stats().Repeats, u.Stats().Engines[0].Answered, "each question was sent twice")
			u.Forget(1)
			assert.NotEmpty(t, e.Calls(c.path))
		})
	}
}

// checkAudit compares an audit with the choice of the model at each position.
func checkAudit(
	t *testing.T, e *fakeengine.Engine, kind netproto.Audit, context []int32, from, audited, sampled int,
	found []terms.Finding,
) {
	t.Helper()
	window := len(context) - from
	if from == 0 || window == 0 || kind == netproto.NoAudit {
		require.Zero(t, audited+sampled+len(found))
		return
	}
	first, end := len(context)-audited, len(context)
	if kind == netproto.SampledAudit {
		require.Equal(t, window, audited)
		require.GreaterOrEqual(t, sampled, from)
		require.Less(t, sampled, len(context))
		first, end = sampled, sampled+1
	} else {
		require.Zero(t, sampled)
		if e.Dialect == "sglang" {
			require.Equal(t, window, audited, "from the requested position")
		}
		require.LessOrEqual(t, audited, window)
	}
	var want []terms.Finding
	for pos := first; pos < end; pos++ {
		if best := truth(e, context[:pos])[0]; best.ID != context[pos] {
			want = append(want, terms.Finding{Pos: pos, Token: best.ID, LogProb: best.LogProb})
		}
	}
	require.Len(t, found, len(want))
	for i := range want {
		require.Equal(t, []int{want[i].Pos, int(want[i].Token)}, []int{found[i].Pos, int(found[i].Token)})
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
				a, err := u.Ask(t.Context(), q)
				if err != nil && e.Strict {
					continue
				}
				require.NoError(t, err)
				top := truth(e, q.Context)[:q.Sampling.TopK]
				want, _, _, _ := drawn(q.Sampling, 10, top, -1)
				require.Equal(t, want, a.Token)
				if !e.Strict || len(a.Top) > 0 {
					require.Len(t, a.Top, q.K)
				}
				q.Sampling.Temperature = 0
				a, err = u.Ask(t.Context(), q)
				require.NoError(t, err)
				require.Equal(t, top[0].ID, a.Token, "greedy is a different question")
			}
		})
	}
}

// TestFewerProbabilities: if an engine gives fewer candidates than sampling needs, there is no token.
func TestFewerProbabilities(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "sglang"}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path == "/generate" {
			fmt.Fprint(w, `{"output_ids":[5],"meta_info":{"output_top_logprobs":[[[-0.5,5,null],[-1.5,6,null]]]}}`)
		}
		return r.URL.Path == "/generate"
	}
	q := question(1, []int32{1, 2, 3})
	q.Sampling = terms.Sampling{Temperature: 1, TopK: 3}
	_, err := u.Ask(t.Context(), q)
	require.ErrorIs(t, err, netproto.Failed)
	q.Sampling.TopK = 0 // all tokens
	_, err = u.Ask(t.Context(), q)
	require.ErrorIs(t, err, netproto.Failed)
	q.Sampling.TopK = 2
	a, err := u.Ask(t.Context(), q)
	require.NoError(t, err)
	assert.Contains(t, []int32{5, 6}, a.Token)
}

// TestPartOfCharacter: llama-server holds back the probabilities of a token that begins a character.
func TestPartOfCharacter(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "llama", Model: func([]int32) []float64 {
		p := make([]float64, 300)
		for i := range p {
			p[i] = -9
		}
		p[0xe4], p[7] = -0.1, -2.5
		return p
	}}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	q := question(1, []int32{1, 2, 3})
	q.K = 2
	a, err := u.Ask(t.Context(), q)
	require.NoError(t, err)
	assert.Equal(t, []terms.Candidate{{ID: 0xe4, LogProb: -0.1}, {ID: 7, LogProb: -2.5}}, a.Top)
	assert.EqualValues(t, 0xe4, a.Token)
	assert.EqualValues(t, 2, u.Stats().Engines[0].Requests)
}

// TestSalts: engines that support it have separate caches for each client, and a shared one for all sessions of a
// client. A new key changes all of them.
func TestSalts(t *testing.T) {
	for _, c := range []struct{ engine, path, field string }{
		{"sglang", "/generate", "extra_key"}, {"vllm", "/inference/v1/generate", "cache_salt"},
	} {
		e := &fakeengine.Engine{Dialect: c.engine}
		w := fakeengine.NewWire(map[string]http.Handler{"one": e})
		salt := func(key byte, client, session uint64) string {
			o := options(w, "one")
			o.SaltKey = [32]byte{key}
			u := open(t, o)
			q := question(session, []int32{1, 2, 3})
			q.Client = client
			_, err := u.Ask(t.Context(), q)
			require.NoError(t, err)
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
		assert.Equal(t, first, u.salt(1, 0))
		assert.NotEqual(t, first, u.salt(1, 7), "a device of a private token")
	}
}

// TestCacheTold: tokens from the engine's cache are counted, if the engine reports them.
func TestCacheTold(t *testing.T) {
	for _, c := range kinds() {
		e := c.engine
		u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
		text := contextOf(rand.New(rand.NewPCG(5, 6)), 100)
		for n := 90; n <= 100; n++ {
			_, _ = u.Ask(t.Context(), question(1, text[:n]))
		}
		s := u.Stats().Engines[0]
		switch c.engine.Dialect {
		case "openai":
			assert.Zero(t, s.Context, c.name)
		case "vllm":
			assert.EqualValues(t, 1045, s.Context, c.name)
			assert.EqualValues(t, 6*80+4*96, s.Cached, c.name+": blocks of 16")
		default:
			assert.EqualValues(t, 1045, s.Context, c.name)
			assert.EqualValues(t, 945, s.Cached, c.name+": all but the last of each after the first")
		}
	}
}

// TestTooLong: a context that is too long for the engine is refused as such, and is not an error of the engine.
func TestTooLong(t *testing.T) {
	for _, c := range kinds() {
		for _, hedge := range []time.Duration{0, time.Hour} {
			o := options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine, "two": c.engine}), "one", "two")
			o.Hedge = hedge
			u := open(t, o)
			_, err := u.Ask(t.Context(), question(1, contextOf(rand.New(rand.NewPCG(7, 8)), 600)))
			no, ok := errors.AsType[netproto.Refusal](err)
			require.True(t, ok, "%s: %v", c.name, err)
			assert.Equal(t, netproto.TooLarge, no.Code)
			require.NoError(t, u.Ready())
			s := u.Stats().Engines
			assert.Zero(t, s[0].Outages+s[1].Outages)
			assert.EqualValues(t, 1, s[0].Asks+s[1].Asks, "the other engine has the same limit")
		}
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
		require.True(t, err == nil || errors.Is(err, dialect.ErrPiece), "%v", err)
	}
}

// TestOtherVocabulary: an engine with another vocabulary is refused, with the first id that differs.
func TestOtherVocabulary(t *testing.T) {
	racing.Spare(t)
	v := fakeengine.NewVocabulary()
	for _, c := range kinds() {
		for _, swap := range [][2]int32{{270, 285}, {256, 257}, {297, 298}, {280, 281}} {
			c.engine.Vocabulary = v.Swapped(swap[0], swap[1])
			e := fakeengine.Engine{Dialect: c.engine.Dialect, Vocabulary: c.engine.Vocabulary, Echo: c.engine.Echo,
				Strict: c.engine.Strict, NoGenerate: c.engine.NoGenerate}
			_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": &e}), "one"))
			require.ErrorContains(t, err, "vocabulary is not that of --tokenizer", c.name)
			if swap[0] == 270 { // in none of the texts
				assert.ErrorContains(t, err, "the token 270 is", c.name)
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

// TestTrustVocabulary: the vocabulary of an engine that cannot be checked must be confirmed by an option.
func TestTrustVocabulary(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "openai"} // it does not echo prompts
	o := options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one")
	_, err := Open(t.Context(), o)
	require.ErrorContains(t, err, "--engine trust-vocabulary")
	o.TrustVocabulary = true
	open(t, o)
	e = &fakeengine.Engine{Dialect: "sglang", Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		absent := r.URL.Path == "/tokenize"
		if absent {
			w.WriteHeader(http.StatusNotFound)
		}
		return absent
	}}
	_, err = Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	require.ErrorContains(t, err, "--engine trust-vocabulary", "it cannot spell tokens either")
}

// TestRepeats: an engine without access to its tokens can show that its vocabulary is the same by continuing a repeated
// text; one that continues with other tokens cannot.
func TestRepeats(t *testing.T) {
	v := fakeengine.NewVocabulary()
	parrot := func(often int) func([]int32) []float64 {
		return func(ctx []int32) []float64 {
			p := fakeengine.Table(v, 1)(ctx)
			if last := ctx[len(ctx)-1]; int(last)%4 < often {
				p[last] = -0.01
			}
			return p
		}
	}
	for _, c := range []struct {
		often int // of 4 tokens
		v     *fakeengine.Vocabulary
		ok    bool
	}{{4, v, true}, {3, v, true}, {1, v, false}, {4, shifted(v), false}} {
		for _, strict := range []bool{false, true} {
			e := &fakeengine.Engine{
				Dialect: "openai", Strict: strict, Model: parrot(c.often), Vocabulary: c.v, MaxTop: 5,
			}
			u, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
			if !c.ok { // even if it returns ids, because ids have no meaning by themselves
				assert.ErrorContains(t, err, "--engine trust-vocabulary")
				continue
			}
			require.NoError(t, err)
			u.Close()
		}
	}
}

// TestComparisonFails: an engine that fails while it is described, or its vocabulary compared, is reported as failing.
func TestComparisonFails(t *testing.T) {
	for request, engine := range map[string]string{
		"/v1/models": "llama", "/props": "llama", "/tokenize": "llama", "/detokenize": "vllm", `"echo":true`: "openai",
		"0,0,0,0,0,0,0": "openai", "-trial-": "sglang",
	} {
		e := &fakeengine.Engine{Dialect: engine, Fault: func(w http.ResponseWriter, r *http.Request, b []byte) bool {
			fails := strings.Contains(r.URL.Path+string(b), request)
			if fails {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return fails
		}}
		_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
		assert.Equal(t, http.StatusInternalServerError, dialect.Status(err), "%s: %v", request, err)
	}
	e := &fakeengine.Engine{Dialect: "sglang", Fault: replying(`{"output_ids":[300]}`)}
	_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	assert.ErrorContains(t, err, "its token 300 is not in the vocabulary")
	assert.True(t, isWrong(err))
}

// shifted returns a vocabulary with each token replaced by the next one.
func shifted(v *fakeengine.Vocabulary) *fakeengine.Vocabulary {
	var pieces [][]byte
	for id := range int32(v.Size()) {
		pieces = append(pieces, v.Piece((id+1)%int32(v.Size())))
	}
	return fakeengine.VocabularyOf(pieces, v.Special(), nil)
}

// TestModelName: of several models the named one is used, and a missing one is an error.
func TestModelName(t *testing.T) {
	for _, c := range kinds() {
		if c.engine.Dialect == "llama" || c.engine.Dialect == "sglang" { // these serve a single model
			o := options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine}), "one")
			o.Model = "another"
			_, err := Open(t.Context(), o)
			assert.ErrorContains(t, err, `serves no model "another", but "fake"`)
			assert.True(t, isWrong(err))
			o.Model = "fake"
			open(t, o)
			continue
		}
		c.engine.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path == "/v1/models" {
				fmt.Fprintf(w, `{"data":[{"id":"first","owned_by":%q},{"id":"fake","owned_by":%q}]}`, c.engine.Dialect,
					c.engine.Dialect)
			}
			return r.URL.Path == "/v1/models"
		}
		o := options(fakeengine.NewWire(map[string]http.Handler{"one": c.engine}), "one")
		o.Model = "fake"
		u := open(t, o)
		assert.Equal(t, "fake", u.Info().Model)
		_, err := u.Ask(t.Context(), question(1, []int32{1, 2, 3}))
		require.True(t, err == nil || errors.Is(err, dialect.ErrPiece), "%s: %v", c.name, err)
		o.Model = "another"
		_, err = Open(t.Context(), o)
		assert.ErrorContains(t, err, `serves no model "another", but "first"`)
		assert.True(t, isWrong(err), "waiting does not help")
	}
}

// TestRecognised: an engine that its list of models does not identify is recognised by an endpoint.
func TestRecognised(t *testing.T) {
	for page, dialect := range map[string]string{"props": "llama", "info": "sglang", "{}": "openai", "<html>": "openai",
		"broken": "openai"} {
		e := &fakeengine.Engine{Dialect: dialect, Echo: true}
		e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			switch {
			case r.URL.Path == "/v1/models":
				fmt.Fprint(w, `{"data":[{"id":"fake","owned_by":"somebody","meta":{"n_vocab":300}}]}`)
			case page == "broken" && r.Method == http.MethodGet:
				broken(w, r)
			case dialect == "openai" && r.Method == http.MethodGet:
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
			assert.False(t, isWrong(err), "waiting helps")
			continue
		}
		f, _ := open(t, o).members[0].serves()
		assert.Equal(t, dialect, f.Dialect)
	}
}

// TestReplayedKinds: real engines are recognised.
func TestReplayedKinds(t *testing.T) {
	at, err := dialect.ParseURL("http://engine")
	require.NoError(t, err)
	for _, kind := range []Kind{Llama, SGLang, VLLM} {
		got, err := recognise(t.Context(), dialect.NewClient(at, "", fakeengine.Recorded("testdata/"+kind)))
		require.NoError(t, err)
		assert.Equal(t, kind, got)
	}
}

// TestForced: an explicitly named kind is not detected; a wrong kind is an error.
func TestForced(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "vllm"}
	w := fakeengine.NewWire(map[string]http.Handler{"one": e})
	for kind, ok := range map[Kind]bool{VLLM: true, Auto: true, SGLang: false, Llama: false} {
		o := options(w, "one")
		o.Kind = kind
		u, err := Open(t.Context(), o)
		assert.Equal(t, ok, err == nil, "%s: %v", kind, err)
		if err == nil {
			u.Close()
		}
	}
	o := options(w, "one")
	o.Kind = "cobol"
	_, err := Open(t.Context(), o)
	assert.ErrorContains(t, err, `"cobol" is not a kind of engine`)
}

// TestNoEngine: a server that is not an engine is reported as such.
func TestNoEngine(t *testing.T) {
	for name, h := range map[string]http.Handler{
		"unknown kind of engine": http.NotFoundHandler(),
		"reply is invalid": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>hello</html>")
		}),
		"301": http.RedirectHandler("http://elsewhere/", http.StatusMovedPermanently),
	} {
		_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": h}), "one"))
		assert.ErrorContains(t, err, name)
	}
}

// TestURLs: errors about addresses do not repeat parts that may be secret.
func TestURLs(t *testing.T) {
	for address, want := range map[string]string{
		"localhost:8000": "must begin with http", "http://user:hunter22@one": "leave the user and password out",
		"http://": "has no host", "http://one?a=b": "leave out the query", "ftp://one": "must begin with http",
		"http://one\x7f": "not a URL",
	} {
		o := options(fakeengine.NewWire(nil))
		o.URLs = []string{address}
		_, err := Open(t.Context(), o)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "upstream 1: ")
		assert.False(t, strings.Contains(err.Error(), "hunter22"), "%v", err)
		o.URLs = []string{"http://one", address}
		_, err = Open(t.Context(), o)
		require.ErrorContains(t, err, "upstream 2: ")
	}
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
			assert.Contains(t, string(e.Calls(c.path)[before].Body), `"`+u.salt(1, 7)+`"`, "the cache of its questions")
		}
		_, err := u.Ask(t.Context(), q)
		require.NoError(t, err)
		if s := u.Stats().Engines[0]; s.Context > 0 {
			assert.GreaterOrEqual(t, s.Cached, uint64(288), c.name)
		}
	}
}
