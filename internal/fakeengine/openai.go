package fakeengine

import (
	"net/http"
)

type openaiRequest struct {
	Model            string   `json:"model"`
	Prompt           []int32  `json:"prompt"`
	Tokens           *int     `json:"max_tokens"`
	N                *int     `json:"n"`
	Temperature      *float64 `json:"temperature"`
	TopP             *float64 `json:"top_p"`
	PresencePenalty  *float64 `json:"presence_penalty"`
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	LogProbs         *int     `json:"logprobs"`
	Seed             *int     `json:"seed"`
	Echo             bool     `json:"echo"`
	Stream           *bool    `json:"stream"`
}

type openaiExtras struct {
	openaiRequest
	TopK              *int     `json:"top_k"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	AddSpecial        *bool    `json:"add_special_tokens"`
	SkipSpecial       *bool    `json:"skip_special_tokens"`
	TokensAsIDs       *bool    `json:"return_tokens_as_token_ids"`
	IDs               *bool    `json:"return_token_ids"`
}

func (q openaiRequest) greedy() bool {
	return is(q.Tokens, 1) && is(q.N, 1) && is(q.Temperature, 0) && is(q.TopP, 1) && is(q.PresencePenalty, 0) &&
		is(q.FrequencyPenalty, 0) && is(q.Seed, 0) && is(q.Stream, false) && q.LogProbs != nil
}

func (e *Engine) openai() {
	e.mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		say(w, object{"data": []object{{"id": e.Name, "owned_by": "somebody"}}})
	})
	if e.Strict {
		handle(e, "/v1/completions", func(w http.ResponseWriter, q openaiRequest) {
			e.openaiAnswer(w, openaiExtras{openaiRequest: q})
		})
		return
	}
	handle(e, "/v1/completions", e.openaiAnswer)
}

func (e *Engine) openaiAnswer(w http.ResponseWriter, q openaiExtras) {
	switch {
	case !q.greedy():
		fail(w, http.StatusTeapot, "fake", "a field of sampling is left out, or not as it should be")
		return
	case *q.LogProbs > e.MaxTop:
		fail(w, http.StatusBadRequest, "invalid_request_error", "logprobs: too many")
		return
	case !e.check(w, q.Prompt, e.MaxContext-1, "invalid_request_error", "This model's maximum context length is less."):
		return
	}
	spell := func(id int32) string { return e.Vocabulary.text([]int32{id}) }
	if is(q.TokensAsIDs, true) {
		spell = named
	}
	best := e.best(q.Prompt)
	var tokens []string
	if q.Echo && e.Echo {
		for _, id := range q.Prompt {
			tokens = append(tokens, spell(id))
		}
	}
	top := object{}
	for _, c := range best[:*q.LogProbs] {
		top[spell(c.id)] = c.p
	}
	choice := object{"text": "?", "finish_reason": "length",
		"logprobs": object{"tokens": append(tokens, spell(best[0].id)), "top_logprobs": []object{top}}}
	if is(q.IDs, true) {
		choice["token_ids"] = []int32{best[0].id}
	}
	say(w, object{"choices": []object{choice}})
}
