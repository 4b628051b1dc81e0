package fakeengine

import (
	"net/http"
	"slices"
)

// sglangRequest has the fields of /generate that an answer depends on.
type sglangRequest struct {
	ID       string  `json:"rid"`
	Context  []int32 `json:"input_ids"`
	Sampling struct {
		Tokens int `json:"max_new_tokens"`
	} `json:"sampling_params"`
	LogProb      bool   `json:"return_logprob"`
	LogProbStart int    `json:"logprob_start_len"`
	Top          int    `json:"top_logprobs_num"`
	ExtraKey     string `json:"extra_key"`
}

func (e *Engine) registerSGLang() {
	e.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	e.mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeReply(w, object{"data": []object{{"id": e.Name, "owned_by": "sglang", "max_model_len": e.MaxContext}}})
	})
	e.mux.HandleFunc("GET /get_model_info", func(w http.ResponseWriter, _ *http.Request) {
		writeReply(w, object{"model_path": "/models/fake"})
	})
	e.mux.HandleFunc("GET /server_info", func(w http.ResponseWriter, _ *http.Request) {
		writeReply(w, object{"version": "0.5.23", "page_size": 1, "max_running_requests": 16,
			"disable_radix_cache": false})
	})
	handlePost(e, "/abort_request", func(w http.ResponseWriter, _ struct {
		ID string `json:"rid"`
	}) {
	})
	handlePost(e, "/generate", e.sglangGenerate)
	handlePost(e, "/tokenize", func(w http.ResponseWriter, q struct {
		Prompt     string `json:"prompt"`
		AddSpecial bool   `json:"add_special_tokens"`
	}) {
		writeReply(w, object{"tokens": e.Vocabulary.Encode(q.Prompt)})
	})
	handlePost(e, "/detokenize", func(w http.ResponseWriter, q struct {
		Tokens      []int32 `json:"tokens"`
		SkipSpecial *bool   `json:"skip_special_tokens"`
	}) {
		var ids []int32
		for _, id := range q.Tokens {
			if id < e.Vocabulary.Special() || pointsTo(q.SkipSpecial, false) {
				ids = append(ids, id)
			}
		}
		writeReply(w, object{"text": e.detokenize(ids)})
	})
}

func (e *Engine) sglangGenerate(w http.ResponseWriter, q sglangRequest) {
	for _, id := range q.Context {
		if int(id) >= e.Vocabulary.Size() || q.Top > e.Vocabulary.Size() {
			panic(http.ErrAbortHandler) // such a request crashes the real engine
		}
	}
	if !e.validateContext(w, q.Context, e.MaxContext-6, "", "The input is longer than the model's context length") {
		return
	}
	start := q.LogProbStart
	cached := e.cachedPrefixLen(q.ExtraKey, q.Context, 1)
	if start >= 0 {
		cached = min(cached, start)
	}
	meta := object{"id": q.ID, "finish_reason": object{"type": "length"}, "cached_tokens": cached, "e2e_latency": 0.002}
	reply := object{"text": "", "output_ids": []int32{}, "meta_info": meta}
	best := e.rankCandidates(q.Context)
	if q.Sampling.Tokens > 0 {
		reply["output_ids"] = []int32{best[0].id}
	}
	if q.LogProb {
		meta["output_top_logprobs"] = []any{sglangLogProbRows(best[:q.Top])}
		rows, own := []any{nil}, []any{[]any{nil, 0, nil}}
		for pos := start + 1; start >= 0 && pos < len(q.Context); pos++ {
			all := e.rankCandidates(q.Context[:pos])
			at := slices.IndexFunc(all, func(c candidate) bool { return c.id == q.Context[pos] })
			rows, own = append(rows, sglangLogProbRows(all[:q.Top])), append(own, sglangLogProbRows(all[at : at+1])[0])
		}
		if start >= 0 {
			meta["input_top_logprobs"], meta["input_token_logprobs"] = rows, own
		}
	}
	writeReply(w, reply)
}

func sglangLogProbRows(best []candidate) (rows []any) {
	for _, c := range best {
		rows = append(rows, []any{c.p, c.id, nil})
	}
	return rows
}
