package serve

import (
	"encoding/json"

	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

func (s *Server) parseMessages(t *reply, body []byte) (*request.Chat, formatter, *request.Error) {
	r, wrong := request.ReadMessages(body, s.defaults)
	return r, &messageFormatter{s: s, r: r, t: t}, wrong
}

// messageFormatter formats answers as Anthropic's API does.
type messageFormatter struct {
	s  *Server
	r  *request.Chat
	t  *reply
	id string
	partedResult
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

func (m *messageFormatter) promptParam() string { return "messages" }

func (m *messageFormatter) initResponse() { m.id = m.s.newID("msg_") }

// newMessage returns the answer without its content.
func (m *messageFormatter) newMessage(u usage, o *request.Origins) messageObject {
	return messageObject{ID: m.id, Type: "message", Role: "assistant", Model: m.r.Model, Content: []contentBlock{},
		Usage: messageUsage{Input: u.Prompt - u.Details.Cached, Cached: u.Details.Cached, Output: u.Completion},
		Own:   messageOwn{m.r.Own(), o}}
}

func (m *messageFormatter) stopReason() (reason string, sequence *string) {
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

// wholeResponse leaves out an incomplete call, since its input is not an object.
func (m *messageFormatter) wholeResponse(results []answer.Result, u usage) any {
	m.completeParts(results[0], m.s.newID)
	_, tokens := m.Text()
	o := m.newMessage(u, withShortened(m.Ending, m.r.Origins(tokens, m.s.tokenText)))
	for i, p := range m.Parts {
		b := m.emptyBlock(i)
		if text := string(p.Text); p.Thought {
			b.Thinking = &text
		} else if p.Tool == "" {
			b.Text = &text
		} else if b.Input = p.Text; !json.Valid(p.Text) {
			continue
		}
		o.Content = append(o.Content, b)
	}
	reason, sequence := m.stopReason()
	o.Stop, o.Sequence, o.Own.Sent = &reason, sequence, (*request.Receipt)(&u.sent)
	return o
}

func (m *messageFormatter) emptyBlock(i int) contentBlock {
	if p := m.Parts[i]; p.Tool != "" {
		return contentBlock{Type: "tool_use", ID: "toolu_" + p.ID, Name: p.Tool, Input: json.RawMessage("{}")}
	}
	if m.Parts[i].Thought {
		return contentBlock{Type: "thinking", Thinking: new(string), Signature: new(string)}
	}
	return contentBlock{Type: "text", Text: new(string)}
}

func (m *messageFormatter) pingEvent(bool) any { return namedEvent{"type": "ping"} }

func (m *messageFormatter) firstEvents() []any {
	return []any{namedEvent{"type": "message_start", "message": m.newMessage(usage{Prompt: m.t.e.Prompt}, nil)}}
}

func (m *messageFormatter) openPart(i int) []any {
	m.Parts[i].ID = m.s.newID("")
	return []any{namedEvent{"type": "content_block_start", "index": i, "content_block": m.emptyBlock(i)}}
}

func (m *messageFormatter) writePiece(i int, p answer.Piece) []any {
	own := m.r.Origins(p.Tokens, m.s.tokenText)
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
	out := namedEvent{"type": "content_block_delta", "index": i, "delta": d}
	if own != nil {
		out[request.OwnName] = own
	}
	return []any{out}
}

func (m *messageFormatter) closePart(i int) []any {
	return []any{namedEvent{"type": "content_block_stop", "index": i}}
}

func (m *messageFormatter) pieceEvents(_ int, p answer.Piece) []any { return m.takeEvents(p, m) }

func (m *messageFormatter) answerEndEvents(_ int, e answer.Ending) []any { return m.endEvents(e, m) }

func (m *messageFormatter) streamEndEvents(u usage) []any {
	reason, sequence := m.stopReason()
	out := namedEvent{"type": "message_delta",
		"delta": map[string]any{"stop_reason": reason, "stop_sequence": sequence}, "usage": m.newMessage(u, nil).Usage}
	out[request.OwnName] = messageOwn{m.r.Ended(u.sent), withShortened(m.Ending, nil)}
	return []any{out, namedEvent{"type": "message_stop"}}
}

func (m *messageFormatter) errorEvents(e *request.Error) []any {
	failure := e.Anthropic(m.t.e.ID)
	return []any{namedEvent{"type": failure.Type, "error": failure.Error, "request_id": failure.Request}}
}
