package dialect

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// engineOf returns an engine with the replies of to. "generate" is vLLM with its other endpoint.
func engineOf(t *testing.T, kind string, to http.RoundTripper) Engine {
	t.Helper()
	base, err := url.Parse("http://engine")
	require.NoError(t, err)
	c := NewClient(base, "", to)
	switch kind {
	case "llama":
		return NewLlama(c)
	case "sglang":
		return NewSGLang(c)
	case "vllm":
		return NewVLLM(c, "")
	case "generate":
		return &VLLM{c: c, endpoint: generateEndpoint{}}
	}
	panic(kind)
}

// TestDescribe: what an engine reports about itself, and what test requests find.
func TestDescribe(t *testing.T) {
	olderSGLang := func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		switch r.URL.Path {
		case "/server_info":
			w.WriteHeader(http.StatusNotFound)
		case "/get_server_info":
			_, _ = w.Write([]byte(`{"version":"0.4"}`))
		default:
			return false
		}
		return true
	}
	noVersion := func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		absent := r.URL.Path == "/version"
		if absent {
			w.WriteHeader(http.StatusNotFound)
		}
		return absent
	}
	for _, c := range []struct {
		name string
		e    *fakeengine.Engine
		want Facts
	}{
		{"llama", &fakeengine.Engine{Dialect: "llama", Slots: 3},
			Facts{Version: "b0-fake", MaxContext: 511, Vocab: 304, Parallel: 3, Choices: 256}},
		{"sglang", &fakeengine.Engine{Dialect: "sglang"},
			Facts{Version: "0.5.23", MaxContext: 504, Parallel: 16, Choices: 256, Audit: netproto.ExactAudit}},
		{"older sglang", &fakeengine.Engine{Dialect: "sglang", Fault: olderSGLang, MaxContext: 9},
			Facts{Version: "0.4", MaxContext: 1, Choices: 256, Audit: netproto.ExactAudit}},
		{"vllm", &fakeengine.Engine{Dialect: "vllm", MaxTop: 40},
			Facts{Version: "0.32.0", MaxContext: 511, Choices: 40, Audit: netproto.ExactAudit}},
		{"vllm without its generate endpoint", &fakeengine.Engine{Dialect: "vllm", NoGenerate: true},
			Facts{Version: "0.32.0", MaxContext: 511, Choices: 20}},
		{"vllm without a version", &fakeengine.Engine{Dialect: "vllm", NoGenerate: true, Fault: noVersion},
			Facts{MaxContext: 511, Choices: 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := fakeengine.NewWire(map[string]http.Handler{"engine": c.e})
			e := engineOf(t, c.e.Dialect, to)
			got, err := e.Describe(t.Context(), fakeengine.NewVocabulary(), "salt")
			require.NoError(t, err)
			if l, ok := e.(*Llama); ok {
				assert.Equal(t, c.e.Slots, l.slots.all.Len(), "they are assigned from now on")
			}
			c.want.Dialect, c.want.Model = c.e.Dialect, "fake"
			assert.Equal(t, c.want, got)
		})
	}
}

// TestMostProbabilities: an engine's limit of probabilities is found, or the next lower number that is tried.
func TestMostProbabilities(t *testing.T) {
	tried := []int{256, 128, 64, 50, 40, 32, 20, 10, 5, 1, 0}
	for i, want := range tried {
		for _, limit := range []int{want, append([]int{257}, tried...)[i] - 1} {
			e := &fakeengine.Engine{Dialect: "vllm", MaxTop: limit}
			if limit == 0 {
				e.MaxTop = -1 // none
			}
			to := fakeengine.NewWire(map[string]http.Handler{"engine": e})
			f, err := engineOf(t, "vllm", to).Describe(t.Context(), fakeengine.NewVocabulary(), "salt")
			require.NoError(t, err)
			assert.Equal(t, want, f.Choices, limit)
		}
	}
}

// TestContexts: the lengths of contexts that engines report, of which one token is left out, or more. llama-server
// reports that of one slot and that of all.
func TestContexts(t *testing.T) {
	for kind, want := range map[string]map[int]int{ // what is reported, and the max context; 0: unknown
		"llama":  {100: 99, 2: 1, 1: 0, 0: 76, -5: 0},
		"sglang": {100: 92, 9: 1, 8: 0, 1: 0, 0: 0, -5: 0},
		"vllm":   {100: 99, 2: 1, 1: 0, 0: 0, -5: 0},
	} {
		for length, want := range want {
			got, err := described(t, kind, fmt.Sprintf(`{"data":[{"id":"fake","max_model_len":%[1]d,`+
				`"meta":{"n_ctx":77}}],"total_slots":1,"default_generation_settings":{"n_ctx":%[1]d}}`, length))
			require.NoError(t, err)
			assert.Equal(t, want, got.MaxContext, "%s: %d", kind, length)
		}
	}
}

// described returns the description of an engine with another reply to /v1/models and /props.
func described(t *testing.T, kind, reply string) (Facts, error) {
	t.Helper()
	e := &fakeengine.Engine{Dialect: kind}
	e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		other := r.URL.Path == "/v1/models" || r.URL.Path == "/props"
		if other {
			_, _ = w.Write([]byte(reply))
		}
		return other
	}
	to := fakeengine.NewWire(map[string]http.Handler{"engine": e})
	return engineOf(t, kind, to).Describe(t.Context(), fakeengine.NewVocabulary(), "salt")
}

// TestDescribeNonsense: an engine without a model, or with an impossible number of slots, is not described.
func TestDescribeNonsense(t *testing.T) {
	for _, kind := range []string{"llama", "sglang", "vllm"} {
		for _, reply := range []string{`{}`, `{"data":[]}`, `{"data":[{}]}`} {
			_, err := described(t, kind, reply)
			assert.ErrorIs(t, err, ErrReply, "%s: %s", kind, reply)
		}
	}
	for slots, ok := range map[int]bool{-1: false, 0: false, 1: true, maxSlots: true, maxSlots + 1: false} {
		f, err := described(t, "llama", fmt.Sprintf(`{"data":[{"id":"fake"}],"total_slots":%d}`, slots))
		assert.Equal(t, ok, err == nil, slots)
		assert.True(t, !ok && errors.Is(err, ErrReply) || f.Parallel == slots)
	}
}

// TestReplayedDescriptions: what real servers report about themselves.
func TestReplayedDescriptions(t *testing.T) {
	for kind, want := range map[string]Facts{
		"llama": {Dialect: "llama", Model: "demo-large", MaxContext: 511, Vocab: 768, Parallel: 4, Choices: 256},
		"sglang": {Dialect: "sglang", Model: "demo-large", MaxContext: 504, Choices: 256,
			Audit: netproto.ExactAudit},
	} {
		t.Run(kind, func(t *testing.T) {
			got, err := engineOf(t, kind, fakeengine.Recorded("../testdata/"+kind)).Describe(t.Context(), nil, "")
			require.NoError(t, err)
			assert.NotEmpty(t, got.Version)
			got.Version = ""
			assert.Equal(t, want, got)
		})
	}
}

// TestDescribeFails: an engine that fails at any request, or replies with nonsense, is not described.
func TestDescribeFails(t *testing.T) {
	for _, c := range []struct{ kind, request string }{
		{"llama", "/v1/models"}, {"llama", "/props"}, {"sglang", "/v1/models"}, {"sglang", "/get_model_info"},
		{"sglang", "server_info"}, {"vllm", "/v1/models"}, {"vllm", "/version"}, {"vllm", "/inference/v1/generate"},
		{"vllm", `"logprobs":`},
	} {
		t.Run(c.kind+" "+c.request, func(t *testing.T) {
			for _, status := range []int{http.StatusInternalServerError, http.StatusOK} {
				e, failing := &fakeengine.Engine{Dialect: c.kind}, true
				e.Fault = func(w http.ResponseWriter, r *http.Request, b []byte) bool {
					fails := failing && strings.Contains(r.URL.Path+string(b), c.request)
					if fails {
						failing = status != http.StatusOK // nonsense comes once
						w.WriteHeader(status)
					}
					return fails
				}
				to := fakeengine.NewWire(map[string]http.Handler{"engine": e})
				_, err := engineOf(t, c.kind, to).Describe(t.Context(), fakeengine.NewVocabulary(), "salt")
				if status == http.StatusOK {
					assert.Error(t, err)
				} else {
					assert.Equal(t, status, Status(err), "%v", err)
				}
			}
		})
	}
}

// TestInvalidReplies: a reply without exactly one token, or with invalid probabilities, is an error.
func TestInvalidReplies(t *testing.T) {
	for kind, replies := range map[string][]string{
		"llama": {`{}`, `{"tokens":[]}`},
		"sglang": {`{}`, `{"output_ids":[1,2]}`, `{"output_ids":[1],"meta_info":{"output_top_logprobs":[["x"]]}}`,
			`{"output_ids":[1],"meta_info":{"output_top_logprobs":[[[-1,"x"]]]}}`},
		"vllm": {`{}`, `{"choices":[{}]}`, `{"choices":[{"token_ids":[1]},{"token_ids":[1]}]}`,
			`{"choices":[{"token_ids":[1,2]}]}`, `{"choices":[{"logprobs":{"tokens":["a"]}}]}`,
			`{"choices":[{"logprobs":{"tokens":["token_id:1","token_id:2"]}}]}`,
			`{"choices":[{"token_ids":[1],"logprobs":{"top_logprobs":[{"a":-1}]}}]}`},
		"generate": {`{}`, `{"choices":[{}]}`, `{"choices":[{"token_ids":[1]},{"token_ids":[1]}]}`,
			`{"choices":[{"token_ids":[1],"logprobs":{"content":[{"top_logprobs":[{"token":"a"}]}]}}]}`},
	} {
		for _, reply := range replies {
			_, err := engineOf(t, kind, answering(reply)).Ask(t.Context(), Ask{Context: []int32{1, 2}, K: 1})
			assert.ErrorIs(t, err, ErrReply, "%s: %s", kind, reply)
		}
	}
}

// TestTooLongWords: all messages by which versions of each engine refuse a context that is too long.
func TestTooLongWords(t *testing.T) {
	vllm := []string{`"the maximum model length of 9"`, `"maximum context length"`,
		`"max_tokens must be at least 1, got 0"`}
	for kind, messages := range map[string][]string{
		"llama": {`"it exceeds the available context size"`}, "vllm": vllm, "generate": vllm,
		"sglang": {`"longer than the model's context length"`, `"it exceeds the maximum allowed length"`},
	} {
		for _, message := range slices.Concat(messages, []string{`"another"`}) {
			refused := func() Engine {
				body := strings.NewReader(`{"error":{"message":` + message + `}}`)
				return engineOf(t, kind, &says{status: 400, body: body})
			}
			_, err := refused().Ask(t.Context(), Ask{Context: []int32{1, 2}})
			assert.Equal(t, message != `"another"`, errors.Is(err, netproto.TooLarge), "%s: %s: %v", kind, message, err)
			err = refused().Warm(t.Context(), Ask{Context: []int32{1, 2}})
			assert.Equal(t, message != `"another"`, errors.Is(err, netproto.TooLarge), "%s: %s: %v", kind, message, err)
		}
		_, err := engineOf(t, kind, &says{status: 413, body: strings.NewReader("")}).Ask(t.Context(),
			Ask{Context: []int32{1, 2}})
		assert.ErrorIs(t, err, netproto.TooLarge, kind)
	}
}

// TestOtherEndpoint: a vLLM without the generate endpoint, however it says that, is used through the other one. Another
// refusal is an error.
func TestOtherEndpoint(t *testing.T) {
	for status, used := range map[int]bool{400: false, 401: false, 403: true, 404: true, 405: true, 500: false,
		503: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			e := &fakeengine.Engine{Dialect: "vllm"}
			e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				refused := r.URL.Path == "/inference/v1/generate"
				if refused {
					w.WriteHeader(status)
				}
				return refused
			}
			to := fakeengine.NewWire(map[string]http.Handler{"engine": e})
			f, err := engineOf(t, "vllm", to).Describe(t.Context(), fakeengine.NewVocabulary(), "salt")
			if !used {
				assert.Equal(t, status, Status(err))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, netproto.NoAudit, f.Audit)
			assert.Equal(t, 20, f.Choices)
		})
	}
}

// TestTimes: the times that an engine reports, if they are possible.
func TestTimes(t *testing.T) {
	for reported, want := range map[string]time.Duration{
		"1.5": 1500, "0": 0, "-1": 0, "1e300": 0, "999999.5": 999999500,
	} {
		t.Run(reported, func(t *testing.T) {
			r, err := engineOf(t, "sglang", answering(`{"output_ids":[1],"meta_info":{"e2e_latency":`+reported+`}}`)).
				Ask(t.Context(), Ask{Context: []int32{1}})
			require.NoError(t, err)
			assert.Equal(t, want*time.Millisecond, r.Compute)
			r, err = engineOf(t, "llama", answering(`{"tokens":[1],"timings/prompt_ms":`+reported+
				`,"timings/predicted_ms":0.25}`)).Ask(t.Context(), Ask{Context: []int32{1}})
			require.NoError(t, err)
			ms := map[string]float64{"1.5": 1.75, "0": 0.25, "999999.5": 999999.75}[reported]
			assert.Equal(t, time.Duration(ms*float64(time.Millisecond)), r.Compute)
		})
	}
}

// TestSecondRequest: if a further request for an answer fails, so does the question: that for the probabilities of a
// part of a character, and that for the rows of cached tokens.
func TestSecondRequest(t *testing.T) {
	long := make([]int32, 40)
	for _, c := range []struct {
		kind, second string
		a            Ask
	}{
		{"llama", `"n_predict":4`, Ask{Context: []int32{1}, K: 2}},
		{"vllm", `"again-all"`, Ask{Name: "again", Context: long, AuditFrom: 1, All: true}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			e := &fakeengine.Engine{Dialect: c.kind, Model: func(ctx []int32) []float64 {
				p := slices.Repeat([]float64{-9}, 300)
				p[map[bool]int{true: 0xe4, false: 'a'}[ctx[0] == 1]] = -0.1
				return p
			}}
			engine := engineOf(t, c.kind, fakeengine.NewWire(map[string]http.Handler{"engine": e}))
			_, err := engine.Describe(t.Context(), fakeengine.NewVocabulary(), "salt")
			require.NoError(t, err)
			require.NoError(t, engine.Warm(t.Context(), Ask{Context: long}))
			_, err = engine.Ask(t.Context(), c.a)
			require.NoError(t, err)
			e.Fault = func(w http.ResponseWriter, _ *http.Request, b []byte) bool {
				fails := strings.Contains(string(b), c.second)
				if fails {
					w.WriteHeader(http.StatusInternalServerError)
				}
				return fails
			}
			_, err = engine.Ask(t.Context(), c.a)
			assert.Equal(t, http.StatusInternalServerError, Status(err))
		})
	}
}

// TestErrors: each method returns the engine's error, and sends no other request after it.
func TestErrors(t *testing.T) {
	for _, kind := range []string{"llama", "sglang", "vllm", "generate"} {
		sent, ctx, text := 0, t.Context(), []int32{1, 2, 3, 4}
		e := engineOf(t, kind, fakeengine.NewWire(map[string]http.Handler{"engine": http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) {
				sent++
				w.WriteHeader(http.StatusInternalServerError)
			})}))
		if v, ok := e.(*VLLM); ok {
			v.rows = kind == "generate"
		}
		calls := map[string]func() error{
			"alive":      func() error { return e.Alive(ctx) },
			"warm":       func() error { return e.Warm(ctx, Ask{Context: text}) },
			"tokenize":   func() error { _, err := e.Tokenize(ctx, "x"); return err },
			"detokenize": func() error { _, err := e.Detokenize(ctx, text); return err },
		}
		for name, a := range map[string]Ask{"ask": {}, "k": {K: 2}, "audit": {AuditFrom: 2},
			"all": {AuditFrom: 2, All: true}} {
			a.Context = text
			calls[name] = func() error { _, err := e.Ask(ctx, a); return err }
		}
		for name, call := range calls {
			sent = 0
			assert.Equal(t, http.StatusInternalServerError, Status(call()), "%s: %s", kind, name)
			if s, ok := e.(*SGLang); ok {
				s.c.Close() // waits for requests in the background
			}
			assert.Equal(t, 1, sent, "%s: %s", kind, name)
		}
		if l, ok := e.(*Llama); ok {
			l.slots.resizeSlots(1)
			for _, call := range calls {
				require.Error(t, call())
			}
			assert.Zero(t, l.slots.all.Front().Value.(*slot).open, "requests that failed are over")
		}
	}
}

// TestAbsent: an engine without an endpoint for tokens is reported as such.
func TestAbsent(t *testing.T) {
	for _, kind := range []string{"sglang", "vllm"} {
		e := engineOf(t, kind, fakeengine.NewWire(map[string]http.Handler{"engine": http.NotFoundHandler()}))
		_, err := e.Tokenize(t.Context(), "x")
		assert.ErrorIs(t, err, ErrAbsent, kind)
		_, err = e.Detokenize(t.Context(), []int32{1})
		assert.ErrorIs(t, err, ErrAbsent, kind)
	}
}

// TestWithoutProbabilities: an answer may lack the probabilities, and the number of cached tokens, whatever form that
// has.
func TestWithoutProbabilities(t *testing.T) {
	for kind, replies := range map[string][]string{
		"llama": {`{"tokens":[1]}`, `{"tokens":[1],"completion_probabilities":[]}`,
			`{"tokens":[1],"completion_probabilities":[{}]}`},
		"sglang": {`{"output_ids":[1]}`, `{"output_ids":[1],"meta_info":{"output_top_logprobs":[]}}`,
			`{"output_ids":[1],"meta_info":{"output_top_logprobs":[null]}}`},
		"vllm": {`{"choices":[{"token_ids":[1]}]}`, `{"choices":[{"token_ids":[1],"logprobs":{}}]}`,
			`{"choices":[{"token_ids":[1],"logprobs":{"top_logprobs":[null]}}],"usage":{"prompt_tokens_details":{}}}`},
		"generate": {`{"choices":[{"token_ids":[1]}]}`, `{"choices":[{"token_ids":[1],"logprobs":{}}]}`,
			`{"choices":[{"token_ids":[1],"logprobs":{"content":[{}]}}],"usage":{"prompt_tokens_details":{}}}`},
	} {
		for _, reply := range replies {
			for k := range 2 {
				r, err := engineOf(t, kind, answering(reply)).Ask(t.Context(), Ask{Context: []int32{1, 2}, K: k})
				require.NoError(t, err, reply)
				assert.EqualValues(t, 1, r.Token, reply)
				assert.Empty(t, r.Top, reply)
				assert.Equal(t, -1, r.Cached, reply)
				assert.Empty(t, r.Rows, reply)
				assert.NoError(t, r.Unheard)
			}
		}
	}
}

// TestWarmRequest: a request to warm up computes the context and nothing else, for the same cache.
func TestWarmRequest(t *testing.T) {
	for _, kind := range []string{"llama", "sglang", "vllm", "generate"} {
		var sent []string
		e := engineOf(t, kind, fakeengine.NewWire(map[string]http.Handler{"engine": http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				sent = append(sent, string(b))
				_, _ = w.Write([]byte(`{"choices":[{"token_ids":[1]}]}`)) // llama and sglang return no token
			})}))
		if v, ok := e.(*VLLM); ok {
			v.rows = kind == "generate"
		}
		a := Ask{Name: "name", Session: 1, Salt: "salt", Context: []int32{1, 2, 3}}
		require.NoError(t, e.Warm(t.Context(), a), kind)
		a.K, a.AuditFrom, a.Rows, a.All = 3, 1, 2, true
		require.NoError(t, e.Warm(t.Context(), a), kind)
		require.Len(t, sent, 2, kind)
		assert.Equal(t, sent[0], sent[1])
		if kind != "llama" { // which has no such fields
			assert.Regexp(t, `"(rid|request_id)":"name"`, sent[0])
			assert.Regexp(t, `"(extra_key|cache_salt)":"salt"`, sent[0])
		}
	}
}

// TestMeasured: without a time from the engine it is that of the request.
func TestMeasured(t *testing.T) {
	for _, kind := range []string{"vllm", "generate"} {
		bubble.Test(t, func(t *testing.T) {
			r, err := engineOf(t, kind, slowly{}).Ask(t.Context(), Ask{Context: []int32{1}})
			require.NoError(t, err)
			assert.Equal(t, time.Second, r.Compute, kind)
		})
	}
}

// slowly answers after a second.
type slowly struct{}

func (slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Second)
	return answering(`{"choices":[{"token_ids":[1]}]}`).RoundTrip(r)
}

// answering is an engine that gives one reply to every request.
type answering string

func (s answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return (&says{status: 200, body: strings.NewReader(string(s))}).RoundTrip(r)
}
