package serve

import (
	"context"
	"net/http"

	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// chatParser parses a request of one of the APIs for chats, and returns the formatter of its response.
type chatParser func(t *reply, body []byte) (*request.Chat, formatter, *request.Error)

func (s *Server) parseChat(_ *reply, body []byte) (*request.Chat, formatter, *request.Error) {
	r, wrong := request.ReadChat(body, s.defaults)
	return r, &chatFormatter{s: s, r: r}, wrong
}

// readChat marks a request as local if one of its messages is.
func (s *Server) readChat(parse chatParser, t *reply, body []byte) (*request.Chat, formatter, error) {
	r, format, wrong := parse(t, body)
	if wrong != nil {
		return nil, nil, wrong
	}
	r.Settings.Local = s.locals.hasLocal(r.Talk.Messages) || r.Settings.Local
	return r, format, nil
}

func (s *Server) chatHandler(parse chatParser) bodyHandler {
	return func(ctx context.Context, t *reply, body []byte) error {
		r, format, err := s.readChat(parse, t, body)
		if err != nil {
			return err
		}
		var calls answer.Calls
		return t.processJob(ctx, &job{Request: &r.Request, formatter: format, chat: true,
			tools: len(r.Tools) > 0 && r.Choice.Mode != "none",
			follow: func(ctx context.Context) (err error) {
				calls, err = r.CallSchemas(ctx, s.model)
				return err
			},
			prompts: func() ([][]int32, error) {
				ids, err := t.pinnedPrompt(r)
				return [][]int32{ids}, err
			},
			plan: func(a *answer.Answer) {
				a.Calls, a.Forced, a.Single = calls, r.Choice.Mode == "required", r.Single
				a.Thinks, a.Budget, a.Hidden = s.mayThink(a.Prompt), r.Budget, r.Hidden
			},
		})
	}
}

// countHandler counts the tokens of prompts. object is the type of the response object; "": it has none.
func (s *Server) countHandler(parse chatParser, object string) bodyHandler {
	return func(ctx context.Context, t *reply, body []byte) error {
		r, _, err := s.readChat(parse, t, body)
		if err != nil {
			return err
		}
		n, err := t.countPromptTokens(ctx, r)
		if err != nil {
			return err
		}
		return t.sendJSON(http.StatusOK, request.Encode(struct {
			Tokens int    `json:"input_tokens"`
			Object string `json:"object,omitempty"`
		}{n, object}))
	}
}

// chatFormatter formats chat completions.
type chatFormatter struct {
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

func (c *chatFormatter) promptParam() string { return "messages" }

func (c *chatFormatter) initResponse() {
	c.head = c.s.newHead("chatcmpl-", "chat.completion", c.r.Model)
}

func (c *chatFormatter) wholeResponse(results []answer.Result, u usage) any {
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
				m.Calls = append(m.Calls, toolCall{ID: c.s.newID("call_"), Type: "function", Function: called})
			}
		}
		if text == "" && (len(m.Calls) > 0 || m.Function != nil) {
			m.Content = nil
		}
		o.Choices = append(o.Choices, chatChoice{i, m, c.s.chatLogProbs(&c.r.Request, tokens), c.finishReason(r.Finish),
			withShortened(r.Ending, c.r.Origins(tokens, c.s.tokenText))})
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

func (c *chatFormatter) finishReason(why string) string {
	if c.r.Older && why == answer.FinishCalls {
		return "function_call"
	}
	return why
}

func (c *chatFormatter) newChunk(d ...chatDelta) chatChunk {
	out := chatChunk{head: c.head, Choices: d}
	out.Object = "chat.completion.chunk"
	return out
}

func (c *chatFormatter) firstEvents() []any { return c.firstChunk(0) }

// firstChunk returns the first chunk of an answer, if it was not returned before.
func (c *chatFormatter) firstChunk(index int) []any {
	if c.open[index] {
		return nil
	}
	if c.open == nil {
		c.open = map[int]bool{}
	}
	c.open[index] = true
	empty := ""
	first := c.newChunk(chatDelta{Index: index, Delta: delta{Role: "assistant", Content: &empty}})
	if index == 0 {
		first.Own = c.r.Own()
	}
	return []any{first}
}

func (c *chatFormatter) pieceEvents(index int, p answer.Piece) []any {
	all := c.firstChunk(index)
	d := chatDelta{Index: index, Own: c.r.Origins(p.Tokens, c.s.tokenText)}
	switch {
	case p.Call != nil:
		d.Own = nil
		call := toolCall{Index: &p.Call.Index, Function: toolCalled{p.Call.Name, p.Call.Arguments}}
		if c.r.Older {
			d.Delta.Function = &call.Function
			break
		}
		if p.Call.Name != "" {
			call.ID, call.Type = c.s.newID("call_"), "function"
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
	return append(all, c.newChunk(d))
}

func (c *chatFormatter) answerEndEvents(index int, e answer.Ending) []any {
	why := c.finishReason(e.Finish)
	end := c.newChunk(chatDelta{Index: index, Finish: &why, Own: withShortened(e, nil)})
	end.Own = c.r.Ended(e.Sent)
	return append(c.firstChunk(index), end)
}

func (c *chatFormatter) streamEndEvents(u usage) (all []any) {
	if c.r.Usage {
		out := c.newChunk()
		out.Choices, out.Usage = []chatDelta{}, &u
		all = append(all, out)
	}
	return append(all, streamEnd)
}
