package dialect

import (
	"context"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// completionsEndpoint is the endpoint /v1/completions.
type completionsEndpoint struct{}

type completionsRequest struct {
	Model  string  `json:"model"`
	ID     string  `json:"request_id"`
	Prompt []int32 `json:"prompt"`
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
	Tokens   []int32 `json:"token_ids"`
	LogProbs *struct {
		Tokens []string              `json:"tokens"`
		Top    []map[string]*float64 `json:"top_logprobs"`
	} `json:"logprobs"`
}

// newVLLMCompletions asks about a context. With return_token_ids the server repeats the context as well, so this is
// left out if probabilities are requested, which also identify the token.
func newVLLMCompletions(a Ask, model string) completionsRequest {
	return completionsRequest{
		Model: model, ID: a.Name, Prompt: a.Context, vllmSampling: newVLLMSampling(a.K), Stop: []string{},
		StopIDs: []int32{}, TokensAsIDs: true, IDs: a.K == 0, Salt: a.Salt,
	}
}

func (w completion) parseToken() (int32, error) {
	if len(w.Tokens) > 0 {
		return singleToken(w.Tokens)
	}
	if w.LogProbs == nil || len(w.LogProbs.Tokens) != 1 {
		return 0, fmt.Errorf("/v1/completions: %w: it has no token id, as vLLM returns it", ErrReply)
	}
	return parseTokenID(w.LogProbs.Tokens[0])
}

func (w completion) topCandidates(k int) ([]terms.Candidate, error) {
	if k == 0 || w.LogProbs == nil || len(w.LogProbs.Top) == 0 {
		return nil, nil
	}
	var all []terms.Candidate
	for name, p := range w.LogProbs.Top[0] {
		id, err := parseTokenID(name)
		if err != nil {
			return nil, err
		}
		all = append(all, terms.Candidate{ID: id, LogProb: parseLogProb(p)})
	}
	return Top(all, k), nil
}

func (completionsEndpoint) requestToken(
	ctx context.Context, c *Client, a Ask, model string, _ rowSelection,
) (r Reply, err error) {
	var w completionsReply
	if err := c.Post(ctx, "/v1/completions", newVLLMCompletions(a, model), &w); err != nil {
		return r, err
	}
	if len(w.Choices) != 1 {
		return r, fmt.Errorf("/v1/completions: %w: %d choices", ErrReply, len(w.Choices))
	}
	r.Cached = w.Usage.cachedTokens()
	if r.Token, err = w.Choices[0].parseToken(); err == nil {
		r.Top, err = w.Choices[0].topCandidates(a.K)
	}
	return r, err
}
