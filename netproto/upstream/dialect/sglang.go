package dialect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// SGLang is an SGLang server. It is used through its own endpoint, /generate, as described by its source and
// documentation (0.5.19, 2026). Make it with [NewSGLang].
type SGLang struct{ c *Client }

// NewSGLang returns an engine that uses a client.
func NewSGLang(c *Client) *SGLang { return &SGLang{c} }

// sglangRequest is the body of /generate.
type sglangRequest struct {
	ID           string         `json:"rid"`
	Context      []int32        `json:"input_ids"`
	Sampling     sglangSampling `json:"sampling_params"`
	LogProb      bool           `json:"return_logprob"`
	LogProbStart int            `json:"logprob_start_len"`
	Top          int            `json:"top_logprobs_num"`
	Text         bool           `json:"return_text_in_logprobs"`
	ExtraKey     string         `json:"extra_key,omitempty"`
	Stream       bool           `json:"stream"`
}

// sglangSampling sets every field, since the server takes defaults from the model's generation_config.json.
type sglangSampling struct {
	Tokens            int      `json:"max_new_tokens"`
	Temperature       float64  `json:"temperature"`
	TopP              float64  `json:"top_p"`
	TopK              int      `json:"top_k"`
	MinP              float64  `json:"min_p"`
	FrequencyPenalty  float64  `json:"frequency_penalty"`
	PresencePenalty   float64  `json:"presence_penalty"`
	RepetitionPenalty float64  `json:"repetition_penalty"`
	Stop              []string `json:"stop"`
	StopIDs           []int32  `json:"stop_token_ids"`
	IgnoreEOS         bool     `json:"ignore_eos"`
	SkipSpecial       bool     `json:"skip_special_tokens"`
	NoStopTrim        bool     `json:"no_stop_trim"`
}

func newSGLangRequest(a Ask, tokens int) sglangRequest {
	q := sglangRequest{
		ID: a.Name, Context: a.Context, LogProbStart: -1, ExtraKey: a.Salt,
		Sampling: sglangSampling{
			Tokens: tokens, TopP: 1, TopK: 1, RepetitionPenalty: 1,
			Stop: []string{}, StopIDs: []int32{}, NoStopTrim: true,
		},
	}
	if a.AuditFrom > 0 || a.K > 0 {
		q.LogProb, q.Top = true, a.K
	}
	if a.AuditFrom > 0 {
		// the first row has no probabilities, and the prefix cache can be used up to it
		q.LogProbStart, q.Top = a.AuditFrom-1, max(a.K, a.Rows, 1)
	}
	return q
}

// sglangReply is the response of /generate.
type sglangReply struct {
	Tokens []int32 `json:"output_ids"`
	Meta   struct {
		Finish    any            `json:"finish_reason"`
		Cached    *int           `json:"cached_tokens"`
		Latency   float64        `json:"e2e_latency"` // seconds
		InputTop  [][]logProbRow `json:"input_top_logprobs"`
		Input     []logProbRow   `json:"input_token_logprobs"` // of the context's own tokens
		OutputTop [][]logProbRow `json:"output_top_logprobs"`
	} `json:"meta_info"`
}

// logProbRow is [log-probability or null, id, text or null].
type logProbRow terms.Candidate

// UnmarshalJSON parses a row.
func (r *logProbRow) UnmarshalJSON(b []byte) error {
	var parts [3]json.RawMessage
	var p *float64
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	if err := errors.Join(json.Unmarshal(parts[0], &p), json.Unmarshal(parts[1], &r.ID)); err != nil {
		return fmt.Errorf("a row of probabilities: %w", ErrReply)
	}
	r.LogProb = parseLogProb(p)
	return nil
}

func toCandidates(rows []logProbRow) (all []terms.Candidate) {
	for _, r := range rows {
		all = append(all, terms.Candidate(r))
	}
	return all
}

// Ask implements dialect.Engine. The answer includes the rows from AuditFrom on, which costs the computation of one
// more token, the one before them.
func (e *SGLang) Ask(ctx context.Context, a Ask) (r Reply, err error) {
	w, err := e.postGenerate(ctx, newSGLangRequest(a, 1))
	if err != nil {
		return r, err
	}
	if r.Token, err = singleToken(w.Tokens); err != nil {
		return r, err
	}
	r.Cached = -1
	if w.Meta.Cached != nil {
		r.Cached = *w.Meta.Cached
	}
	if s := w.Meta.Latency; s > 0 && s < 1e6 {
		r.Compute = time.Duration(s * float64(time.Second))
	}
	if a.K > 0 && len(w.Meta.OutputTop) > 0 {
		r.Top = Top(toCandidates(w.Meta.OutputTop[0]), a.K)
	}
	if a.AuditFrom > 0 {
		r.Rows, r.Unheard = w.parseRows(a)
	}
	return r, nil
}

// parseRows parses the rows of the positions from AuditFrom on: the most probable tokens and the token of the context.
// The first row is for the position before.
func (w *sglangReply) parseRows(a Ask) (all []Row, err error) {
	best, own := w.Meta.InputTop, w.Meta.Input
	if want := len(a.Context) - a.AuditFrom + 1; len(best) != want || len(own) != want {
		return nil, fmt.Errorf("/generate: %w: input_top_logprobs has %d rows, input_token_logprobs %d, not %d",
			ErrReply, len(best), len(own), want)
	}
	for i, c := range own[1:] {
		row, ok := newRow(toCandidates(best[i+1]), max(a.Rows, 1), c.LogProb)
		if !ok || c.ID != a.Context[a.AuditFrom+i] {
			return nil, fmt.Errorf("/generate: %w: a row of input_token_logprobs is invalid", ErrReply)
		}
		all = append(all, row)
	}
	return all, nil
}

// sglangSpare is subtracted from the length of contexts that the server reports: it reserves 6 tokens (0.5.23), and one
// token follows.
const sglangSpare = 8

// postGenerate sends a request, and aborts it at once when ctx ends: by itself the server checks for that every few
// seconds.
func (e *SGLang) postGenerate(ctx context.Context, q sglangRequest) (w sglangReply, err error) {
	err = e.c.Post(ctx, "/generate", q, &w)
	if err != nil && ctx.Err() != nil {
		e.c.postAbort(ctx, "/abort_request", struct {
			ID string `json:"rid"`
		}{q.ID})
	}
	return w, wrapTooLong(err, "longer than the model's context length", "exceeds the maximum allowed length")
}

// Warm implements dialect.Engine.
func (e *SGLang) Warm(ctx context.Context, a Ask) error {
	a.K, a.AuditFrom = 0, 0
	_, err := e.postGenerate(ctx, newSGLangRequest(a, 0))
	return err
}

// Alive implements dialect.Engine.
func (e *SGLang) Alive(ctx context.Context) error { return e.c.Get(ctx, "/health", nil) }

// Tokenize implements dialect.Engine.
func (e *SGLang) Tokenize(ctx context.Context, text string) ([]int32, error) {
	return postTokenize(ctx, e.c, "", text)
}

// Detokenize implements dialect.Engine.
func (e *SGLang) Detokenize(ctx context.Context, ids []int32) (string, error) {
	var w struct {
		Text string `json:"text"`
	}
	body := struct {
		Tokens      []int32 `json:"tokens"`
		SkipSpecial bool    `json:"skip_special_tokens"`
	}{ids, false}
	return w.Text, wrapAbsent(e.c.Post(ctx, "/detokenize", body, &w))
}

// Describe implements dialect.Engine.
func (e *SGLang) Describe(ctx context.Context, _ Vocabulary, _ string) (f Facts, err error) {
	models, err := Models(ctx, e.c)
	if err != nil {
		return f, err
	}
	var info struct {
		Path string `json:"model_path"`
	}
	if err := e.c.Get(ctx, "/get_model_info", &info); err != nil {
		return f, err
	}
	var server struct {
		Version string `json:"version"`
		Running int    `json:"max_running_requests"`
	}
	if err := e.c.Get(ctx, "/server_info", &server); err != nil {
		if err = e.c.Get(ctx, "/get_server_info", &server); err != nil { // its former name
			return f, err
		}
	}
	f = Facts{
		Dialect: "sglang", Version: server.Version, Model: cmp.Or(models[0].ID, info.Path), Parallel: server.Running,
		Choices: netproto.MaxK, Audit: netproto.ExactAudit,
	}
	if n := models[0].MaxLength; n > sglangSpare {
		f.MaxContext = n - sglangSpare
	}
	return f, nil
}
