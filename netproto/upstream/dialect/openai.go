package dialect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// OpenAI is a server with OpenAI's /v1/completions that accepts ids as the prompt. If the engine can return ids, as
// vLLM does, they are used; otherwise a token is identified by its text, which must be that of exactly one token. Make
// it with [NewOpenAI].
type OpenAI struct {
	c      *Client
	model  string     // used in requests
	v      Vocabulary // nil before Describe
	extras bool       // it accepts fields beyond OpenAI's
}

// NewOpenAI returns an engine that uses a client, for the model with that name; "" means the first one that the server
// lists.
func NewOpenAI(c *Client, model string) *OpenAI { return &OpenAI{c: c, model: model} }

type openaiRequest struct {
	Model            string  `json:"model"`
	Prompt           []int32 `json:"prompt"`
	Tokens           int     `json:"max_tokens"`
	N                int     `json:"n"`
	Temperature      float64 `json:"temperature"`
	TopP             float64 `json:"top_p"`
	PresencePenalty  float64 `json:"presence_penalty"`
	FrequencyPenalty float64 `json:"frequency_penalty"`
	LogProbs         *int    `json:"logprobs,omitempty"`
	Seed             int     `json:"seed"`
	Echo             bool    `json:"echo,omitempty"`
	Stream           bool    `json:"stream"`
	*extras
}

// extras are fields of vLLM that other servers support as well. All of them are sent, since servers have other
// defaults.
type extras struct {
	TopK              int     `json:"top_k"`
	MinP              float64 `json:"min_p"`
	RepetitionPenalty float64 `json:"repetition_penalty"`
	AddSpecial        bool    `json:"add_special_tokens"`
	SkipSpecial       bool    `json:"skip_special_tokens"`
	TokensAsIDs       bool    `json:"return_tokens_as_token_ids"`
	IDs               bool    `json:"return_token_ids"`
}

// newRequest always requests a probability: the text of a choice may be cut to whole characters, but the text beside a
// probability is a token's.
func (e *OpenAI) newRequest(context []int32, k int) openaiRequest {
	k = max(k, 1)
	q := openaiRequest{Model: e.model, Prompt: context, Tokens: 1, N: 1, TopP: 1, LogProbs: &k}
	if e.extras {
		q.extras = &extras{TopK: -1, RepetitionPenalty: 1, TokensAsIDs: true, IDs: true}
	}
	return q
}

type openaiReply struct {
	Choices []struct {
		IDs      []int32 `json:"token_ids"`
		LogProbs *struct {
			Tokens  []string              `json:"tokens"`
			Top     []map[string]*float64 `json:"top_logprobs"`
			Content []spelled             `json:"content"` // in the format of chats, which llama-server uses here, too
		} `json:"logprobs"`
	} `json:"choices"`
	Usage struct {
		Details *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// spelled is a token with all fields that may identify it.
type spelled struct {
	ID      *int32    `json:"id"`
	Token   string    `json:"token"`
	Bytes   []int     `json:"bytes"`
	LogProb *float64  `json:"logprob"`
	Top     []spelled `json:"top_logprobs"`
}

// Ask implements dialect.Engine. There is no audit: the endpoint offers none that does not compute the whole context
// again.
func (e *OpenAI) Ask(ctx context.Context, a Ask) (r Reply, err error) {
	began := time.Now()
	var w openaiReply
	if err := e.c.Post(ctx, "/v1/completions", e.newRequest(a.Context, a.K), &w); err != nil {
		return r, openaiTooLong(err)
	}
	r.Compute, r.Requests, r.Cached = time.Since(began), 1, -1
	if d := w.Usage.Details; d != nil && d.Cached != nil {
		r.Cached = *d.Cached
	}
	if len(w.Choices) != 1 {
		return r, fmt.Errorf("/v1/completions: %w: %d choices", ErrReply, len(w.Choices))
	}
	c := w.Choices[0]
	switch {
	case len(c.IDs) > 0:
		r.Token, err = one(c.IDs)
	case c.LogProbs != nil && len(c.LogProbs.Tokens) == 1:
		r.Token, err = e.id(c.LogProbs.Tokens[0])
	case c.LogProbs != nil && len(c.LogProbs.Content) == 1:
		r.Token, err = e.idOf(c.LogProbs.Content[0])
	default:
		err = fmt.Errorf("/v1/completions: %w: no token has a probability", ErrReply)
	}
	switch {
	case err != nil || a.K == 0 || c.LogProbs == nil:
	case len(c.LogProbs.Top) > 0:
		r.Top = e.top(c.LogProbs.Top[0], a.K)
	case len(c.LogProbs.Content) > 0:
		r.Top = e.topOf(c.LogProbs.Content[0].Top, a.K)
	}
	return r, err
}

// idOf returns the id of a token: by its id, its bytes or its text, the first of these that is present.
func (e *OpenAI) idOf(s spelled) (int32, error) {
	if s.ID != nil {
		return *s.ID, nil
	}
	if len(s.Bytes) == 0 {
		return e.id(s.Token)
	}
	piece, err := s.piece()
	if err != nil {
		return 0, err
	}
	if id := e.v.Find(piece); id >= 0 {
		return id, nil
	}
	return 0, ErrPiece
}

// piece returns the bytes of a token.
func (s spelled) piece() ([]byte, error) {
	if len(s.Bytes) == 0 {
		return []byte(s.Token), nil
	}
	piece := make([]byte, len(s.Bytes))
	for i, b := range s.Bytes {
		piece[i] = byte(b)
		if b < 0 || b > 255 {
			return nil, fmt.Errorf("%w: a byte is %d", ErrReply, b)
		}
	}
	return piece, nil
}

// topOf is top for tokens of type spelled.
func (e *OpenAI) topOf(list []spelled, k int) []terms.Candidate {
	var all []terms.Candidate
	for _, s := range list {
		id, err := e.idOf(s)
		if err != nil {
			return nil
		}
		all = append(all, terms.Candidate{ID: id, LogProb: logProb(s.LogProb)})
	}
	return Top(all, k)
}

// top returns the k most probable tokens; none if the text of one does not match exactly one token.
func (e *OpenAI) top(texts map[string]*float64, k int) []terms.Candidate {
	var all []terms.Candidate
	for text, p := range texts {
		id, err := e.id(text)
		if err != nil {
			return nil
		}
		all = append(all, terms.Candidate{ID: id, LogProb: logProb(p)})
	}
	return Top(all, k)
}

// id returns the id of a text: "token_id:42", or the text of exactly one token of the vocabulary.
func (e *OpenAI) id(text string) (int32, error) {
	if id, err := tokenID(text); err == nil {
		return id, nil
	}
	if strings.ContainsRune(text, '\uFFFD') {
		return 0, fmt.Errorf("%w: it is a part of a character that was lost", ErrPiece)
	}
	if id := e.v.Find(openaiPiece(text)); id >= 0 {
		return id, nil
	}
	return 0, ErrPiece
}

// openaiPiece returns the bytes of a text; OpenAI writes bytes that are not characters as bytes:\xe4\xb8.
func openaiPiece(text string) []byte {
	rest, ok := strings.CutPrefix(text, `bytes:`)
	if !ok {
		return []byte(text)
	}
	s, err := strconv.Unquote(`"` + rest + `"`)
	if err != nil || !strings.HasPrefix(rest, `\x`) {
		return []byte(text)
	}
	return []byte(s)
}

// openaiTooLong recognises the error of a context that does not fit.
func openaiTooLong(err error) error {
	return tooLong(err, "maximum context length", "context_length_exceeded")
}

// Warm implements dialect.Engine: there is no request without an answer, so one is discarded.
func (e *OpenAI) Warm(ctx context.Context, a Ask) error {
	return openaiTooLong(e.c.Post(ctx, "/v1/completions", e.newRequest(a.Context, 0), nil))
}

// Alive implements dialect.Engine.
func (e *OpenAI) Alive(ctx context.Context) error { return e.c.Get(ctx, "/v1/models", nil) }

// Tokenize implements dialect.Engine: there is no endpoint for it.
func (e *OpenAI) Tokenize(context.Context, string) ([]int32, error) { return nil, ErrAbsent }

// Detokenize implements dialect.Engine: there is no endpoint for it.
func (e *OpenAI) Detokenize(context.Context, []int32) (string, error) { return "", ErrAbsent }

// Spell implements dialect.Speller. It uses the echo of the prompt, which some servers support.
func (e *OpenAI) Spell(ctx context.Context, context []int32) (pieces [][]byte, err error) {
	q := e.newRequest(context, 1)
	q.Echo = true
	if e.extras {
		q.TokensAsIDs = false
	}
	var w openaiReply
	switch err := e.c.Post(ctx, "/v1/completions", q, &w); {
	case Status(err) == http.StatusBadRequest, Status(err) == http.StatusUnprocessableEntity:
		return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
	case err != nil:
		return nil, err
	}
	if len(w.Choices) != 1 || w.Choices[0].LogProbs == nil || len(w.Choices[0].LogProbs.Tokens) < len(context) {
		return nil, fmt.Errorf("%w: it does not repeat the prompt", ErrAbsent)
	}
	for _, text := range w.Choices[0].LogProbs.Tokens[:len(context)] {
		pieces = append(pieces, openaiPiece(text))
	}
	return pieces, nil
}

// Next implements dialect.Speller.
func (e *OpenAI) Next(ctx context.Context, context []int32) ([]byte, error) {
	q := e.newRequest(context, 1)
	if e.extras {
		q.TokensAsIDs, q.IDs = false, false
	}
	var w openaiReply
	if err := e.c.Post(ctx, "/v1/completions", q, &w); err != nil {
		return nil, err
	}
	if len(w.Choices) == 1 && w.Choices[0].LogProbs != nil {
		l := w.Choices[0].LogProbs
		switch {
		case len(l.Tokens) == 1:
			return openaiPiece(l.Tokens[0]), nil
		case len(l.Content) == 1:
			return l.Content[0].piece()
		}
	}
	return nil, fmt.Errorf("/v1/completions: %w: no token has a probability", ErrReply)
}

// Describe implements dialect.Engine.
func (e *OpenAI) Describe(ctx context.Context, v Vocabulary, _ string) (f Facts, err error) {
	m, err := choose(ctx, e.c, e.model)
	if err != nil {
		return f, err
	}
	e.v, e.model, e.extras = v, m.ID, true
	f = Facts{Dialect: "openai", Model: m.ID, Audit: netproto.NoAudit}
	if m.MaxLength > 1 {
		f.MaxContext = m.MaxLength - 1
	}
	f.Choices, err = e.choices(ctx)
	if s := Status(err); s == http.StatusBadRequest || s == http.StatusUnprocessableEntity {
		e.extras = false // the server refuses unknown fields
		f.Choices, err = e.choices(ctx)
		f.Notes = append(f.Notes, "it accepts only OpenAI's fields: other sampling settings keep its defaults, "+
			"and tokens are identified by their text")
	}
	return f, err
}

// choices returns the maximum number of probabilities that the server returns.
func (e *OpenAI) choices(ctx context.Context) (k int, err error) {
	for _, k := range []int{20, 5, 1} {
		_, err = e.Ask(ctx, Ask{Context: []int32{0, 1, 2, 3}, K: k})
		if errors.Is(err, ErrPiece) {
			return k, nil
		}
		if Status(err) != http.StatusBadRequest && Status(err) != http.StatusUnprocessableEntity {
			return k, err
		}
	}
	return 0, err
}
