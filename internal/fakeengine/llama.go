package fakeengine

import (
	"net/http"
	"slices"
	"unicode/utf8"
)

// llamaRequest has the fields of /completion that an answer depends on.
type llamaRequest struct {
	Prompt  []int32 `json:"prompt"`
	Predict int     `json:"n_predict"`
	Probs   int     `json:"n_probs"`
	Slot    int     `json:"id_slot"`
}

func pointsTo[T comparable](p *T, v T) bool { return p != nil && *p == v }

func (e *Engine) registerLlama() {
	e.mux.HandleFunc("GET /health",
		func(w http.ResponseWriter, _ *http.Request) { writeReply(w, object{"status": "ok"}) })
	e.mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeReply(w, object{"data": []object{{"id": e.Name, "owned_by": "llamacpp",
			"meta": object{"n_vocab": e.Vocabulary.Size() + 4, "n_ctx": e.MaxContext}}}})
	})
	e.mux.HandleFunc("GET /props", func(w http.ResponseWriter, _ *http.Request) {
		writeReply(w, object{"total_slots": e.Slots, "build_info": "b0-fake",
			"default_generation_settings": object{"n_ctx": e.MaxContext}})
	})
	handlePost(e, "/completion", e.llamaCompletion)
	handlePost(e, "/tokenize", func(w http.ResponseWriter, q struct {
		Content      string `json:"content"`
		AddSpecial   bool   `json:"add_special"`
		ParseSpecial bool   `json:"parse_special"`
	}) {
		writeReply(w, object{"tokens": e.Vocabulary.Encode(q.Content)})
	})
	handlePost(e, "/detokenize", func(w http.ResponseWriter, q struct{ Tokens []int32 }) {
		writeReply(w, object{"content": e.detokenize(q.Tokens)})
	})
}

func (e *Engine) llamaCompletion(w http.ResponseWriter, q llamaRequest) {
	const long = "request exceeds the available context size"
	if !e.validateContext(w, q.Prompt, e.MaxContext-1, "exceed_context_size_error", long) {
		return
	}
	e.mu.Lock()
	slot := q.Slot
	if slot >= e.Slots {
		slot = 0
	}
	cached := min(commonPrefixLen(e.slots[slot], q.Prompt), len(q.Prompt)-1)
	e.slots[slot] = slices.Clone(q.Prompt)
	e.mu.Unlock()
	context, tokens, probabilities := slices.Clone(q.Prompt), []int32{}, []object{}
	for range max(q.Predict, 1) {
		best := e.rankCandidates(context)
		tokens, context = append(tokens, best[0].id), append(context, best[0].id)
		probabilities = append(probabilities, llamaTopLogProbs(best, min(q.Probs, len(best))))
	}
	reply := object{"tokens": tokens, "timings/cache_n": cached, "timings/prompt_n": len(q.Prompt) - cached,
		"timings/prompt_ms": 0.5, "timings/predicted_ms": 0.25}
	// the probabilities are held back until the character is complete
	piece := e.Vocabulary.Piece(tokens[0])
	if q.Probs > 0 && (len(tokens) > 1 || utf8.FullRune(piece)) {
		reply["completion_probabilities"] = probabilities
	}
	writeReply(w, reply)
}

func llamaTopLogProbs(best []candidate, k int) object {
	var top []object
	for _, c := range best[:k] {
		top = append(top, object{"id": c.id, "logprob": c.p, "token": "?", "bytes": []int{}})
	}
	return object{"id": best[0].id, "logprob": best[0].p, "top_logprobs": top}
}
