package fakeengine

import (
	"fmt"
	"math"
	"net/http"
)

// vllmGenerate has the fields of /inference/v1/generate that an answer depends on.
type vllmGenerate struct {
	Model    string  `json:"model"`
	Context  []int32 `json:"token_ids"`
	Sampling struct {
		LogProbs       *int  `json:"logprobs"`
		PromptLogProbs *int  `json:"prompt_logprobs"`
		SkipCache      *bool `json:"skip_reading_prefix_cache"`
	} `json:"sampling_params"`
	Salt *string `json:"cache_salt"`
}

// vllmCompletions has those of /v1/completions.
type vllmCompletions struct {
	Model    string  `json:"model"`
	Prompt   []int32 `json:"prompt"`
	LogProbs *int    `json:"logprobs"`
	IDs      bool    `json:"return_token_ids"`
	Salt     *string `json:"cache_salt"`
}

// vllmBlock is the number of tokens in a block of the prefix cache.
const vllmBlock = 16

func (e *Engine) registerVLLM() {
	e.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	e.mux.HandleFunc("GET /version",
		func(w http.ResponseWriter, _ *http.Request) { writeReply(w, object{"version": "0.32.0"}) })
	e.mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeReply(w, object{"data": []object{{"id": e.Name, "owned_by": "vllm", "max_model_len": e.MaxContext}}})
	})
	handlePost(e, "/inference/v1/generate", e.vllmGenerate)
	handlePost(e, "/v1/completions", e.vllmCompletions)
	handlePost(e, "/tokenize", func(w http.ResponseWriter, q struct {
		Model      string `json:"model"`
		Prompt     string `json:"prompt"`
		AddSpecial bool   `json:"add_special_tokens"`
	}) {
		writeReply(w, object{"tokens": e.Vocabulary.Encode(q.Prompt)})
	})
	handlePost(e, "/detokenize", func(w http.ResponseWriter, q struct {
		Model  string  `json:"model"`
		Tokens []int32 `json:"tokens"`
	}) {
		writeReply(w, object{"prompt": e.detokenize(q.Tokens)})
	})
}

// vllmRefuses checks a request in the way of both endpoints. It reports whether it answered with an error.
func (e *Engine) vllmRefuses(w http.ResponseWriter, model string, k *int, salt *string, context []int32) bool {
	switch {
	case model != e.Name:
		writeErrorReply(w, http.StatusNotFound, "NotFoundError", "The model does not exist.")
	case salt != nil && *salt == "":
		writeErrorReply(w, http.StatusBadRequest, "BadRequestError", "must be a non-empty string if provided")
	case k != nil && *k > e.MaxTop:
		writeErrorReply(w, http.StatusBadRequest, "BadRequestError",
			fmt.Sprintf("Requested sample logprobs of %d, which is greater than max allowed: %d", *k, e.MaxTop))
	default:
		const long = "The decoder prompt is longer than the maximum model length"
		return !e.validateContext(w, context, e.MaxContext-1, "BadRequestError", long)
	}
	return true
}

func stringOrEmpty(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func (e *Engine) vllmGenerate(w http.ResponseWriter, q vllmGenerate) {
	s := q.Sampling
	switch {
	case e.NoGenerate:
		writeErrorReply(w, http.StatusForbidden, "PermissionDeniedError", "Scale-out endpoints are disabled.")
		return
	case e.vllmRefuses(w, q.Model, s.LogProbs, q.Salt, q.Context):
		return
	case s.PromptLogProbs != nil && *s.PromptLogProbs > e.MaxTop:
		writeErrorReply(w, http.StatusBadRequest, "BadRequestError",
			"Requested prompt logprobs are greater than max allowed")
		return
	}
	cached := e.cachedPrefixLen(stringOrEmpty(q.Salt), q.Context, vllmBlock)
	var rows any
	if s.PromptLogProbs != nil {
		if !pointsTo(s.SkipCache, false) {
			cached = 0
		}
		rows = e.promptRows(q.Context, cached, *s.PromptLogProbs)
	}
	best := e.rankCandidates(q.Context)
	choice := object{"index": 0, "token_ids": []int32{best[0].id}, "finish_reason": "length", "logprobs": nil}
	if k := s.LogProbs; k != nil {
		var top []object
		for i, c := range best[:*k] {
			top = append(top, object{"token_id": c.id, "logprob": c.p, "rank": i + 1})
		}
		choice["logprobs"] = object{"content": []object{{"token_id": best[0].id, "logprob": best[0].p,
			"top_logprobs": top}}}
	}
	writeReply(w, object{"choices": []object{choice}, "prompt_logprobs": rows,
		"usage": object{"prompt_tokens_details": object{"cached_tokens": cached}}})
}

// promptRows returns prompt_logprobs of a partly cached context: the k best tokens, and the one in the context.
func (e *Engine) promptRows(context []int32, cached, k int) []any {
	rows := []any{nil}
	for pos := cached + 1; pos < len(context); pos++ {
		row := object{}
		for i, c := range e.rankCandidates(context[:pos]) {
			if i < k || c.id == context[pos] {
				row[fmt.Sprint(c.id)] = object{"logprob": math.Max(c.p, -1e3), "rank": i + 1}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (e *Engine) vllmCompletions(w http.ResponseWriter, q vllmCompletions) {
	if e.vllmRefuses(w, q.Model, q.LogProbs, q.Salt, q.Prompt) {
		return
	}
	writeReply(w, object{"choices": []object{e.vllmChoice(q)}, "usage": object{"prompt_tokens_details": object{
		"cached_tokens": e.cachedPrefixLen(stringOrEmpty(q.Salt), q.Prompt, vllmBlock)}}})
}

func (e *Engine) vllmChoice(q vllmCompletions) object {
	best := e.rankCandidates(q.Prompt)
	choice := object{"index": 0, "text": "?", "finish_reason": "length", "logprobs": nil}
	if q.IDs {
		choice["token_ids"], choice["prompt_token_ids"] = []int32{best[0].id}, q.Prompt
	}
	if k := q.LogProbs; k != nil {
		top := object{}
		for _, c := range best[:*k] {
			top[tokenIDName(c.id)] = c.p
		}
		choice["logprobs"] = object{"tokens": []string{tokenIDName(best[0].id)}, "token_logprobs": []float64{best[0].p},
			"top_logprobs": []object{top}}
	}
	return choice
}
