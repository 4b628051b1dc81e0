package dialect

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		return &VLLM{c: c, door: generate{}}
	}
	return NewOpenAI(c, "")
}

// TestDescribe: what an engine reports about itself, and what test requests find.
func TestDescribe(t *testing.T) {
	const unavailable, inexact = "/inference/v1/generate is unavailable", "audits check one random position"
	olderSGLang := func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		switch r.URL.Path {
		case "/server_info":
			w.WriteHeader(http.StatusNotFound)
		case "/get_server_info":
			_, _ = w.Write([]byte(`{"version":"0.4","page_size":16,"disable_radix_cache":true}`))
		default:
			return false
		}
		return true
	}
	for _, c := range []struct {
		e     *fakeengine.Engine
		want  Facts
		notes []string
	}{
		{&fakeengine.Engine{Dialect: "llama", Slots: 3}, Facts{Version: "b0-fake", MaxContext: 511, Vocab: 304,
			Parallel: 3, Choices: 256, Audit: netproto.SampledAudit}, []string{"3 slots: "}},
		{&fakeengine.Engine{Dialect: "sglang"}, Facts{Version: "0.5.23", MaxContext: 504, Parallel: 16, Choices: 256,
			Audit: netproto.ExactAudit}, nil},
		{&fakeengine.Engine{Dialect: "sglang", Fault: olderSGLang, MaxContext: 9}, Facts{Version: "0.4", MaxContext: 1,
			Choices: 256, Audit: netproto.ExactAudit}, []string{"its prefix cache is off", "pages of 16 tokens"}},
		{&fakeengine.Engine{Dialect: "vllm", MaxTop: 40}, Facts{Version: "0.32.0", MaxContext: 511, Choices: 40,
			Audit: netproto.ExactAudit}, nil},
		{&fakeengine.Engine{Dialect: "vllm", Rows: fakeengine.RubbishRows}, Facts{Version: "0.32.0", MaxContext: 511,
			Choices: 20, Audit: netproto.SampledAudit}, []string{inexact}},
		{&fakeengine.Engine{Dialect: "vllm", NoGenerate: true}, Facts{Version: "0.32.0", MaxContext: 511, Choices: 20,
			Audit: netproto.SampledAudit}, []string{unavailable, inexact}},
		{&fakeengine.Engine{Dialect: "openai", MaxTop: 5}, Facts{Choices: 5}, nil},
		{&fakeengine.Engine{Dialect: "openai", Strict: true}, Facts{Choices: 20}, []string{"only OpenAI's fields"}},
	} {
		to := fakeengine.NewWire(map[string]http.Handler{"engine": c.e})
		got, err := engineOf(t, c.e.Dialect, to).Describe(t.Context(), fakeengine.NewVocabulary(), "salt")
		require.NoError(t, err, c.e.Dialect)
		require.Len(t, got.Notes, len(c.notes), c.e.Dialect)
		for i, note := range c.notes {
			assert.Contains(t, got.Notes[i], note)
		}
		c.want.Dialect, c.want.Model, got.Notes = c.e.Dialect, "fake", nil
		assert.Equal(t, c.want, got)
	}
}

// TestDescribeModels: the lengths of contexts in a list of models, of which 1 leaves no room for a token.
func TestDescribeModels(t *testing.T) {
	for length, want := range map[string]int{"100": 99, "2": 1, "1": 0, "0": 0, "-5": 0} {
		e := &fakeengine.Engine{Dialect: "openai"}
		e.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path == "/v1/models" {
				_, _ = w.Write([]byte(`{"data":[{"id":"fake","max_model_len":` + length + `}]}`))
			}
			return r.URL.Path == "/v1/models"
		}
		to := fakeengine.NewWire(map[string]http.Handler{"engine": e})
		got, err := engineOf(t, "openai", to).Describe(t.Context(), fakeengine.NewVocabulary(), "salt")
		require.NoError(t, err)
		assert.Equal(t, want, got.MaxContext, length)
	}
}

// TestDescribeFails: an engine that fails at any request is not described.
func TestDescribeFails(t *testing.T) {
	for _, c := range []struct{ kind, request string }{
		{"llama", "/v1/models"}, {"llama", "/props"}, {"sglang", "/v1/models"}, {"sglang", "/get_model_info"},
		{"sglang", "server_info"}, {"vllm", "/v1/models"}, {"vllm", "/version"}, {"vllm", "/inference/v1/generate"},
		{"vllm", `"logprobs":`}, {"openai", "/v1/models"}, {"openai", "/v1/completions"},
	} {
		e := &fakeengine.Engine{Dialect: c.kind}
		e.Fault = func(w http.ResponseWriter, r *http.Request, b []byte) bool {
			fails := strings.Contains(r.URL.Path+string(b), c.request)
			if fails {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return fails
		}
		to := fakeengine.NewWire(map[string]http.Handler{"engine": e})
		_, err := engineOf(t, c.kind, to).Describe(t.Context(), fakeengine.NewVocabulary(), "salt")
		assert.Equal(t, http.StatusInternalServerError, Status(err), "%v: %v", c, err)
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
		"openai": {`{}`, `{"choices":[{}]}`, `{"choices":[{"token_ids":[1]},{"token_ids":[1]}]}`,
			`{"choices":[{"token_ids":[1,2]}]}`},
	} {
		for _, reply := range replies {
			_, err := engineOf(t, kind, openaiSays(reply)).Ask(t.Context(), Ask{Context: []int32{1, 2}, K: 1})
			assert.ErrorIs(t, err, ErrReply, "%s: %s", kind, reply)
		}
	}
}

// TestTimes: the times that an engine reports, if they are possible.
func TestTimes(t *testing.T) {
	for reported, want := range map[string]time.Duration{
		"1.5": 1500, "0": 0, "-1": 0, "1e300": 0, "999999.5": 999999500,
	} {
		r, err := engineOf(t, "sglang", openaiSays(`{"output_ids":[1],"meta_info":{"e2e_latency":`+reported+`}}`)).
			Ask(t.Context(), Ask{Context: []int32{1}})
		require.NoError(t, err)
		assert.Equal(t, want*time.Millisecond, r.Compute, reported)
		r, err = engineOf(t, "llama", openaiSays(`{"tokens":[1],"timings/prompt_ms":`+reported+
			`,"timings/predicted_ms":0.25}`)).Ask(t.Context(), Ask{Context: []int32{1}})
		require.NoError(t, err)
		ms := map[string]float64{"1.5": 1.75, "0": 0.25, "999999.5": 999999.75}[reported]
		assert.Equal(t, time.Duration(ms*float64(time.Millisecond)), r.Compute, reported)
	}
}

// TestSecondRequest: if the second request for the probabilities of a part of a character fails, so does the question.
func TestSecondRequest(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "llama", Model: func([]int32) []float64 {
		p := make([]float64, 300)
		for i := range p {
			p[i] = -9
		}
		p[0xe4] = -0.1
		return p
	}}
	e.Fault = func(w http.ResponseWriter, _ *http.Request, b []byte) bool {
		second := strings.Contains(string(b), `"n_predict":4`)
		if second {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return second
	}
	to := fakeengine.NewWire(map[string]http.Handler{"engine": e})
	_, err := engineOf(t, "llama", to).Ask(t.Context(), Ask{Context: []int32{1}, K: 2})
	assert.Equal(t, http.StatusInternalServerError, Status(err))
}

// TestSampledAudits: the finding of a sampled audit has a probability only if the reply has one.
func TestSampledAudits(t *testing.T) {
	for logprobs, want := range map[string]float32{`null`: 0, `{}`: 0, `{"token_logprobs":[-1,-2]}`: 0,
		`{"token_logprobs":[-2]}`: -2} {
		r, err := engineOf(t, "vllm", openaiSays(`{"choices":[{"token_ids":[5]},{"index":1,"token_ids":[6],"logprobs":`+
			logprobs+`}]}`)).Ask(t.Context(), Ask{Context: []int32{1, 2, 3}, Sample: 2})
		require.NoError(t, err)
		require.Len(t, r.Audit, 1)
		assert.Equal(t, [2]float32{6, want}, [2]float32{float32(r.Audit[0].Token), r.Audit[0].LogProb}, logprobs)
	}
}
