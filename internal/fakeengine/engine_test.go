package fakeengine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// greedy has for each dialect the endpoint that continues a context, the name of the context, and the other fields of a
// request that an answer depends on.
var greedy = map[string]struct {
	path, context string
	fields        object
}{
	"llama": {"/completion", "prompt", object{"n_predict": 1, "n_probs": 2, "id_slot": 0}},
	"sglang": {"/generate", "input_ids", object{
		"rid": "r", "sampling_params": object{"max_new_tokens": 1}, "return_logprob": true, "logprob_start_len": -1,
		"top_logprobs_num": 2,
	}},
	"vllm":     {"/v1/completions", "prompt", object{"return_token_ids": true}},
	"generate": {"/inference/v1/generate", "token_ids", object{"sampling_params": object{}}},
}

// newEngine returns an engine with an endpoint of greedy, and room for a context of 50 tokens.
func newEngine(kind string) *Engine {
	e := &Engine{Dialect: kind, MaxContext: 51}
	if kind == "generate" {
		e.Dialect = "vllm"
	}
	return e
}

// ask sends a request, with the model if it is vLLM, and returns status and reply. The status is 0 if the connection
// is aborted.
func (e *Engine) ask(t *testing.T, kind string, context []int32, fields object) (status int, reply object) {
	t.Helper()
	q := maps.Clone(fields)
	q[greedy[kind].context] = context
	if _, set := q["model"]; e.Dialect == "vllm" && !set {
		q["model"] = "fake"
	}
	return e.send(t, http.MethodPost, greedy[kind].path, "", q)
}

func (e *Engine) send(t *testing.T, method, path, key string, body any) (status int, reply object) {
	t.Helper()
	b, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), method, "http://one"+path, bytes.NewReader(b))
	require.NoError(t, err)
	if key != "" {
		r.Header.Set("Authorization", key)
	}
	answer, err := NewWire(map[string]http.Handler{"one": e}).RoundTrip(r)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, nil
	}
	require.NoError(t, err)
	_ = json.NewDecoder(answer.Body).Decode(&reply) // some replies are empty
	return answer.StatusCode, reply
}

// with returns fields with another value of one.
func with(fields object, name string, value any) object {
	f := maps.Clone(fields)
	f[name] = value
	return f
}

// tokens returns n tokens that begin with first.
func tokens(first int32, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = (first + int32(7*i)) % 256
	}
	return ids
}

// TestLimits: the longest context and the largest numbers are answered, and one more is not; nor are no tokens and
// tokens that are not there.
func TestLimits(t *testing.T) {
	for kind, g := range greedy {
		e := newEngine(kind)
		longest := 50
		if kind == "sglang" {
			longest -= 5
		}
		for _, c := range []struct {
			name    string
			context []int32
			status  int
		}{
			{"the longest context", tokens(3, longest), 200}, {"too long", tokens(3, longest+1), 400},
			{"no tokens", nil, 400}, {"the last token", []int32{299}, 200}, {"no such token", []int32{300}, 400},
			{"a negative token", []int32{1, -1}, 400},
		} {
			t.Run(kind+" "+c.name, func(t *testing.T) {
				if kind == "sglang" && len(c.context) == 1 && c.context[0] == 300 {
					c.status = 0 // it ends the process
				}
				status, _ := e.ask(t, kind, c.context, g.fields)
				assert.Equal(t, c.status, status)
			})
		}
	}
	for n, want := range map[int]int{20: 200, 21: 400} {
		status, _ := newEngine("vllm").ask(t, "vllm", tokens(3, 5), with(greedy["vllm"].fields, "logprobs", n))
		assert.Equal(t, want, status, n)
	}
	g := greedy["generate"].fields
	for _, name := range []string{"logprobs", "prompt_logprobs"} {
		for n, want := range map[int]int{20: 200, 21: 400} {
			fields := with(g, "sampling_params", with(g["sampling_params"].(object), name, n))
			status, _ := newEngine("generate").ask(t, "generate", tokens(3, 5), fields)
			assert.Equal(t, want, status, "%s: %d", name, n)
		}
	}
	status, _ := newEngine("vllm").ask(t, "vllm", tokens(3, 5), with(greedy["vllm"].fields, "model", "another"))
	assert.Equal(t, http.StatusNotFound, status)
	status, _ = newEngine("vllm").ask(t, "vllm", tokens(3, 5), with(greedy["vllm"].fields, "cache_salt", ""))
	assert.Equal(t, http.StatusBadRequest, status)
	status, _ = (&Engine{Dialect: "vllm", NoGenerate: true}).ask(t, "generate", tokens(3, 5), g)
	assert.Equal(t, http.StatusForbidden, status)
}

// TestKeys: an engine with a key answers without it only what real ones do.
func TestKeys(t *testing.T) {
	for _, kind := range []string{"llama", "sglang", "vllm"} {
		e := newEngine(kind)
		e.Key = "right"
		for path, open := range map[string]bool{"/health": true, "/v1/models": kind == "llama", "/props": false} {
			for _, key := range []string{"", "Bearer wrong", "right", "Bearer right"} {
				right := key == "Bearer right"
				status, _ := e.send(t, http.MethodGet, path, key, nil)
				assert.Equal(t, !open && !right, status == http.StatusUnauthorized, "%s%s with %q", kind, path, key)
			}
		}
		var sent []string
		for _, c := range e.Calls("/health") {
			sent = append(sent, c.Auth)
		}
		assert.ElementsMatch(t, []string{"", "Bearer wrong", "right", "Bearer right"}, sent)
	}
}

// TestCached: an engine reports what it has computed before: of the same salt, in whole blocks, and never all.
func TestCached(t *testing.T) {
	reuse := func(e *Engine, kind string, context []int32, fields object) any {
		status, reply := e.ask(t, kind, context, fields)
		require.Equal(t, http.StatusOK, status, "%v", reply)
		if kind == "llama" {
			assert.EqualValues(t, len(context), reply["timings/cache_n"].(float64)+reply["timings/prompt_n"].(float64))
			return reply["timings/cache_n"]
		}
		if kind == "sglang" {
			return reply["meta_info"].(object)["cached_tokens"]
		}
		return reply["usage"].(object)["prompt_tokens_details"].(object)["cached_tokens"]
	}
	long := tokens(1, 40)
	branch := append(slices.Clone(long[:20]), 255, 255)
	for _, c := range []struct {
		kind, salt                         string
		again, other, branch, block, whole int // tokens
	}{
		{"vllm", "cache_salt", 32, 0, 16, 16, 16}, {"generate", "cache_salt", 32, 0, 16, 16, 16},
		{"sglang", "extra_key", 39, 0, 20, 31, 31}, {"llama", "id_slot", 39, 0, 20, 20, 31},
	} {
		e, g := newEngine(c.kind), greedy[c.kind].fields
		assert.EqualValues(t, 0, reuse(e, c.kind, long, g), c.kind)
		assert.EqualValues(t, c.again, reuse(e, c.kind, long, g), c.kind)
		salt := any("pepper")
		if c.kind == "llama" {
			salt = 1
		}
		assert.EqualValues(t, c.other, reuse(e, c.kind, long, with(g, c.salt, salt)), c.kind)
		assert.EqualValues(t, c.branch, reuse(e, c.kind, branch, g), c.kind)
		assert.EqualValues(t, c.block, reuse(e, c.kind, long[:32], g), c.kind)
		assert.EqualValues(t, c.whole, reuse(e, c.kind, long[:32], g), c.kind)
	}
	e, g := newEngine("sglang"), with(greedy["sglang"].fields, "logprob_start_len", 4)
	reuse(e, "sglang", long, g)
	assert.EqualValues(t, 4, reuse(e, "sglang", long, g), "the rest is computed for its rows")
	e = newEngine("llama")
	e.Slots = 2
	reuse(e, "llama", long, greedy["llama"].fields)
	assert.EqualValues(t, 39, reuse(e, "llama", long, with(greedy["llama"].fields, "id_slot", 2)), "there is no slot 2")
}

// TestWire: a host without an engine, and one that ends the connection, answer nothing; a caller that leaves gets its
// reason.
func TestWire(t *testing.T) {
	wait := make(chan struct{})
	w := NewWire(map[string]http.Handler{"here": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/wait":
			<-wait
		}
		w.Header().Set("X-Own", "yes")
		w.WriteHeader(http.StatusTeapot)
	})})
	get := func(ctx context.Context, url string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		return w.RoundTrip(r)
	}
	for _, url := range []string{"http://there/", "http://here/abort"} {
		_, err := get(t.Context(), url)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, url)
	}
	answer, err := get(t.Context(), "http://here/")
	require.NoError(t, err)
	assert.Equal(t, http.StatusTeapot, answer.StatusCode)
	assert.Equal(t, "yes", answer.Header.Get("X-Own"))
	why := errors.New("bored")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err = get(ctx, "http://here/wait")
	assert.ErrorIs(t, err, why)
	close(wait)
	w.Set("there", &Engine{Dialect: "vllm"})
	w.Set("here", nil)
	_, err = get(t.Context(), "http://there/health")
	assert.NoError(t, err)
	_, err = get(t.Context(), "http://here/")
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestUnlike: the fields that only one of two requests has, or that differ, are named, also within others.
func TestUnlike(t *testing.T) {
	x := &Transcript{sent: []byte(`{"same": [1], "other": 2, "new": 0, "in": {"same": 1, "other": 2, "new": null}}`)}
	x.Request.Method, x.Request.Path = http.MethodPost, "/ask"
	x.Request.Body = []byte(`{"same": [1], "other": 1, "old": 0, "in": {"same": 1, "other": 1, "old": 0}}`)
	names, err := x.Unlike()
	require.NoError(t, err)
	assert.Equal(t, []string{"in.old", "in.other", "new", "old", "other"}, names)
	names, err = x.Unlike("in.other", "new", "old")
	require.NoError(t, err)
	assert.Equal(t, []string{"in.old", "other"}, names)
	var other int
	require.NoError(t, x.Field(&other, "in", "other"))
	assert.Equal(t, 1, other)
	for _, r := range []string{"GET /ask", "POST /tell"} {
		method, path, _ := strings.Cut(r, " ")
		q, err := http.NewRequestWithContext(t.Context(), method, "http://one"+path, http.NoBody)
		require.NoError(t, err)
		_, err = x.RoundTrip(q)
		assert.ErrorContains(t, err, "POST /ask was recorded, not "+r)
	}
}
