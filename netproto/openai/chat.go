package openai

import (
	"context"
	"net/http"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
	"github.com/pilotfish-ai/pilotfish/netproto/openai/request"
)

// chatForm is an API for chats: it parses a request and returns the shape of its response.
type chatForm func(t *reply, body []byte) (*request.Chat, shape, *request.Error)

// chat is the form of /v1/chat/completions.
func (s *Server) chat(_ *reply, body []byte) (*request.Chat, shape, *request.Error) {
	r, wrong := request.ReadChat(body, s.o.Defaults)
	return r, &chatShape{s: s, r: r}, wrong
}

// read parses a request. It is local if one of its messages is.
func (s *Server) read(form chatForm, t *reply, body []byte) (*request.Chat, shape, error) {
	r, shape, wrong := form(t, body)
	if wrong != nil {
		return nil, nil, wrong
	}
	r.Settings.Local = s.locals.local(r.Talk.Messages) || r.Settings.Local
	return r, shape, nil
}

func (s *Server) turn(form chatForm) answerer {
	return func(ctx context.Context, t *reply, body []byte) error {
		r, shape, err := s.read(form, t, body)
		if err != nil {
			return err
		}
		var calls answer.Calls
		return t.do(ctx, &job{Request: &r.Request, shape: shape, chat: true,
			tools: len(r.Tools) > 0 && r.Choice.Mode != "none",
			follow: func(ctx context.Context) (err error) {
				calls, err = r.CallSchemas(ctx, s.model)
				return err
			},
			prompts: func() ([][]int32, error) {
				ids, err := t.prompt(r)
				return [][]int32{ids}, err
			},
			plan: func(a *answer.Answer) {
				a.Calls, a.Forced, a.Single = calls, r.Choice.Mode == "required", r.Single
				a.Thinks, a.Budget, a.Hidden = s.model.Thinks(a.Prompt), r.Budget, r.Hidden
			},
		})
	}
}

// count counts the tokens of the prompts of requests. object is the type of the response object; "": it has none.
func (s *Server) count(form chatForm, object string) answerer {
	return func(ctx context.Context, t *reply, body []byte) error {
		r, _, err := s.read(form, t, body)
		if err != nil {
			return err
		}
		n, err := t.count(ctx, r)
		if err != nil {
			return err
		}
		return t.answer(http.StatusOK, request.Encode(struct {
			Tokens int    `json:"input_tokens"`
			Object string `json:"object,omitempty"`
		}{n, object}))
	}
}

// chatShape formats chat completions.
type chatShape struct {
	plainStream
	s    *Server
	r    *request.Chat
	head head
	open map[int]bool // answers that have begun
}

// chatObject is a complete response.
type chatObject struct {
	head
	Choices []chatChoice `json:"choices"`
	Usage   usage        `json:"usage"`
	Own     *request.Own `json:"pilotfish"`
}

type chatChoice struct {
	Index    int              `json:"index"`
	Message  chatMessage      `json:"message"`
	LogProbs *chatLogProbs    `json:"logprobs"`
	Finish   string           `json:"finish_reason"`
	Own      *request.Origins `json:"pilotfish,omitempty"`
}

type chatMessage struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"`
	Thought string     `json:"reasoning_content,omitempty"`
	Refusal *string    `json:"refusal"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
	// Function is the call in the older form.
	Function *toolCalled `json:"function_call,omitempty"`
}

// toolCall is a call, or in a chunk a piece of a call.
type toolCall struct {
	Index    *int       `json:"index,omitempty"`
	ID       string     `json:"id,omitempty"`
	Type     string     `json:"type,omitempty"`
	Function toolCalled `json:"function"`
}

type toolCalled struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

func (c *chatShape) param() string { return "messages" }

func (c *chatShape) start() { c.head = c.s.head("chatcmpl-", "chat.completion", c.r.Model) }

func (c *chatShape) all(results []answer.Result, u usage) any {
	o := chatObject{head: c.head, Usage: u, Own: c.r.Ended(u.sent)}
	for i, r := range results {
		text, tokens := r.Text()
		m := chatMessage{Role: "assistant", Content: &text, Thought: r.Thought()}
		for _, p := range r.Parts {
			called := toolCalled{p.Tool, string(p.Text)}
			switch {
			case p.Tool == "":
			case c.r.Older:
				m.Function = &called
			default:
				m.Calls = append(m.Calls, toolCall{ID: c.s.id("call_"), Type: "function", Function: called})
			}
		}
		if text == "" && (len(m.Calls) > 0 || m.Function != nil) {
			m.Content = nil
		}
		o.Choices = append(o.Choices, chatChoice{i, m, c.s.chatLogProbs(&c.r.Request, tokens), c.finish(r.Finish),
			own(r.Ending, c.r.Origins(tokens))})
	}
	return o
}

// chatChunk is a streamed piece of an answer.
type chatChunk struct {
	head
	Choices []chatDelta  `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
	Own     *request.Own `json:"pilotfish,omitempty"`
}

type chatDelta struct {
	Index    int              `json:"index"`
	Delta    delta            `json:"delta"`
	LogProbs *chatLogProbs    `json:"logprobs"`
	Finish   *string          `json:"finish_reason"`
	Own      *request.Origins `json:"pilotfish,omitempty"`
}

type delta struct {
	Role    string     `json:"role,omitempty"`
	Content *string    `json:"content,omitempty"`
	Thought string     `json:"reasoning_content,omitempty"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
	// Function is a piece of the call in the older form.
	Function *toolCalled `json:"function_call,omitempty"`
}

// finish returns why an answer ended, in the form of the request.
func (c *chatShape) finish(why string) string {
	if c.r.Older && why == answer.FinishCalls {
		return "function_call"
	}
	return why
}

func (c *chatShape) chunk(d ...chatDelta) chatChunk {
	out := chatChunk{head: c.head, Choices: d}
	out.Object = "chat.completion.chunk"
	return out
}

func (c *chatShape) begin() []any { return c.beginOf(0) }

// beginOf returns the first chunk of an answer, if it was not returned before.
func (c *chatShape) beginOf(index int) []any {
	if c.open[index] {
		return nil
	}
	if c.open == nil {
		c.open = map[int]bool{}
	}
	c.open[index] = true
	empty := ""
	first := c.chunk(chatDelta{Index: index, Delta: delta{Role: "assistant", Content: &empty}})
	if index == 0 {
		first.Own = c.r.Own()
	}
	return []any{first}
}

func (c *chatShape) chunks(index int, p answer.Piece) []any {
	all := c.beginOf(index)
	d := chatDelta{Index: index, Own: c.r.Origins(p.Tokens)}
	switch {
	case p.Call != nil:
		d.Own = nil
		call := toolCall{Index: &p.Call.Index, Function: toolCalled{p.Call.Name, p.Call.Arguments}}
		if c.r.Older {
			d.Delta.Function = &call.Function
			break
		}
		if p.Call.Name != "" {
			call.ID, call.Type = c.s.id("call_"), "function"
		}
		d.Delta.Calls = []toolCall{call}
	case p.Thought:
		d.Delta.Thought, d.Own = p.Text, nil
	case p.Text == "" && !c.r.Settings.LogProbs && d.Own == nil:
		return all // a part of a character: nothing to send
	default:
		d.Delta.Content = &p.Text
		d.LogProbs = c.s.chatLogProbs(&c.r.Request, p.Tokens)
	}
	return append(all, c.chunk(d))
}

func (c *chatShape) last(index int, e answer.Ending) []any {
	why := c.finish(e.Finish)
	end := c.chunk(chatDelta{Index: index, Finish: &why, Own: own(e, nil)})
	end.Own = c.r.Ended(e.Sent)
	return append(c.beginOf(index), end)
}

func (c *chatShape) end(u usage) (all []any) {
	if c.r.Usage {
		out := c.chunk()
		out.Choices, out.Usage = []chatDelta{}, &u
		all = append(all, out)
	}
	return append(all, streamEnd)
}
