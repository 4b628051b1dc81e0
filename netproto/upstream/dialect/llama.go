package dialect

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Llama is the llama-server of llama.cpp. It is used through its own endpoint, /completion, as described by its README
// and its source (b9749, August 2026). Make it with [NewLlama].
type Llama struct {
	c     *Client
	slots *slots
}

// NewLlama returns an engine that uses a client.
func NewLlama(c *Client) *Llama { return &Llama{c: c, slots: newSlots(0)} }

// llamaRequest is the body of /completion. Every sampling field is set, since the server has other defaults.
type llamaRequest struct {
	Prompt           []int32  `json:"prompt"`
	Predict          int      `json:"n_predict"`
	Temperature      float64  `json:"temperature"`
	TopK             int      `json:"top_k"`
	TopP             float64  `json:"top_p"`
	MinP             float64  `json:"min_p"`
	RepeatPenalty    float64  `json:"repeat_penalty"`
	PresencePenalty  float64  `json:"presence_penalty"`
	FrequencyPenalty float64  `json:"frequency_penalty"`
	Samplers         []string `json:"samplers"`
	Probs            int      `json:"n_probs"`
	PostSampling     bool     `json:"post_sampling_probs"`
	ReturnTokens     bool     `json:"return_tokens"`
	CachePrompt      bool     `json:"cache_prompt"`
	Slot             int      `json:"id_slot"`
	Stream           bool     `json:"stream"`
	Parser           string   `json:"chat_parser"`
	Fields           []string `json:"response_fields"`
}

// llamaAnyText is a grammar that matches every text. With the server's default grammar, a token that continues a
// character begun by an earlier token is answered with 500.
const llamaAnyText = `{"parsers":[{"type":"epsilon"}],"rules":{},"root":0}`

func newLlamaRequest(context []int32, predict, k, slot int) llamaRequest {
	return llamaRequest{
		Prompt: context, Predict: predict,
		TopK: 1, TopP: 1, RepeatPenalty: 1, Samplers: []string{"temperature"}, Probs: k,
		ReturnTokens: true, CachePrompt: true, Slot: slot, Parser: llamaAnyText,
		Fields: []string{"tokens", "timings/cache_n", "timings/prompt_ms", "timings/predicted_ms",
			"completion_probabilities"},
	}
}

// llamaReply has the fields of a response.
type llamaReply struct {
	Tokens        []int32       `json:"tokens"`
	Cached        *int          `json:"timings/cache_n"`
	PromptMS      float64       `json:"timings/prompt_ms"`
	PredictedMS   float64       `json:"timings/predicted_ms"`
	Probabilities []probability `json:"completion_probabilities"`
}

type probability struct {
	ID      int32    `json:"id"`
	LogProb *float64 `json:"logprob"`
	Top     []struct {
		ID      int32    `json:"id"`
		LogProb *float64 `json:"logprob"`
	} `json:"top_logprobs"`
}

// Ask implements dialect.Engine. The server keeps a cache for each of its slots, and each session has a slot.
func (e *Llama) Ask(ctx context.Context, a Ask) (r Reply, err error) {
	slot, done := e.slots.acquireSlot(a.Session)
	defer done()
	return e.askSlot(ctx, a.Context, a.K, slot)
}

// askSlot returns the token after a context and the k most probable ones. If a token begins a character without
// completing it, the server returns the probabilities only once the character is complete: then askSlot sends a second
// request, for as many tokens as a character can have.
func (e *Llama) askSlot(ctx context.Context, context []int32, k, slot int) (r Reply, err error) {
	w, err := e.postCompletion(ctx, newLlamaRequest(context, 1, k, slot))
	if err != nil {
		return r, err
	}
	r = Reply{Token: w.Tokens[0], Top: w.topCandidates(k), Cached: -1, Compute: w.computeTime()}
	if w.Cached != nil {
		r.Cached = *w.Cached
	}
	if k == 0 || len(r.Top) > 0 {
		return r, nil
	}
	const bytes = 4 // in the longest character
	if w, err = e.postCompletion(ctx, newLlamaRequest(context, bytes, k, slot)); err != nil {
		return r, err
	}
	r.Compute += w.computeTime()
	if w.Tokens[0] == r.Token {
		r.Top = w.topCandidates(k) // none if no character is completed: then there is nothing to draw from
	}
	return r, nil
}

func (e *Llama) postCompletion(ctx context.Context, q llamaRequest) (w llamaReply, err error) {
	err = wrapTooLong(e.c.Post(ctx, "/completion", q, &w), "exceeds the available context size")
	if err == nil && len(w.Tokens) < min(q.Predict, 1) {
		err = fmt.Errorf("/completion: %w: it has no token", ErrReply)
	}
	return w, err
}

func (w *llamaReply) computeTime() time.Duration {
	ms := w.PromptMS + w.PredictedMS
	if !(ms >= 0 && ms < 1e9) {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

func (w *llamaReply) topCandidates(k int) []terms.Candidate {
	if k == 0 || len(w.Probabilities) == 0 {
		return nil
	}
	var all []terms.Candidate
	for _, c := range w.Probabilities[0].Top {
		all = append(all, terms.Candidate{ID: c.ID, LogProb: parseLogProb(c.LogProb)})
	}
	return Top(all, k)
}

// Warm implements dialect.Engine.
func (e *Llama) Warm(ctx context.Context, a Ask) error {
	slot, done := e.slots.acquireSlot(a.Session)
	defer done()
	_, err := e.postCompletion(ctx, newLlamaRequest(a.Context, 0, 0, slot))
	return err
}

// Forget implements dialect.Forgetter.
func (e *Llama) Forget(session uint64) { e.slots.forgetSession(session) }

// Alive implements dialect.Engine.
func (e *Llama) Alive(ctx context.Context) error { return e.c.Get(ctx, "/health", nil) }

// Tokenize implements dialect.Engine.
func (e *Llama) Tokenize(ctx context.Context, text string) ([]int32, error) {
	var w struct {
		Tokens []int32 `json:"tokens"`
	}
	body := struct {
		Content      string `json:"content"`
		AddSpecial   bool   `json:"add_special"`
		ParseSpecial bool   `json:"parse_special"`
	}{text, false, true}
	err := e.c.Post(ctx, "/tokenize", body, &w)
	return w.Tokens, err
}

// Detokenize implements dialect.Engine.
func (e *Llama) Detokenize(ctx context.Context, ids []int32) (string, error) {
	var w struct {
		Content string `json:"content"`
	}
	body := struct {
		Tokens []int32 `json:"tokens"`
	}{ids}
	err := e.c.Post(ctx, "/detokenize", body, &w)
	return w.Content, err
}

// Describe implements dialect.Engine.
func (e *Llama) Describe(ctx context.Context, _ Vocabulary, _ string) (f Facts, err error) {
	models, err := Models(ctx, e.c)
	if err != nil {
		return f, err
	}
	var props struct {
		Slots    int    `json:"total_slots"`
		Build    string `json:"build_info"`
		Defaults struct {
			Ctx int `json:"n_ctx"` // of one slot
		} `json:"default_generation_settings"`
	}
	if err := e.c.Get(ctx, "/props", &props); err != nil {
		return f, err
	}
	m := models[0]
	f = Facts{
		Dialect: "llama", Version: props.Build, Model: m.ID, Vocab: m.Meta.Vocab, Parallel: props.Slots,
		Choices: netproto.MaxK, Audit: netproto.NoAudit,
	}
	if ctx := cmp.Or(props.Defaults.Ctx, m.Meta.Ctx); ctx > 1 {
		f.MaxContext = ctx - 1
	}
	if props.Slots < 1 || props.Slots > maxSlots {
		return f, fmt.Errorf("/props: %w: %d slots", ErrReply, props.Slots)
	}
	e.slots.resizeSlots(props.Slots)
	return f, nil
}
