package serve

import (
	"cmp"
	"context"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

func (s *Server) handleInfill(ctx context.Context, t *reply, body []byte) error {
	r, wrong := request.ReadInfill(body, s.defaults)
	if wrong != nil {
		return wrong
	}
	format := &infillFormatter{s: s, r: r, name: cmp.Or(r.Model, s.o.Names[0])}
	var marks []int32
	return t.processJob(ctx, &job{Request: &r.Request, formatter: format,
		prompts: func() ([][]int32, error) {
			const room = 128 // tokens reserved for the answer, if it may be that long
			limit := s.maxPromptTokens()
			r.Gap.Most = max(limit-min(cmp.Or(r.Settings.MaxTokens, room), limit/2), 8)
			var err error
			if marks, err = s.infillTokens(pilotfish.Infill{}); err != nil {
				return nil, err
			}
			format.prompt, err = s.infillTokens(r.Gap)
			return [][]int32{format.prompt}, err
		},
		plan: func(a *answer.Answer) { a.None, a.Ends, a.Lines = r.None, marks, &r.Lines },
	})
}

// infillFormatter formats an infilling as llama-server does.
type infillFormatter struct {
	s      *Server
	r      *request.Infill
	name   string // of the model
	prompt []int32
	made   answer.Result // of a stream, so far
	plainStream
}

// infillPiece is a part of an answer; the last one also has its end.
type infillPiece struct {
	Index     int     `json:"index"`
	Content   string  `json:"content"`
	Tokens    []int32 `json:"tokens"`
	Slot      int     `json:"id_slot"`
	Stop      bool    `json:"stop"`
	Predicted int     `json:"tokens_predicted"`
	Evaluated int     `json:"tokens_evaluated"`
	*infillEnd
}

type infillEnd struct {
	Model      string        `json:"model"`
	Truncated  bool          `json:"truncated"`
	StopType   string        `json:"stop_type"` // "eos", "limit" or "word"
	StopString string        `json:"stopping_word"`
	Cached     int           `json:"tokens_cached"`
	Timings    infillTimings `json:"timings"`
	Own        *request.Own  `json:"pilotfish"`
}

type infillTimings struct {
	CacheN        int     `json:"cache_n"`  // tokens of the prompt that were in the KV cache
	PromptN       int     `json:"prompt_n"` // tokens of the prompt that were computed
	PromptMS      float64 `json:"prompt_ms"`
	PromptTPS     float64 `json:"prompt_per_second"`
	PredictedN    int     `json:"predicted_n"`
	PredictedMS   float64 `json:"predicted_ms"`
	PredictedTPS  float64 `json:"predicted_per_second"`
	PromptEach    float64 `json:"prompt_per_token_ms"`
	PredictedEach float64 `json:"predicted_per_token_ms"`
}

func (c *infillFormatter) promptParam() string { return "input_prefix" }

func (c *infillFormatter) wholeResponse(results []answer.Result, u usage) any {
	c.made = results[0]
	text, _ := c.made.Text()
	return c.finalPiece(text, u)
}

func (c *infillFormatter) pieceEvents(_ int, p answer.Piece) []any {
	c.made.Take(p)
	if p.Text == "" {
		return nil
	}
	_, made := c.made.Text()
	o := infillPiece{Content: p.Text, Tokens: []int32{}, Predicted: len(made), Evaluated: len(c.prompt)}
	for _, t := range p.Tokens {
		o.Tokens = append(o.Tokens, t.ID)
	}
	return []any{o}
}

func (c *infillFormatter) answerEndEvents(_ int, e answer.Ending) []any {
	c.made.Ending = e
	return nil
}

func (c *infillFormatter) initResponse() {}

func (c *infillFormatter) streamEndEvents(u usage) []any {
	return []any{c.finalPiece("", u)}
}

func (c *infillFormatter) finalPiece(shown string, u usage) infillPiece {
	kind := map[string]string{pilotfish.StopEnd: "eos", pilotfish.StopString: "word"}[c.made.Stop]
	end := &infillEnd{
		Model: c.name, StopType: cmp.Or(kind, "limit"), StopString: c.made.Stopped,
		Cached: len(c.prompt) + u.Completion, Own: c.r.Ended(u.sent), Timings: newInfillTimings(u),
	}
	return infillPiece{Content: shown, Tokens: []int32{}, Stop: true, Predicted: u.Completion, Evaluated: u.Prompt,
		infillEnd: end}
}

func newInfillTimings(u usage) infillTimings {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	each := func(n int, d time.Duration) (rate, one float64) {
		if n == 0 || d <= 0 {
			return 0, 0
		}
		return float64(n) / d.Seconds(), ms(d) / float64(n)
	}
	t := infillTimings{
		CacheN: u.Details.Cached, PromptN: u.Prompt - u.Details.Cached, PromptMS: ms(u.first),
		PredictedN: u.Completion, PredictedMS: ms(u.took),
	}
	t.PromptTPS, t.PromptEach = each(t.PromptN, u.first)
	t.PredictedTPS, t.PredictedEach = each(t.PredictedN, u.took)
	return t
}
