package serve

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestSuffix: a completion with a suffix is an infill, and ends at a mark.
func TestSuffix(t *testing.T) {
	m := &fakeModel{answer: func(string, terms.Settings) string { return "mid\x02dle" }}
	s := newTestServer(t, m, nil)
	w := ask(t, s, "/v1/completions", `{"prompt":["a","b"],"suffix":"z","max_tokens":20}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Equal(t, []string{"\x01a\x02z\x03", "\x01b\x02z\x03"}, m.prompts)
	o := object(t, w.Body.Bytes())
	for i := range 2 {
		assert.Equal(t, "mid", at(o, "choices", i, "text"))
		assert.Equal(t, "stop", at(o, "choices", i, "finish_reason"))
	}
	w = ask(t, s, "/v1/completions", `{"prompt":"a","suffix":"","max_tokens":20}`)
	assert.Equal(t, "mid\x02dle", at(object(t, w.Body.Bytes()), "choices", 0, "text"),
		"without a suffix a mark is text")
	for path, body := range map[string]string{"/v1/completions": `{"prompt":"a","suffix":"z"}`,
		"/infill": `{"input_prefix":"a","input_suffix":"z"}`} {
		w = ask(t, newTestServer(t, &fakeModel{solid: true}, nil), path, body)
		assert.Equal(t, http.StatusBadRequest, w.Code)
		assert.Equal(t, "no_infill", at(object(t, w.Body.Bytes()), "error", "code"))
	}
}

// TestInfill: the answer has the fields of llama-server's, complete and streamed, with the same text.
func TestInfill(t *testing.T) {
	m := &fakeModel{answer: func(string, terms.Settings) string { return "x\n y\x03z" }}
	s := newTestServer(t, m, nil)
	const request = `{"input_prefix":"a\n","prompt":"  b","input_suffix":"c","n_predict":9,"cache_prompt":true,` +
		`"input_extra":[{"filename":"f","text":"t"},{"text":"u"}]%s}`
	const prompt = "myproject/f:t;tmp:u;filename\x01a\n  b\x02c\x03"
	w := ask(t, s, "/infill", fmt.Sprintf(request, ""))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	o := object(t, w.Body.Bytes())
	assert.Equal(t, []string{prompt}, m.prompts)
	whole := map[string]any{"content": "x\n y", "stop": true, "stop_type": "eos", "stopping_word": "", "index": 0.0,
		"id_slot": 0.0, "tokens_predicted": 5.0, "tokens_evaluated": float64(len(prompt)),
		"model": "fish", "truncated": false, "tokens_cached": float64(len(prompt) + 5)}
	for name, want := range whole {
		assert.Equal(t, want, o[name], name)
	}
	assert.Equal(t, terms.Settings{MaxTokens: 9, Temperature: 0.8, TopP: 0.95, TopK: 40, MinP: 0.05,
		Seed: m.asked[0].Seed}, m.asked[0], "the defaults of llama-server")
	all, done := events(t, ask(t, s, "/infill", fmt.Sprintf(request, `,"stream":true`)).Body.Bytes())
	assert.False(t, done, "llama-server sends no [DONE] here")
	text := ""
	for i, one := range all {
		text += one["content"].(string)
		last := i == len(all)-1
		assert.Equal(t, last, one["stop"])
		ids := []any{}
		for _, c := range one["content"].(string) {
			ids = append(ids, float64(c))
		}
		assert.Equal(t, ids, one["tokens"])
		assert.EqualValues(t, i+1, one["tokens_predicted"], "the mark that ends it counts")
		assert.EqualValues(t, len(prompt), one["tokens_evaluated"])
	}
	assert.Equal(t, "x\n y", text)
	last := all[len(all)-1]
	for name, want := range whole {
		if name != "content" {
			assert.Equal(t, want, last[name], name)
		}
	}
	for request, want := range map[string]string{
		`"n_predict":2`: "limit", `"stop":["y"]`: "word", `"n_predict":0`: "limit", `"n_predict":-1`: "eos",
	} {
		o = object(t, ask(t, s, "/infill", `{"input_prefix":"a","input_suffix":"c",`+request+`}`).Body.Bytes())
		assert.Equal(t, want, o["stop_type"], request)
	}
	o = object(t, ask(t, s, "/infill", `{"input_prefix":"a","input_suffix":"c","model":"small"}`).Body.Bytes())
	assert.Equal(t, "small", o["model"])
	assert.Equal(t, "y", object(t, ask(t, s, "/infill",
		`{"input_prefix":"a","input_suffix":"c","stop":"y"}`).Body.Bytes())["stopping_word"])
}

// TestInfillRoom: the prompt leaves room for the answer, up to half of the context and 128 tokens if the answer may be
// of any length. It has 8 tokens at least.
func TestInfillRoom(t *testing.T) {
	for _, c := range []struct{ context, answer, most int }{
		{1001, 0, 1000 - 128}, {1001, 1, 999}, {1001, 200, 800}, {1001, 900, 500}, {301, 200, 150},
		{201, 0, 100}, {17, 0, 8}, {16, 0, 8}, {4, 1, 8}, {10, 1, 8},
	} {
		t.Run(fmt.Sprintf("a context of %d, an answer of %d", c.context, c.answer), func(t *testing.T) {
			m := &fakeModel{context: c.context}
			s := newTestServer(t, m, nil)
			body := `{"input_prefix":"","input_suffix":""`
			if c.answer > 0 {
				body += fmt.Sprintf(`,"n_predict":%d`, c.answer)
			}
			ask(t, s, "/infill", body+`}`)
			require.Len(t, m.gaps, 2)
			assert.Zero(t, m.gaps[0].Most)
			assert.Equal(t, c.most, m.gaps[1].Most)
		})
	}
}

// TestTimings: times and rates of the prompt and of the answer, and no rate of what took no time.
func TestTimings(t *testing.T) {
	var u usage
	assert.Zero(t, newInfillTimings(u))
	u.Prompt, u.Details.Cached, u.Completion, u.first, u.took = 25, 5, 8, 2*time.Second, 4*time.Second
	assert.Equal(t, infillTimings{CacheN: 5, PromptN: 20, PromptMS: 2000, PromptTPS: 10, PromptEach: 100,
		PredictedN: 8, PredictedMS: 4000, PredictedTPS: 2, PredictedEach: 500}, newInfillTimings(u))
	u.first, u.Details.Cached = 0, 25
	assert.Equal(t, infillTimings{CacheN: 25, PredictedN: 8, PredictedMS: 4000, PredictedTPS: 2, PredictedEach: 500},
		newInfillTimings(u))
}

// TestTimingsInQueue: the time that a request waits for others is in none of its times.
func TestTimingsInQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &fakeModel{step: time.Second, answer: func(string, terms.Settings) string { return "abcd" }}
		s := newTestServer(t, m, func(o *Options) { o.Parallel = 1 })
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				w := ask(t, s, "/infill", `{"input_prefix":"a","input_suffix":"c","n_predict":3}`)
				o := object(t, w.Body.Bytes())
				assert.Equal(t, 1000.0, at(o, "timings", "prompt_ms"))
				assert.Equal(t, 2000.0, at(o, "timings", "predicted_ms"))
			})
		}
		all.Wait()
	})
}

// TestLines: a second line ends an infill after a time.
func TestLines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &fakeModel{step: time.Second, answer: func(string, terms.Settings) string { return "abcd\nefgh" }}
		s := newTestServer(t, m, nil)
		o := object(t, ask(t, s, "/infill",
			`{"input_prefix":"a","input_suffix":"c","t_max_predict_ms":2500}`).Body.Bytes())
		assert.Equal(t, "abcd\n", o["content"])
		assert.Equal(t, "limit", o["stop_type"])
		o = object(t, ask(t, s, "/infill",
			`{"input_prefix":"a","input_suffix":"c","t_max_predict_ms":5500}`).Body.Bytes())
		assert.Equal(t, "abcd\nef", o["content"])
	})
}

// TestEchoOfNothing: the text is repeated even if nothing follows it.
func TestEchoOfNothing(t *testing.T) {
	s := newTestServer(t, &fakeModel{answer: func(string, terms.Settings) string { return "" }}, nil)
	for _, more := range []string{``, `,"max_tokens":0`, `,"logprobs":1`} {
		all, done := events(t, ask(t, s, "/v1/completions", `{"prompt":["ab","c"],"n":2,"echo":true,"stream":true`+more+
			`}`).Body.Bytes())
		require.True(t, done)
		texts := make([]string, 4)
		for _, e := range all {
			texts[int(at(e, "choices", 0, "index").(float64))] += at(e, "choices", 0, "text").(string)
		}
		assert.Equal(t, []string{"ab", "ab", "c", "c"}, texts, more)
	}
}

// TestEchoLogProbs: the prompt's tokens have log-probabilities, except the first, and so have those of the answer with
// the end token, complete and streamed; with max_tokens 0 only the prompt.
func TestEchoLogProbs(t *testing.T) {
	m := &fakeModel{answer: func(string, terms.Settings) string { return "xy" }}
	s := newTestServer(t, m, nil)
	probs := func(o any) any { return at(o, "choices", 0, "logprobs") }
	o := object(t, ask(t, s, "/v1/completions",
		`{"prompt":"aéb","max_tokens":3,"echo":true,"logprobs":1}`).Body.Bytes())
	assert.Equal(t, "aébxy", at(o, "choices", 0, "text"))
	assert.Equal(t, []any{"a", `bytes:\xc3`, `bytes:\xa9`, "b", "x", "y", "<end>"}, at(probs(o), "tokens"))
	assert.Equal(t, []any{nil, -0.125, -0.25, -0.375, -0.25, -0.25, -0.5}, at(probs(o), "token_logprobs"))
	assert.Equal(t, []any{0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0}, at(probs(o), "text_offset"))
	assert.Equal(t, nil, at(probs(o), "top_logprobs", 0))
	assert.Equal(t, map[string]any{"b": -0.375}, at(probs(o), "top_logprobs", 3))

	m.asked = nil
	o = object(t, ask(t, s, "/v1/completions",
		`{"prompt":[[97,98],[256]],"max_tokens":0,"echo":true,"logprobs":0,"n":2}`).Body.Bytes())
	assert.Empty(t, m.asked, "nothing is generated")
	assert.Len(t, at(o, "choices"), 4)
	assert.Equal(t, []any{nil, -0.125}, at(o, "choices", 1, "logprobs", "token_logprobs"))
	assert.Equal(t, []any{"<end>"}, at(o, "choices", 2, "logprobs", "tokens"))
	assert.Equal(t, "length", at(o, "choices", 3, "finish_reason"))
	assert.Equal(t, 0.0, at(o, "usage", "completion_tokens"))

	all, done := events(t, ask(t, s, "/v1/completions",
		`{"prompt":"ab","max_tokens":1,"echo":true,"logprobs":1,"stream":true}`).Body.Bytes())
	require.True(t, done)
	assert.Equal(t, "ab", at(all[0], "choices", 0, "text"))
	assert.Equal(t, []any{nil, -0.125}, at(probs(all[0]), "token_logprobs"))
	assert.Equal(t, []any{2.0}, at(probs(all[1]), "text_offset"))
	m.fail = func(string) error { return errors.New("broken") }
	w := ask(t, s, "/v1/completions", `{"prompt":"ab","max_tokens":0,"echo":true,"logprobs":1}`)
	assert.Equal(t, http.StatusInternalServerError, w.Code)
}
