package dialect

import (
	"context"
	"time"
)

// VLLM is a vLLM server. One of two endpoints is used: /inference/v1/generate with tokens in and out, if the server has
// it, else /v1/completions. The code was written from the server's source and tested with vLLM 0.32 on a CPU. Make it
// with [NewVLLM].
type VLLM struct {
	c        *Client
	model    string // used in requests; "" before Describe
	endpoint endpoint
	rows     bool // the generate endpoint returns correct rows for the computed part of a context
}

// endpoint is one of the server's two endpoints for tokens.
type endpoint interface {
	// requestToken sends a request for one token. which selects the tokens of the context that also get probabilities.
	requestToken(ctx context.Context, c *Client, a Ask, model string, which rowSelection) (Reply, error)
}

// rowSelection selects the tokens of a context that get probabilities.
type rowSelection int

const (
	noRows  rowSelection = iota
	newRows              // those that are not in the prefix cache
	allRows              // all, which computes the whole context again
)

// NewVLLM returns an engine that uses a client, for the model with that name; "" means the first that the server lists.
func NewVLLM(c *Client, model string) *VLLM {
	return &VLLM{c: c, model: model, endpoint: completionsEndpoint{}}
}

// vllmSampling sets every field, since the server takes defaults from the model's generation_config.json.
type vllmSampling struct {
	Tokens            int     `json:"max_tokens"`
	N                 int     `json:"n"`
	Temperature       float64 `json:"temperature"`
	TopP              float64 `json:"top_p"`
	TopK              int     `json:"top_k"`
	MinP              float64 `json:"min_p"`
	RepetitionPenalty float64 `json:"repetition_penalty"`
	PresencePenalty   float64 `json:"presence_penalty"`
	FrequencyPenalty  float64 `json:"frequency_penalty"`
	LogProbs          *int    `json:"logprobs,omitempty"`
}

func newVLLMSampling(k int) vllmSampling {
	s := vllmSampling{Tokens: 1, N: 1, TopP: 1, RepetitionPenalty: 1}
	if k > 0 {
		s.LogProbs = &k
	}
	return s
}

type usage struct {
	Details *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// cachedTokens returns the number of cached tokens of the context; -1 if the server does not report it.
func (u usage) cachedTokens() int {
	if u.Details == nil || u.Details.Cached == nil {
		return -1
	}
	return *u.Details.Cached
}

// Ask implements dialect.Engine. It audits if the server returns the rows that it computes, see Describe.
func (e *VLLM) Ask(ctx context.Context, a Ask) (Reply, error) {
	began := time.Now()
	r, err := e.askWithAudit(ctx, a)
	r.Compute = time.Since(began)
	return r, wrapTooLong(err, "maximum model length", "maximum context length", "max_tokens must be at least 1, got 0")
}

func (e *VLLM) askWithAudit(ctx context.Context, a Ask) (Reply, error) {
	if a.AuditFrom == 0 || !e.rows {
		return e.endpoint.requestToken(ctx, e.c, a, e.model, noRows)
	}
	r, err := e.endpoint.requestToken(ctx, e.c, a, e.model, newRows)
	wanted := len(a.Context) - a.AuditFrom
	if err == nil && a.All && r.Unheard == nil && len(r.Rows) < wanted {
		r, err = e.repeatForAllRows(ctx, a, r)
	}
	r.Rows = r.Rows[max(len(r.Rows)-wanted, 0):]
	return r, err
}

// repeatForAllRows repeats the request for all rows, since tokens to be audited were cached. The first answer is used.
func (e *VLLM) repeatForAllRows(ctx context.Context, a Ask, first Reply) (Reply, error) {
	a.Name += "-all"
	r, err := e.endpoint.requestToken(ctx, e.c, a, e.model, allRows)
	if err != nil {
		return first, err
	}
	first.Rows, first.Unheard = r.Rows, r.Unheard
	return first, nil
}

// Warm implements dialect.Engine: the server has no request without an answer, so one is discarded.
func (e *VLLM) Warm(ctx context.Context, a Ask) error {
	a.K, a.AuditFrom = 0, 0
	_, err := e.Ask(ctx, a)
	return err
}

// Alive implements dialect.Engine.
func (e *VLLM) Alive(ctx context.Context) error { return e.c.Get(ctx, "/health", nil) }

// Tokenize implements dialect.Engine.
func (e *VLLM) Tokenize(ctx context.Context, text string) ([]int32, error) {
	return postTokenize(ctx, e.c, e.model, text)
}

// Detokenize implements dialect.Engine.
func (e *VLLM) Detokenize(ctx context.Context, ids []int32) (string, error) {
	var w struct {
		Prompt string `json:"prompt"`
	}
	body := struct {
		Model  string  `json:"model"`
		Tokens []int32 `json:"tokens"`
	}{e.model, ids}
	return w.Prompt, wrapAbsent(e.c.Post(ctx, "/detokenize", body, &w))
}
