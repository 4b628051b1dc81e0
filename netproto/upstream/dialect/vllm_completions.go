package dialect

import (
	"context"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// completions is the endpoint /v1/completions.
type completions struct{}

type completionsRequest struct {
	Model  string `json:"model"`
	ID     string `json:"request_id"`
	Prompt any    `json:"prompt"` // ids, or a list of lists of ids
	vllmSampling
	Stop        []string `json:"stop"`
	StopIDs     []int32  `json:"stop_token_ids"`
	IgnoreEOS   bool     `json:"ignore_eos"`
	AddSpecial  bool     `json:"add_special_tokens"`
	SkipSpecial bool     `json:"skip_special_tokens"`
	TokensAsIDs bool     `json:"return_tokens_as_token_ids"`
	IDs         bool     `json:"return_token_ids"`
	Salt        string   `json:"cache_salt,omitempty"` // an empty one is refused
	Stream      bool     `json:"stream"`
}

type completionsReply struct {
	Choices []completion `json:"choices"`
	Usage   usage        `json:"usage"`
}

type completion struct {
	Index    int     `json:"index"`
	Tokens   []int32 `json:"token_ids"`
	LogProbs *struct {
		Tokens   []string              `json:"tokens"`
		LogProbs []*float64            `json:"token_logprobs"`
		Top      []map[string]*float64 `json:"top_logprobs"`
	} `json:"logprobs"`
}

// newVLLMCompletions asks about contexts. With return_token_ids the server repeats the contexts as well, so this is
// left out if probabilities are requested, which also identify the token.
func newVLLMCompletions(a Ask, model string, prompt any, k int) completionsRequest {
	return completionsRequest{
		Model: model, ID: a.Name, Prompt: prompt, vllmSampling: newVLLMSampling(k), Stop: []string{},
		StopIDs:     []int32{},
		TokensAsIDs: true, IDs: k == 0, Salt: a.Salt,
	}
}

// token returns the token of a choice.
func (w completion) token() (int32, error) {
	if len(w.Tokens) > 0 {
		return one(w.Tokens)
	}
	if w.LogProbs == nil || len(w.LogProbs.Tokens) != 1 {
		return 0, fmt.Errorf("/v1/completions: %w: it has no token", ErrReply)
	}
	return tokenID(w.LogProbs.Tokens[0])
}

// top returns the k most probable tokens of a choice.
func (w completion) top(k int) ([]terms.Candidate, error) {
	if k == 0 || w.LogProbs == nil || len(w.LogProbs.Top) == 0 {
		return nil, nil
	}
	var all []terms.Candidate
	for name, p := range w.LogProbs.Top[0] {
		id, err := tokenID(name)
		if err != nil {
			return nil, err
		}
		all = append(all, terms.Candidate{ID: id, LogProb: logProb(p)})
	}
	return Top(all, k), nil
}

func (completions) ask(
	ctx context.Context, c *Client, a Ask, model string, _ rows,
) (r Reply, err error) {
	var w completionsReply
	if err := c.Post(ctx, "/v1/completions", newVLLMCompletions(a, model, a.Context, a.K), &w); err != nil {
		return r, err
	}
	if len(w.Choices) != 1 {
		return r, fmt.Errorf("/v1/completions: %w: %d choices", ErrReply, len(w.Choices))
	}
	r.Requests, r.Cached = 1, w.Usage.cached()
	if r.Token, err = w.Choices[0].token(); err == nil {
		r.Top, err = w.Choices[0].top(a.K)
	}
	return r, err
}

// both asks about a context and about its beginning, for a sampled audit, in one request.
func (completions) both(ctx context.Context, c *Client, a Ask, model string) (r Reply,
	err error) {
	var w completionsReply
	k := max(a.K, 1)
	body := newVLLMCompletions(a, model, [][]int32{a.Context, a.Context[:a.Sample]}, k)
	if err := c.Post(ctx, "/v1/completions", body, &w); err != nil {
		return r, err
	}
	if len(w.Choices) != 2 || w.Choices[0].Index+w.Choices[1].Index != 1 || w.Choices[0].Index*w.Choices[1].Index != 0 {
		return r, fmt.Errorf("/v1/completions: %w: %d choices for two contexts", ErrReply, len(w.Choices))
	}
	whole, part := w.Choices[w.Choices[0].Index], w.Choices[w.Choices[1].Index]
	// the count of cached tokens is for both together, and cannot be split
	r.Requests, r.Cached, r.Extra = 1, -1, 1
	if r.Token, err = whole.token(); err != nil {
		return r, err
	}
	if r.Top, err = whole.top(a.K); err != nil {
		return r, err
	}
	choice, err := part.choice()
	r.Audited, r.Audit = 1, differs(a.Sample, a.Context[a.Sample], choice)
	return r, err
}

// choice returns the token of a choice, with its probability if there is one.
func (w completion) choice() (c terms.Candidate, err error) {
	c.ID, err = w.token()
	if l := w.LogProbs; l != nil && len(l.LogProbs) == 1 {
		c.LogProb = logProb(l.LogProbs[0])
	}
	return c, err
}
