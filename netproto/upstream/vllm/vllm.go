// Package vllm speaks to vLLM, by one of two doors: /inference/v1/generate, tokens in and tokens out, where the server
// has it open, else /v1/completions. What was written from its source was checked against vLLM 0.32 on a CPU.
package vllm

import (
	"context"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// Engine is a server of vLLM. Make it with New.
type Engine struct {
	c     *dialect.Client
	model string // what requests name; "" before Describe
	door  door
	rows  bool // the generate door gives rows for the part of a context that it computes, and right ones
}

// door is one of the server's two interfaces for tokens.
type door interface {
	// ask sends a request for one token. It wants the probabilities of the context's tokens too, as far as which says.
	ask(ctx context.Context, c *dialect.Client, a dialect.Ask, model string, which rows) (dialect.Reply, error)
}

// rows says of which tokens of a context the probabilities are wanted.
type rows int

const (
	noRows  rows = iota
	newRows      // those that the prefix cache does not have
	allRows      // all, for the price of computing the whole context again
)

// New returns an engine behind a client, for the model of that name; "" means the first that the server lists.
func New(c *dialect.Client, model string) *Engine {
	return &Engine{c: c, model: model, door: completions{}}
}

// sampling sets every field, as the server takes defaults from the model's generation_config.json.
type sampling struct {
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

func newSampling(k int) sampling {
	s := sampling{Tokens: 1, N: 1, TopP: 1, RepetitionPenalty: 1}
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

// cached is how much of the context the prefix cache had; -1 where the server does not tell.
func (u usage) cached() int {
	if u.Details == nil || u.Details.Cached == nil {
		return -1
	}
	return *u.Details.Cached
}

// Ask implements dialect.Engine. The audit is exact where the server gives the rows that it computes, see Describe;
// else it is sampled: a second question about the beginning of the context, computed in the same step.
func (e *Engine) Ask(ctx context.Context, a dialect.Ask) (dialect.Reply, error) {
	began := time.Now()
	r, err := e.ask(ctx, a)
	r.Compute = time.Since(began)
	return r, tooLong(err)
}

func (e *Engine) ask(ctx context.Context, a dialect.Ask) (dialect.Reply, error) {
	if a.Sample > 0 {
		return completions{}.both(ctx, e.c, a, e.model)
	}
	if a.AuditFrom == 0 || !e.rows {
		return e.door.ask(ctx, e.c, a, e.model, noRows)
	}
	r, err := e.door.ask(ctx, e.c, a, e.model, newRows)
	wanted := len(a.Context) - a.AuditFrom
	if err == nil && a.Rows > 0 && r.Unheard == nil && r.Audited < wanted {
		r, err = e.again(ctx, a, r)
	}
	if r.Audited > wanted {
		r.Audited = wanted
		r.Audit = slices.DeleteFunc(r.Audit, func(f terms.Finding) bool { return f.Pos < a.AuditFrom })
		r.Rows = r.Rows[max(len(r.Rows)-wanted, 0):]
	}
	return r, err
}

// again asks once more, for all rows: the cache had tokens that were to be looked at. The first answer stands.
func (e *Engine) again(ctx context.Context, a dialect.Ask, first dialect.Reply) (dialect.Reply, error) {
	a.Name += "-all"
	r, err := e.door.ask(ctx, e.c, a, e.model, allRows)
	if err != nil {
		return first, err
	}
	first.Audited, first.Audit, first.Rows, first.Unheard = r.Audited, r.Audit, r.Rows, r.Unheard
	first.Requests += r.Requests
	first.Extra += len(a.Context)
	return first, nil
}

// tooLong tells a context that does not fit apart from other bad requests.
func tooLong(err error) error {
	return dialect.TooLong(err,
		"maximum model length", "maximum context length", "max_tokens must be at least 1, got 0")
}

// Warm implements dialect.Engine: the server has no request without an answer, so one is thrown away.
func (e *Engine) Warm(ctx context.Context, a dialect.Ask) error {
	a.K, a.AuditFrom, a.Sample, a.Rows = 0, 0, 0, 0
	_, err := e.Ask(ctx, a)
	return err
}

// Alive implements dialect.Engine.
func (e *Engine) Alive(ctx context.Context) error { return e.c.Get(ctx, "/health", nil) }

// Tokenize implements dialect.Engine.
func (e *Engine) Tokenize(ctx context.Context, text string) ([]int32, error) {
	return dialect.Tokenize(ctx, e.c, e.model, text)
}

// Detokenize implements dialect.Engine.
func (e *Engine) Detokenize(ctx context.Context, ids []int32) (string, error) {
	var w struct {
		Prompt string `json:"prompt"`
	}
	body := struct {
		Model  string  `json:"model"`
		Tokens []int32 `json:"tokens"`
	}{e.model, ids}
	return w.Prompt, dialect.Absent(e.c.Post(ctx, "/detokenize", body, &w))
}
