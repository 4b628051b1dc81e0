package openai

import (
	"encoding/json"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
	"github.com/pilotfish-ai/pilotfish/netproto/openai/request"
)

// messages is the form of Anthropic's /v1/messages.
func (s *Server) messages(t *reply, body []byte) (*request.Chat, shape, *request.Error) {
	r, wrong := request.ReadMessages(body, s.o.Defaults)
	return r, &messageShape{s: s, r: r, t: t}, wrong
}

// messageShape formats answers as Anthropic's API does.
type messageShape struct {
	s  *Server
	r  *request.Chat
	t  *reply
	id string
	answer.Result
}

// messageObject is an answer, or its first event, with what is known then.
type messageObject struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"` // "message"
	Role     string         `json:"role"` // "assistant"
	Model    string         `json:"model"`
	Content  []contentBlock `json:"content"`
	Stop     *string        `json:"stop_reason"`
	Sequence *string        `json:"stop_sequence"`
	Usage    messageUsage   `json:"usage"`
	Own      messageOwn     `json:"pilotfish"`
}

// messageOwn has this server's additions to Anthropic's API.
type messageOwn struct {
	*request.Own
	*request.Origins
}

// contentBlock is a text, a thought or a tool call.
type contentBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"` // "": thoughts are not signed
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// messageUsage counts the tokens of a request. Input excludes cached tokens.
type messageUsage struct {
	Input   int `json:"input_tokens"`
	Created int `json:"cache_creation_input_tokens"` // always 0: storing in the cache costs nothing extra
	Cached  int `json:"cache_read_input_tokens"`
	Output  int `json:"output_tokens"`
}

func (m *messageShape) param() string { return "messages" }

func (m *messageShape) start() { m.id = m.s.id("msg_") }

// object returns the answer without its content.
func (m *messageShape) object(u usage, o *request.Origins) messageObject {
	return messageObject{ID: m.id, Type: "message", Role: "assistant", Model: m.r.Model, Content: []contentBlock{},
		Usage: messageUsage{Input: u.Prompt - u.Details.Cached, Cached: u.Details.Cached, Output: u.Completion},
		Own:   messageOwn{m.r.Own(), o}}
}

// stop returns why the answer ended, in the terms of Anthropic's API.
func (m *messageShape) stop() (reason string, sequence *string) {
	switch {
	case m.Finish == answer.FinishLength:
		return "max_tokens", nil
	case m.Finish == answer.FinishCalls:
		return "tool_use", nil
	case m.Stopped != "":
		return "stop_sequence", &m.Stopped
	}
	return "end_turn", nil
}

// all leaves out an incomplete call, since its input is not an object.
func (m *messageShape) all(results []answer.Result, u usage) any {
	m.Result = results[0].Complete(m.s.id)
	_, tokens := m.Text()
	o := m.object(u, own(m.Ending, m.r.Origins(tokens)))
	for i, p := range m.Parts {
		b := m.block(i)
		if text := string(p.Text); p.Thought {
			b.Thinking = &text
		} else if p.Tool == "" {
			b.Text = &text
		} else if b.Input = p.Text; !json.Valid(p.Text) {
			continue
		}
		o.Content = append(o.Content, b)
	}
	reason, sequence := m.stop()
	o.Stop, o.Sequence, o.Own.Sent = &reason, sequence, &u.sent
	return o
}

// block returns a part without its content.
func (m *messageShape) block(i int) contentBlock {
	if p := m.Parts[i]; p.Tool != "" {
		return contentBlock{Type: "tool_use", ID: "toolu_" + p.ID, Name: p.Tool, Input: json.RawMessage("{}")}
	}
	if m.Parts[i].Thought {
		return contentBlock{Type: "thinking", Thinking: new(string), Signature: new(string)}
	}
	return contentBlock{Type: "text", Text: new(string)}
}

func (m *messageShape) ping(bool) any { return named{"type": "ping"} }

func (m *messageShape) begin() []any {
	return []any{named{"type": "message_start", "message": m.object(usage{Prompt: m.t.e.Prompt}, nil)}}
}

func (m *messageShape) Open(i int) []any {
	m.Parts[i].ID = m.s.id("")
	return []any{named{"type": "content_block_start", "index": i, "content_block": m.block(i)}}
}

func (m *messageShape) Delta(i int, p answer.Piece) []any {
	own := m.r.Origins(p.Tokens)
	d := map[string]any{"type": "text_delta", "text": p.Text}
	text := p.Text
	if p.Thought {
		own, d = nil, map[string]any{"type": "thinking_delta", "thinking": text}
	}
	if p.Call != nil {
		text, own = p.Call.Arguments, nil
		d = map[string]any{"type": "input_json_delta", "partial_json": text}
	}
	if text == "" && own == nil {
		return nil
	}
	out := named{"type": "content_block_delta", "index": i, "delta": d}
	if own != nil {
		out[request.OwnName] = own
	}
	return []any{out}
}

func (m *messageShape) Close(i int) []any {
	return []any{named{"type": "content_block_stop", "index": i}}
}

func (m *messageShape) chunks(_ int, p answer.Piece) []any { return m.Tell(p, m) }

func (m *messageShape) last(_ int, e answer.Ending) []any { return m.Finishes(e, m) }

func (m *messageShape) end(u usage) []any {
	reason, sequence := m.stop()
	out := named{"type": "message_delta", "delta": map[string]any{"stop_reason": reason, "stop_sequence": sequence},
		"usage": m.object(u, nil).Usage}
	out[request.OwnName] = messageOwn{m.r.Ended(u.sent), own(m.Ending, nil)}
	return []any{out, named{"type": "message_stop"}}
}

func (m *messageShape) failed(e *request.Error) []any {
	failure := e.Anthropic(m.t.e.ID)
	return []any{named{"type": failure.Type, "error": failure.Error, "request_id": failure.Request}}
}
