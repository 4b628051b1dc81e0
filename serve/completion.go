package serve

import (
	"context"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

func (s *Server) handleCompletion(ctx context.Context, t *reply, body []byte) error {
	r, wrong := request.ReadCompletion(body, s.defaults)
	if wrong != nil {
		return wrong
	}
	format := &textFormatter{s: s, r: r, at: map[int]int{}}
	return t.processJob(ctx, &job{Request: &r.Request, formatter: format, prompts: format.tokenizePrompts,
		plan: func(a *answer.Answer) {
			a.Score, a.None, a.Ends = r.Echo && r.Settings.LogProbs, r.None, format.marks
		}})
}

// textFormatter formats text completions.
type textFormatter struct {
	plainStream
	s     *Server
	r     *request.Completion
	head  head
	echos []string    // texts that precede the answers, by prompt
	marks []int32     // special tokens for a gap
	at    map[int]int // number of characters sent, for each answer that has begun
}

func (c *textFormatter) tokenizePrompts() ([][]int32, error) {
	all := c.r.IDs
	for _, ids := range all {
		for _, id := range ids {
			if id < 0 || int(id) >= c.s.vocabularySize() {
				return nil, request.Invalid("prompt", "prompt: the model has no token %d: its ids are 0 to %d",
					id, c.s.vocabularySize()-1)
			}
		}
	}
	if c.r.Suffix != "" {
		var err error
		if c.marks, err = c.s.infillTokens(pilotfish.Infill{}); err != nil {
			return nil, err
		}
	}
	for _, text := range c.r.Texts {
		ids, err := c.tokenizePrompt(text)
		if err != nil {
			return nil, err
		}
		if len(ids) == 0 {
			return nil, request.Invalid("prompt", "prompt: it is empty: give a text to go on with")
		}
		all = append(all, ids)
	}
	if c.r.Echo {
		for i, ids := range all {
			echo := ""
			if c.r.Texts != nil {
				echo = c.r.Texts[i]
			} else {
				var b []byte
				for _, id := range ids {
					b = append(b, c.s.tokenBytes(id)...)
				}
				echo = string(b)
			}
			c.echos = append(c.echos, echo)
		}
	}
	return all, nil
}

func (c *textFormatter) tokenizePrompt(text string) ([]int32, error) {
	if c.r.Suffix != "" {
		return c.s.infillTokens(pilotfish.Infill{Prefix: text, Suffix: c.r.Suffix})
	}
	return c.s.model.TextTokens(text)
}

func (c *textFormatter) echoText(index int) string {
	if c.echos == nil {
		return ""
	}
	return c.echos[index/c.r.N]
}

type textObject struct {
	head
	Choices []textChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
	Own     *request.Own `json:"pilotfish,omitempty"`
}

type textChoice struct {
	Text     string           `json:"text"`
	Index    int              `json:"index"`
	LogProbs *textLogProbs    `json:"logprobs"`
	Finish   *string          `json:"finish_reason"`
	Own      *request.Origins `json:"pilotfish,omitempty"`
}

func (c *textFormatter) promptParam() string { return "prompt" }

func (c *textFormatter) initResponse() { c.head = c.s.newHead("cmpl-", "text_completion", c.r.Model) }

func (c *textFormatter) wholeResponse(results []answer.Result, u usage) any {
	o := textObject{head: c.head, Usage: &u, Own: c.r.Ended(u.sent)}
	for i, r := range results {
		at := 0
		text, tokens := r.Text()
		probs := c.s.textLogProbs(&c.r.Request, answer.Piece{Prompt: r.Prompt, Tokens: tokens}, &at)
		o.Choices = append(o.Choices, textChoice{c.echoText(i) + text, i, probs, &r.Finish,
			withShortened(r.Ending, c.r.Origins(tokens, c.s.tokenText))})
	}
	return o
}

func (c *textFormatter) pieceEvents(index int, p answer.Piece) []any {
	at, begun := c.at[index]
	own := c.r.Origins(p.Tokens, c.s.tokenText)
	text := p.Text
	if !begun {
		text = c.echoText(index) + text
	}
	probs := c.s.textLogProbs(&c.r.Request, p, &at)
	c.at[index] = at
	if text == "" && probs == nil && own == nil {
		return nil
	}
	o := textObject{head: c.head, Choices: []textChoice{{text, index, probs, nil, own}}}
	if !begun && index == 0 {
		o.Own = c.r.Own()
	}
	return []any{o}
}

func (c *textFormatter) answerEndEvents(index int, e answer.Ending) []any {
	text := ""
	if _, begun := c.at[index]; !begun {
		text = c.echoText(index) // an answer without tokens
	}
	return []any{textObject{head: c.head, Choices: []textChoice{{text, index, nil, &e.Finish, withShortened(e, nil)}},
		Own: c.r.Ended(e.Sent)}}
}

func (c *textFormatter) streamEndEvents(u usage) (all []any) {
	if c.r.Usage {
		all = append(all, textObject{head: c.head, Choices: []textChoice{}, Usage: &u})
	}
	return append(all, streamEnd)
}
