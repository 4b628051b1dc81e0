package dialect

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// generateEndpoint is the endpoint /inference/v1/generate.
type generateEndpoint struct{}

type generateRequest struct {
	Model    string           `json:"model"`
	ID       string           `json:"request_id"`
	Context  []int32          `json:"token_ids"`
	Sampling generateSampling `json:"sampling_params"`
	Salt     string           `json:"cache_salt,omitempty"` // an empty one is refused
	Stream   bool             `json:"stream"`
}

type generateSampling struct {
	vllmSampling
	PromptLogProbs *int  `json:"prompt_logprobs,omitempty"`
	SkipCache      *bool `json:"skip_reading_prefix_cache,omitempty"`
	Detokenize     bool  `json:"detokenize"`
}

type generateReply struct {
	Choices []struct {
		Tokens   []int32 `json:"token_ids"`
		LogProbs *struct {
			Content []struct {
				Top []generateCandidate `json:"top_logprobs"`
			} `json:"content"`
		} `json:"logprobs"`
	} `json:"choices"`
	Rows  []map[string]rankedLogProb `json:"prompt_logprobs"`
	Usage usage                      `json:"usage"`
}

// generateCandidate is a candidate in one of its two formats: with a number, or with "token_id:42".
type generateCandidate struct {
	ID      *int32   `json:"token_id"`
	Token   string   `json:"token"`
	LogProb *float64 `json:"logprob"`
}

func (e generateCandidate) toCandidate() (c terms.Candidate, err error) {
	c.LogProb = parseLogProb(e.LogProb)
	if e.ID != nil {
		c.ID = *e.ID
		return c, nil
	}
	c.ID, err = parseTokenID(e.Token)
	return c, err
}

type rankedLogProb struct {
	LogProb *float64 `json:"logprob"`
	Rank    int      `json:"rank"`
}

func newVLLMGenerate(a Ask, model string, which rowSelection) generateRequest {
	q := generateRequest{Model: model, ID: a.Name, Context: a.Context, Salt: a.Salt, Sampling: generateSampling{
		vllmSampling: newVLLMSampling(a.K),
	}}
	if which != noRows {
		q.Sampling.PromptLogProbs, q.Sampling.SkipCache = new(max(a.Rows, 1)), new(which == allRows)
	}
	return q
}

func (generateEndpoint) requestToken(
	ctx context.Context, c *Client, a Ask, model string, which rowSelection,
) (r Reply, err error) {
	var w generateReply
	if err := c.Post(ctx, "/inference/v1/generate", newVLLMGenerate(a, model, which), &w); err != nil {
		return r, err
	}
	r.Cached = w.Usage.cachedTokens()
	if len(w.Choices) != 1 {
		return r, fmt.Errorf("/inference/v1/generate: %w: %d choices", ErrReply, len(w.Choices))
	}
	if r.Token, err = singleToken(w.Choices[0].Tokens); err != nil {
		return r, err
	}
	if l := w.Choices[0].LogProbs; a.K > 0 && l != nil && len(l.Content) > 0 {
		var all []terms.Candidate
		for _, e := range l.Content[0].Top {
			c, err := e.toCandidate()
			if err != nil {
				return r, err
			}
			all = append(all, c)
		}
		r.Top = Top(all, a.K)
	}
	if which != noRows {
		r.Rows, r.Unheard = parsePromptLogProbs(w.Rows, a)
	}
	return r, nil
}

// parsePromptLogProbs parses the rows of prompt_logprobs: [null] and then those of the positions at the end of the
// context that were computed.
func parsePromptLogProbs(rows []map[string]rankedLogProb, a Ask) (all []Row, err error) {
	if len(rows) == 0 || len(rows) > len(a.Context) || rows[0] != nil {
		return nil, fmt.Errorf("/inference/v1/generate: %w: prompt_logprobs has %d rows for %d tokens",
			ErrReply, len(rows), len(a.Context))
	}
	first := len(a.Context) - (len(rows) - 1)
	for i, entries := range rows[1:] {
		var best []terms.Candidate
		stands := float32(math.NaN())
		for key, x := range entries {
			id, err := strconv.ParseInt(key, 10, 32)
			if err != nil || id < 0 || x.LogProb == nil {
				return nil, fmt.Errorf("prompt_logprobs: %w: an entry is invalid", ErrReply)
			}
			c := terms.Candidate{ID: int32(id), LogProb: float32(*x.LogProb)}
			if c.ID == a.Context[first+i] {
				stands = c.LogProb
			}
			if x.Rank >= 1 && x.Rank <= max(a.Rows, 1) {
				best = append(best, c)
			}
		}
		row, ok := newRow(best, max(a.Rows, 1), stands)
		if !ok {
			return nil, fmt.Errorf("prompt_logprobs: %w: a row is invalid or lacks the token of the context",
				ErrReply)
		}
		all = append(all, row)
	}
	return all, nil
}
