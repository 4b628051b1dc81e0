package fakeengine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// greedy has for each dialect the endpoint that continues a context, the name of the context, and all other fields of a
// request that it answers, one of which may hold fields of its own. The free ones may have any value of their type.
var greedy = map[string]struct {
	path, context, free string
	fields              object
}{
	"llama": {"/completion", "prompt", "n_predict n_probs id_slot chat_parser", object{
		"n_predict": 1, "temperature": 0, "top_k": 1, "top_p": 1, "min_p": 0, "repeat_penalty": 1,
		"presence_penalty": 0, "frequency_penalty": 0, "samplers": []any{"temperature"}, "n_probs": 2,
		"post_sampling_probs": false, "return_tokens": true, "cache_prompt": true, "id_slot": 0, "stream": false,
		"chat_parser": "",
	}},
	"sglang": {"/generate", "input_ids", "rid max_new_tokens return_logprob logprob_start_len top_logprobs_num", object{
		"rid": "r", "sampling_params": object{
			"max_new_tokens": 1, "temperature": 0, "top_p": 1, "top_k": 1, "min_p": 0, "frequency_penalty": 0,
			"presence_penalty": 0, "repetition_penalty": 1, "stop": []any{}, "stop_token_ids": []any{},
			"ignore_eos": false, "skip_special_tokens": false, "no_stop_trim": true,
		},
		"return_logprob": true, "logprob_start_len": -1, "top_logprobs_num": 2, "return_text_in_logprobs": false,
		"stream": false,
	}},
	"vllm": {"/v1/completions", "prompt", "stop stop_token_ids return_token_ids", object{
		"max_tokens": 1, "n": 1, "temperature": 0, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1,
		"presence_penalty": 0, "frequency_penalty": 0, "stop": []any{}, "stop_token_ids": []any{}, "ignore_eos": false,
		"add_special_tokens": false, "skip_special_tokens": false, "return_tokens_as_token_ids": true,
		"return_token_ids": true, "stream": false,
	}},
	"generate": {"/inference/v1/generate", "token_ids", "", object{
		"sampling_params": object{
			"max_tokens": 1, "n": 1, "temperature": 0, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1,
			"presence_penalty": 0, "frequency_penalty": 0, "detokenize": false,
		},
		"stream": false,
	}},
	"openai": {"/v1/completions", "prompt", "logprobs", object{
		"max_tokens": 1, "n": 1, "temperature": 0, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
		"logprobs": 2, "seed": 0, "stream": false,
	}},
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

// with returns fields with another value of one; nil removes it.
func with(fields object, name string, value any) object {
	f := maps.Clone(fields)
	if f[name] = value; value == nil {
		delete(f, name)
	}
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

// TestEveryFieldCounts: an engine answers a greedy request only if no field of sampling is missing or has another
// value, and refuses fields that it does not know: a client that leaves one out must not pass its tests.
func TestEveryFieldCounts(t *testing.T) {
	another := func(v any) any {
		switch v := v.(type) {
		case int:
			return v + 1
		case bool:
			return !v
		case []any:
			if len(v) > 0 {
				return append(slices.Clone(v), "min_p")
			}
			return []any{7}
		}
		return v.(string) + "x"
	}
	for kind, g := range greedy {
		e := newEngine(kind)
		status := func(fields object) int {
			status, _ := e.ask(t, kind, tokens(1, 5), fields)
			return status
		}
		require.Equal(t, http.StatusOK, status(g.fields), kind)
		assert.Equal(t, http.StatusBadRequest, status(with(g.fields, "best_of", 1)), kind)
		check := func(name string, v any, fields func(v any) object) {
			assert.Equal(t, http.StatusTeapot, status(fields(nil)), "%s without %s", kind, name)
			want := http.StatusTeapot
			if slices.Contains(strings.Fields(g.free), name) {
				want = http.StatusOK
			}
			other := another(v)
			if name == "stop" {
				other = []any{"x"}
			}
			assert.Equal(t, want, status(fields(other)), "%s with another %s", kind, name)
		}
		for name, v := range g.fields {
			inner, nested := v.(object)
			if !nested {
				check(name, v, func(v any) object { return with(g.fields, name, v) })
				continue
			}
			for field, v := range inner {
				check(field, v, func(v any) object { return with(g.fields, name, with(inner, field, v)) })
			}
		}
	}
	strict := &Engine{Dialect: "openai", Strict: true}
	status, _ := strict.ask(t, "openai", tokens(1, 5), greedy["openai"].fields)
	assert.Equal(t, http.StatusOK, status)
	status, _ = strict.ask(t, "openai", tokens(1, 5), with(greedy["openai"].fields, "top_k", 1))
	assert.Equal(t, http.StatusBadRequest, status)
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
			context []int32
			status  int
		}{
			{tokens(3, longest), 200}, {tokens(3, longest+1), 400}, {nil, 400},
			{[]int32{299}, 200}, {[]int32{300}, 400}, {[]int32{1, -1}, 400},
		} {
			if kind == "sglang" && len(c.context) == 1 && c.context[0] == 300 {
				c.status = 0 // it ends the process
			}
			status, _ := e.ask(t, kind, c.context, g.fields)
			assert.Equal(t, c.status, status, "%s: %v", kind, c.context)
		}
	}
	for kind, name := range map[string]string{"vllm": "logprobs", "openai": "logprobs"} {
		for n, want := range map[int]int{20: 200, 21: 400} {
			status, _ := newEngine(kind).ask(t, kind, tokens(3, 5), with(greedy[kind].fields, name, n))
			assert.Equal(t, want, status, "%s: %d", kind, n)
		}
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

// TestAnswers: an engine answers with the most probable token, and the best ones with their log-probabilities.
func TestAnswers(t *testing.T) {
	context := tokens(1, 5)
	v := NewVocabulary()
	want := (&Engine{Model: Table(v, 1)}).best(context)[:2]
	require.Greater(t, want[0].p, want[1].p)
	first := func(reply object, names ...string) any {
		var at any = reply
		for _, name := range names {
			at = at.(object)[name]
			if list, ok := at.([]any); ok && name != "tokens" {
				at = list[0]
			}
		}
		return at
	}
	numbers := func(of any, names ...string) (all []any) {
		for _, name := range names {
			all = append(all, of.(object)[name])
		}
		return all
	}
	for kind, check := range map[string]func(reply object){
		"llama": func(reply object) {
			assert.Equal(t, []any{float64(want[0].id)}, reply["tokens"])
			one := first(reply, "completion_probabilities")
			assert.Equal(t, []any{float64(want[0].id), want[0].p}, numbers(one, "id", "logprob"))
			for i, c := range one.(object)["top_logprobs"].([]any) {
				assert.Equal(t, []any{float64(want[i].id), want[i].p}, numbers(c, "id", "logprob"))
			}
		},
		"sglang": func(reply object) {
			assert.Equal(t, []any{float64(want[0].id)}, reply["output_ids"])
			rows := reply["meta_info"].(object)["output_top_logprobs"].([]any)
			for i, c := range rows[0].([]any) {
				assert.Equal(t, []any{want[i].p, float64(want[i].id), nil}, c)
			}
		},
		"vllm": func(reply object) {
			assert.EqualValues(t, want[0].id, first(reply, "choices", "token_ids"))
			assert.Equal(t, object{named(want[0].id): want[0].p, named(want[1].id): want[1].p},
				first(reply, "choices", "logprobs", "top_logprobs"))
		},
		"generate": func(reply object) {
			assert.EqualValues(t, want[0].id, first(reply, "choices", "token_ids"))
			one := first(reply, "choices", "logprobs", "content")
			for i, c := range one.(object)["top_logprobs"].([]any) {
				assert.Equal(t, []any{float64(want[i].id), want[i].p, float64(i + 1)},
					numbers(c, "token_id", "logprob", "rank"))
			}
		},
		"openai": func(reply object) {
			assert.Equal(t, []any{v.text([]int32{want[0].id})}, first(reply, "choices", "logprobs", "tokens"))
			assert.Equal(t, object{v.text([]int32{want[0].id}): want[0].p, v.text([]int32{want[1].id}): want[1].p},
				first(reply, "choices", "logprobs", "top_logprobs"))
			assert.Nil(t, first(reply, "choices", "token_ids"))
		},
	} {
		fields := greedy[kind].fields
		switch kind {
		case "vllm":
			fields = with(fields, "logprobs", 2)
		case "generate":
			fields = with(fields, "sampling_params", with(fields["sampling_params"].(object), "logprobs", 2))
		}
		status, reply := newEngine(kind).ask(t, kind, context, fields)
		require.Equal(t, http.StatusOK, status, kind)
		check(reply)
	}
}

// TestOptions: what some requests ask for beside the next token.
func TestOptions(t *testing.T) {
	context := tokens(1, 5)
	ask := func(e *Engine, kind string, fields object) object {
		t.Helper()
		status, reply := e.ask(t, kind, context, fields)
		require.Equal(t, http.StatusOK, status, kind)
		return reply
	}
	e := newEngine("llama")
	reply := ask(e, "llama", with(greedy["llama"].fields, "n_predict", 3))
	ids := slices.Clone(context)
	for i, id := range reply["tokens"].([]any) {
		assert.EqualValues(t, e.best(ids)[0].id, id, "token %d continues the ones before", i)
		ids = append(ids, int32(id.(float64)))
	}
	assert.Len(t, ids, len(context)+3)
	assert.Len(t, reply["completion_probabilities"], 3)
	cut := newEngine("llama")
	cut.Model = func([]int32) []float64 { // the beginning of a character
		p := slices.Repeat([]float64{-9}, NewVocabulary().Size())
		p[0xe4] = -1
		return p
	}
	assert.Nil(t, ask(cut, "llama", greedy["llama"].fields)["completion_probabilities"], "held back")
	assert.Len(t, ask(cut, "llama", with(greedy["llama"].fields, "n_predict", 2))["completion_probabilities"], 2)

	sampling := with(greedy["sglang"].fields["sampling_params"].(object), "max_new_tokens", 0)
	e = newEngine("sglang")
	reply = ask(e, "sglang", with(with(greedy["sglang"].fields, "sampling_params", sampling), "logprob_start_len", 2))
	assert.Empty(t, reply["output_ids"])
	meta := reply["meta_info"].(object)
	rows, own := meta["input_top_logprobs"].([]any), meta["input_token_logprobs"].([]any)
	require.Len(t, rows, 3)
	require.Len(t, own, 3)
	assert.Nil(t, rows[0])
	for i := 1; i < 3; i++ {
		best := e.best(context[:2+i])
		assert.Equal(t, []any{best[0].p, float64(best[0].id), nil}, rows[i].([]any)[0])
		assert.Equal(t, []any{e.Model(context[:2+i])[context[2+i]], float64(context[2+i]), nil}, own[i])
	}

	e = newEngine("vllm")
	status, reply := e.send(t, http.MethodPost, greedy["vllm"].path, "",
		with(with(greedy["vllm"].fields, "model", "fake"), "prompt", [][]int32{context, context[:2]}))
	require.Equal(t, http.StatusOK, status)
	for i, choice := range reply["choices"].([]any) {
		c := choice.(object)
		assert.EqualValues(t, 1-i, c["index"], "not in the order of the request")
		assert.Len(t, c["prompt_token_ids"], []int{2, 5}[i])
	}

	e = newEngine("openai")
	e.Echo = true
	fields := with(with(greedy["openai"].fields, "echo", true), "return_token_ids", true)
	choice := ask(e, "openai", with(fields, "return_tokens_as_token_ids", true))["choices"].([]any)[0].(object)
	best := e.best(context)[0].id
	assert.Equal(t, []any{float64(best)}, choice["token_ids"])
	said := choice["logprobs"].(object)["tokens"].([]any)
	assert.Equal(t, []any{named(context[0]), named(best)}, []any{said[0], said[5]})
	e = newEngine("openai")
	said = ask(e, "openai", fields)["choices"].([]any)[0].(object)["logprobs"].(object)["tokens"].([]any)
	assert.Len(t, said, 1, "an engine without echo")
}

// TestDescriptions: what an engine says about itself and about texts.
func TestDescriptions(t *testing.T) {
	for kind, about := range map[string]map[string]string{
		"llama": {"/health": `{"status":"ok"}`, "/v1/models": `{"data":[{"id":"own","owned_by":"llamacpp",` +
			`"meta":{"n_vocab":304,"n_ctx":51}}]}`, "/props": `{"total_slots":3,"build_info":"b0-fake",` +
			`"default_generation_settings":{"n_ctx":51}}`},
		"sglang": {"/v1/models": `{"data":[{"id":"own","owned_by":"sglang","max_model_len":51}]}`,
			"/get_model_info": `{"model_path":"/models/fake"}`},
		"vllm": {"/v1/models": `{"data":[{"id":"own","owned_by":"vllm","max_model_len":51}]}`,
			"/version": `{"version":"0.32.0"}`},
		"openai": {"/v1/models": `{"data":[{"id":"own","owned_by":"somebody"}]}`},
	} {
		e := newEngine(kind)
		e.Slots, e.Name = 3, "own"
		for path, want := range about {
			_, reply := e.send(t, http.MethodGet, path, "", nil)
			got, err := json.Marshal(reply)
			require.NoError(t, err)
			assert.JSONEq(t, want, string(got), "%s%s", kind, path)
		}
	}
	v := NewVocabulary()
	for kind, text := range map[string]string{"llama": "content", "sglang": "prompt", "vllm": "prompt"} {
		_, reply := newEngine(kind).send(t, http.MethodPost, "/tokenize", "", object{text: "abc the"})
		want := []any{}
		for _, id := range v.Encode("abc the") {
			want = append(want, float64(id))
		}
		assert.Equal(t, object{"tokens": want}, reply, kind)
	}
	for skip, want := range map[bool]string{false: "abc<|im_end|>", true: "abc"} {
		ids := []int32{v.Find([]byte("abc")), v.Find([]byte("<|im_end|>"))}
		_, reply := newEngine("sglang").send(t, http.MethodPost, "/detokenize", "",
			object{"tokens": ids, "skip_special_tokens": skip})
		assert.Equal(t, object{"text": want}, reply)
	}
}

// TestKeys: an engine with a key answers without it only what real ones do.
func TestKeys(t *testing.T) {
	for _, kind := range []string{"llama", "sglang", "vllm", "openai"} {
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

// TestPromptRows: the rows of vLLM for the positions of a context have its own tokens, too; for a cached part they are
// missing, or rubbish, unless they are computed again.
func TestPromptRows(t *testing.T) {
	context := tokens(1, 20)
	for _, c := range []struct {
		kind    Rows
		skip    bool
		rows    int
		rubbish int
	}{{SuffixRows, false, 4, 0}, {RubbishRows, false, 20, 16}, {WholeRows, false, 20, 0}, {SuffixRows, true, 20, 0}} {
		e := newEngine("generate")
		e.Rows = c.kind
		g := greedy["generate"].fields
		g = with(g, "sampling_params", with(with(g["sampling_params"].(object), "prompt_logprobs", 1),
			"skip_reading_prefix_cache", c.skip))
		e.ask(t, "generate", context, g)
		_, reply := e.ask(t, "generate", context, g)
		rows := reply["prompt_logprobs"].([]any)
		require.Len(t, rows, c.rows)
		assert.Nil(t, rows[0])
		rubbish := 0
		for i, row := range rows[1:] {
			at := len(context) - len(rows) + 1 + i
			own, ok := row.(object)[fmt.Sprint(context[at])].(object)
			if !ok {
				rubbish++
				continue
			}
			want := e.Model(context[:at])[context[at]]
			assert.InDelta(t, want, own["logprob"], 1e-9)
			best := slices.IndexFunc(e.best(context[:at]), func(c candidate) bool { return c.id == context[at] })
			assert.EqualValues(t, best+1, own["rank"])
		}
		assert.Equal(t, c.rubbish, rubbish)
	}
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

// TestVocabulary: a text is cut into the longest tokens, and is the text of these again; a byte that is no character
// becomes U+FFFD.
func TestVocabulary(t *testing.T) {
	v := NewVocabulary()
	for _, s := range []string{"", "abcab", "Hello the world\n\n  don't", "你好é\x00", "ing\xff"} {
		ids := v.Encode(s)
		assert.Equal(t, strings.ToValidUTF8(s, "\uFFFD"), v.text(ids), s)
		for i := range ids[:max(len(ids), 1)-1] {
			together := append(slices.Clone(v.Piece(ids[i])), v.Piece(ids[i+1])...)
			assert.EqualValues(t, -1, v.Find(together), "%q", together)
		}
	}
	assert.Equal(t, "\uFFFD", v.text([]int32{0xe4}))
	abc := v.Find([]byte("abc"))
	assert.Equal(t, []int32{abc}, v.Encode("abc"))
	w := v.Swapped(abc, 'x')
	assert.Equal(t, "xabc", w.text([]int32{abc, 'x'}))
	assert.Equal(t, "abcx", v.text([]int32{abc, 'x'}), "the first one stays")
	assert.Equal(t, "<|endoftext|><|im_end|>", v.text([]int32{v.Special(), int32(v.Size() - 1)}))
	for strips, want := range map[bool]string{false: " the a", true: "the a"} {
		e := &Engine{Dialect: "vllm", Strips: strips}
		_, reply := e.send(t, http.MethodPost, "/detokenize", "", object{"tokens": v.Encode(" the a")})
		assert.Equal(t, want, reply["prompt"])
	}
}
