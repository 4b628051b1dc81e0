package openai

import (
	"context"
	"encoding/json"
	"strconv"
)

// completionTokens is the length of a completion where the request says nothing, as OpenAI has it.
const completionTokens = 16

// completionRequest is a request for what follows texts.
type completionRequest struct {
	request
	texts []string  // prompts; nil where they are given as ids
	ids   [][]int32 // prompts
	echo  bool
	none  bool // nothing is generated: max_tokens is 0

	suffix string // that follows the answer; "": no matter what
}

// parseCompletion reads a request.
func parseCompletion(body []byte, d Defaults) (*completionRequest, *Error) {
	r := new(completionRequest)
	r.settings.MaxTokens = completionTokens
	f := parseBody(body)
	f.common(&r.request, d)
	if r.none = means(f.all["max_tokens"], "0"); r.none {
		f.take("max_tokens")
	}
	f.integerMax("max_tokens", &r.request)
	f.responseFormat(&r.request)
	if f.count("logprobs", 0, maxTopText, &r.settings.Top) {
		r.settings.LogProbs = true
	}
	f.flag("echo", &r.echo)
	if best := r.n; f.count("best_of", 1, maxChoices, &best) && best != r.n {
		f.fail("best_of", "answers are not sorted here: leave it out, and take n")
	}
	f.idle("add_special_tokens", idle{values: "true"})
	f.prompts(r)
	if f.text("suffix", &r.suffix); r.suffix != "" && (r.echo || r.ids != nil) {
		f.fail("suffix", "a gap is in a text: leave out echo, and give texts as prompt")
	}
	if n := (len(r.texts) + len(r.ids)) * r.n; n > maxAnswers {
		f.fail("prompt", "%d answers are too many: ask for at most %d in one request", n, maxAnswers)
	}
	return r, f.end()
}

// prompts reads a text, a list of texts, ids, or a list of lists of ids.
func (f *fields) prompts(r *completionRequest) {
	raw, ok := f.take("prompt")
	if !ok {
		f.missing("prompt", "give a text to go on with")
		return
	}
	var text string
	var ids []tokenID
	var lists [][]tokenID
	switch {
	case json.Unmarshal(raw, &text) == nil:
		r.texts = []string{text}
	case json.Unmarshal(raw, &r.texts) == nil && len(r.texts) > 0:
	case json.Unmarshal(raw, &ids) == nil && len(ids) > 0:
		lists, r.texts = [][]tokenID{ids}, nil
	case json.Unmarshal(raw, &lists) == nil && len(lists) > 0:
		r.texts = nil
	default:
		f.fail("prompt", "give a string, a list of strings, a list of token ids, or a list of such lists; "+
			"none of them empty")
	}
	for _, list := range lists {
		if len(list) == 0 {
			f.fail("prompt", "a list of token ids is empty: give at least one")
		}
		prompt := make([]int32, len(list))
		for i, id := range list {
			prompt[i] = int32(id)
		}
		r.ids = append(r.ids, prompt)
	}
}

// tokenID is the id of a token in a request. A null is none, which encoding/json would take for 0.
type tokenID int32

// UnmarshalJSON implements [json.Unmarshaler].
func (t *tokenID) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 32)
	*t = tokenID(n)
	return err
}

// complete answers a request for what follows texts.
func (s *Server) complete(ctx context.Context, t *reply, body []byte) error {
	r, wrong := parseCompletion(body, s.o.Defaults)
	if wrong != nil {
		return wrong
	}
	shape := &textShape{s: s, r: r, at: map[int]int{}}
	return t.do(ctx, &job{request: &r.request, shape: shape, prompts: shape.prompts, plan: func(a *answer) {
		a.score, a.none, a.ends = r.echo && r.settings.LogProbs, r.none, shape.marks
	}})
}

// textShape writes completions.
type textShape struct {
	plainErrors
	s     *Server
	r     *completionRequest
	head  head
	echos []string    // what is put before answers, by prompt
	marks []int32     // of a gap
	at    map[int]int // where the text of an answer stands, in characters, of those that have begun
}

// prompts returns the prompts as ids.
func (c *textShape) prompts() ([][]int32, error) {
	all, model := c.r.ids, c.s.model
	for _, ids := range all {
		for _, id := range ids {
			if id < 0 || int(id) >= model.Vocabulary() {
				return nil, invalid("prompt", "prompt: the model has no token %d: its ids are 0 to %d",
					id, model.Vocabulary()-1)
			}
		}
	}
	if c.r.suffix != "" {
		var err error
		if c.marks, err = model.Infill(Infill{}); err != nil {
			return nil, err
		}
	}
	for _, text := range c.r.texts {
		ids, err := c.ids(text)
		if err != nil {
			return nil, err
		}
		if len(ids) == 0 {
			return nil, invalid("prompt", "prompt: it is empty: give a text to go on with")
		}
		all = append(all, ids)
	}
	if c.r.echo {
		for i, ids := range all {
			echo := ""
			if c.r.texts != nil {
				echo = c.r.texts[i]
			} else {
				var b []byte
				for _, id := range ids {
					b = append(b, model.Bytes(id)...)
				}
				echo = string(b)
			}
			c.echos = append(c.echos, echo)
		}
	}
	return all, nil
}

// ids are those of a text, or of the gap behind it.
func (c *textShape) ids(text string) ([]int32, error) {
	if c.r.suffix != "" {
		return c.s.model.Infill(Infill{Prefix: text, Suffix: c.r.suffix})
	}
	return c.s.model.Tokenize(text, true)
}

// echo is what is put before an answer.
func (c *textShape) echo(index int) string {
	if c.echos == nil {
		return ""
	}
	return c.echos[index/c.r.n]
}

type textObject struct {
	head
	Choices []textChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
	Own     *extension   `json:"pilotfish,omitempty"`
}

type textChoice struct {
	Text     string        `json:"text"`
	Index    int           `json:"index"`
	LogProbs *textLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
	Own      *origins      `json:"pilotfish,omitempty"`
}

func (c *textShape) param() string { return "prompt" }

func (c *textShape) start() { c.head = c.s.head("cmpl-", "text_completion", c.r.model) }

func (c *textShape) all(results []result, u usage) any {
	o := textObject{head: c.head, Usage: &u, Own: c.r.ended(u.sent)}
	for i, r := range results {
		at := 0
		text, tokens := r.text()
		probs := c.s.textLogProbs(&c.r.request, piece{prompt: r.prompt, tokens: tokens}, &at)
		o.Choices = append(o.Choices, textChoice{c.echo(i) + text, i, probs, &r.finish,
			r.own(c.r.originsOf(tokens))})
	}
	return o
}

func (c *textShape) chunks(index int, p piece) []any {
	at, begun := c.at[index]
	own := c.r.originsOf(p.tokens)
	text := p.text
	if !begun {
		text = c.echo(index) + text
	}
	probs := c.s.textLogProbs(&c.r.request, p, &at)
	c.at[index] = at
	if text == "" && probs == nil && own == nil {
		return nil
	}
	o := textObject{head: c.head, Choices: []textChoice{{text, index, probs, nil, own}}}
	if !begun && index == 0 {
		o.Own = c.r.extension()
	}
	return []any{o}
}

func (c *textShape) last(index int, e ending) []any {
	text := ""
	if _, begun := c.at[index]; !begun {
		text = c.echo(index) // an answer without a token
	}
	return []any{textObject{head: c.head, Choices: []textChoice{{text, index, nil, &e.finish, e.own(nil)}},
		Own: c.r.ended(e.sent)}}
}

func (c *textShape) end(u usage) (all []any) {
	if c.r.usage {
		all = append(all, textObject{head: c.head, Choices: []textChoice{}, Usage: &u})
	}
	return append(all, streamEnd)
}
