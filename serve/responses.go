package serve

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

func (s *Server) parseResponses(_ *reply, body []byte) (*request.Chat, formatter, *request.Error) {
	r, wrong := request.ReadResponse(body, s.defaults, s.kept)
	return &r.Chat, &responseFormatter{s: s, r: r}, wrong
}

// responseFormatter formats answers as /v1/responses does.
type responseFormatter struct {
	s       *Server
	r       *request.Response
	id      string
	created int64
	events  int // events sent so far
	partedResult
}

// The states of answers and their items.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
)

// outputItem is a text, a thought or a call.
type outputItem struct {
	ID        string        `json:"id"`
	Type      string        `json:"type"` // "message", "reasoning" or "function_call"
	Status    string        `json:"status"`
	Role      string        `json:"role,omitempty"`
	Content   *[]outputText `json:"content,omitempty"`
	Summary   *[]outputText `json:"summary,omitempty"` // of a thought: empty
	CallID    string        `json:"call_id,omitempty"`
	Namespace string        `json:"namespace,omitempty"`
	Name      string        `json:"name,omitempty"`
	Arguments *string       `json:"arguments,omitempty"`
}

// outputText is the text of a message or of a thought, which has only type and text.
type outputText struct {
	Type        string          `json:"type"` // "output_text" or "reasoning_text"
	Text        string          `json:"text"`
	Annotations *[]struct{}     `json:"annotations,omitempty"` // none
	LogProbs    *[]tokenLogProb `json:"logprobs,omitempty"`
}

func (c *responseFormatter) promptParam() string { return "input" }

func (c *responseFormatter) initResponse() { c.id, c.created = c.s.newID("resp_"), time.Now().Unix() }

// itemID returns the id of a part as an item. A call has another id as well, which its result refers to.
func itemID(p answer.Part) string {
	switch {
	case p.Tool != "":
		return "fc_" + p.ID
	case p.Thought:
		return "rs_" + p.ID
	}
	return "msg_" + p.ID
}

func (c *responseFormatter) itemStatus(i int) string {
	if c.Whole(i) {
		return completed
	}
	return incomplete
}

// outputItem returns a part. At its beginning it is empty.
func (c *responseFormatter) outputItem(i int, status string) outputItem {
	p := c.Parts[i]
	o := outputItem{ID: itemID(p), Type: "message", Status: status}
	if p.Tool == "" {
		o.Role, o.Content = "assistant", &[]outputText{}
		if p.Thought {
			o.Type, o.Role, o.Summary = "reasoning", "", &[]outputText{}
		}
		if status != inProgress {
			*o.Content = append(*o.Content, c.outputText(p.Thought, string(p.Text), p.Tokens))
		}
		return o
	}
	arguments := ""
	if status != inProgress {
		arguments = string(p.Text)
	}
	o.Type, o.CallID, o.Name, o.Arguments = "function_call", "call_"+p.ID, p.Tool, &arguments
	for _, t := range c.r.Tools {
		if t.Name == p.Tool {
			o.Namespace = t.Namespace
		}
	}
	return o
}

func (c *responseFormatter) outputText(thought bool, text string, tokens []engine.Token) outputText {
	if thought {
		return outputText{Type: "reasoning_text", Text: text}
	}
	o := outputText{"output_text", text, &[]struct{}{}, &[]tokenLogProb{}}
	if l := c.s.chatLogProbs(&c.r.Request, tokens); l != nil {
		o.LogProbs = &l.Content
	}
	return o
}

func (c *responseFormatter) responseObject(status string) map[string]any {
	output := []outputItem{}
	if status != inProgress {
		for i := range c.Parts {
			output = append(output, c.outputItem(i, c.itemStatus(i)))
		}
	}
	o := maps.Clone(c.r.Echo)
	maps.Copy(o, map[string]any{
		"id": c.id, "object": "response", "created_at": c.created, "completed_at": nil, "status": status,
		"model": c.r.Model, "output": output, "error": nil, "incomplete_details": nil, "usage": nil,
		"system_fingerprint": c.s.o.Fingerprint, request.OwnName: c.r.Own(),
	})
	return o
}

// finishResponse stores the answer if requested, and returns it.
func (c *responseFormatter) finishResponse(u usage) map[string]any {
	status := completed
	if c.Finish == answer.FinishLength {
		status = incomplete
	}
	o := c.responseObject(status)
	if status == incomplete {
		o["incomplete_details"] = map[string]string{"reason": "max_output_tokens"}
	} else {
		o["completed_at"] = time.Now().Unix()
	}
	o["usage"] = map[string]any{"input_tokens": u.Prompt, "input_tokens_details": u.Details,
		"output_tokens": u.Completion, "output_tokens_details": u.Of,
		"total_tokens": u.Total}
	_, tokens := c.Text()
	o[request.OwnName] = messageOwn{c.r.Ended(u.sent), withShortened(c.Ending, c.r.Origins(tokens, c.s.tokenText))}
	if c.r.Store {
		c.storeForContinuation(request.Encode(o))
	}
	return o
}

func (c *responseFormatter) storeForContinuation(object []byte) {
	talk := request.Conversation{Messages: slices.Clone(c.r.Talk.Messages[c.r.From:])}
	items := map[string]pilotfish.Message{}
	for _, p := range c.Parts {
		m := pilotfish.Message{Role: "assistant"}
		switch {
		case p.Thought:
			m.Thought = string(p.Text)
		case p.Tool == "":
			m.Content = string(p.Text)
		default:
			m.Calls = []pilotfish.ToolCall{{ID: "call_" + p.ID, Name: p.Tool, Arguments: p.Text}}
		}
		m.Local = c.r.Settings.Local
		items[itemID(p)] = m
		talk.Add(m)
	}
	for i := range talk.Messages {
		talk.Messages[i].Local = c.r.Settings.Local
	}
	c.s.kept.storeResponse(&storedResponse{c.id, object, talk.Messages, items})
}

func (c *responseFormatter) wholeResponse(results []answer.Result, u usage) any {
	c.completeParts(results[0], c.s.newID)
	return c.finishResponse(u)
}

func (c *responseFormatter) newEvent(kind string, fields namedEvent) any {
	fields["type"], fields["sequence_number"] = kind, c.events
	c.events++
	return fields
}

func (c *responseFormatter) newItemEvent(kind string, i int, fields namedEvent) any {
	fields["output_index"], fields["item_id"] = i, itemID(c.Parts[i])
	if c.Parts[i].Tool == "" {
		fields["content_index"] = 0
	}
	return c.newEvent(kind, fields)
}

func (c *responseFormatter) firstEvents() []any {
	return []any{c.newEvent("response.created", namedEvent{"response": c.responseObject(inProgress)}),
		c.pingEvent(false)}
}

// pingEvent returns an event that clients know. Codex ends a stream without events for 5 minutes, and does not count
// comments; the event keepalive of OpenAI's own server ends the streams of clients that do not know it. In an answer
// that has begun, clients would replace what they have by the response in the event.
func (c *responseFormatter) pingEvent(begun bool) any {
	if begun {
		return keepAlive
	}
	return c.newEvent("response.in_progress", namedEvent{"response": c.responseObject(inProgress)})
}

func (c *responseFormatter) openPart(i int) []any {
	c.Parts[i].ID = c.s.newID("")
	all := []any{c.newEvent("response.output_item.added",
		namedEvent{"output_index": i, "item": c.outputItem(i, inProgress)})}
	if c.Parts[i].Tool == "" {
		part := c.outputText(c.Parts[i].Thought, "", nil)
		all = append(all, c.newItemEvent("response.content_part.added", i, namedEvent{"part": part}))
	}
	return all
}

func (c *responseFormatter) writePiece(i int, p answer.Piece) []any {
	if p.Call != nil {
		if p.Call.Arguments == "" {
			return nil
		}
		return []any{c.newItemEvent("response.function_call_arguments.delta", i, namedEvent{"delta": p.Call.Arguments})}
	}
	if p.Thought {
		return []any{c.newItemEvent("response.reasoning_text.delta", i, namedEvent{"delta": p.Text})}
	}
	own, says := c.r.Origins(p.Tokens, c.s.tokenText), c.outputText(false, p.Text, p.Tokens)
	if p.Text == "" && own == nil && len(*says.LogProbs) == 0 {
		return nil
	}
	fields := namedEvent{"delta": p.Text, "logprobs": says.LogProbs}
	if own != nil {
		fields[request.OwnName] = own
	}
	return []any{c.newItemEvent("response.output_text.delta", i, fields)}
}

func (c *responseFormatter) closePart(i int) (all []any) {
	p, item := c.Parts[i], c.outputItem(i, c.itemStatus(i))
	if p.Tool != "" {
		all = append(all, c.newItemEvent("response.function_call_arguments.done", i,
			namedEvent{"name": p.Tool, "arguments": string(p.Text)}))
	} else {
		says := (*item.Content)[0]
		kind, done := "response.output_text.done", namedEvent{"text": says.Text, "logprobs": says.LogProbs}
		if p.Thought {
			kind = "response.reasoning_text.done"
			delete(done, "logprobs")
		}
		all = append(all, c.newItemEvent(kind, i, done),
			c.newItemEvent("response.content_part.done", i, namedEvent{"part": says}))
	}
	return append(all, c.newEvent("response.output_item.done", namedEvent{"output_index": i, "item": item}))
}

func (c *responseFormatter) pieceEvents(_ int, p answer.Piece) []any { return c.takeEvents(p, c) }

func (c *responseFormatter) answerEndEvents(_ int, e answer.Ending) []any { return c.endEvents(e, c) }

func (c *responseFormatter) streamEndEvents(u usage) []any {
	o := c.finishResponse(u)
	return []any{c.newEvent("response."+o["status"].(string), namedEvent{"response": o})}
}

// errorEvents reports an error twice: as an error event and as the end of the response.
func (c *responseFormatter) errorEvents(e *request.Error) []any {
	const failed = "failed"
	c.Ending = answer.Ending{Finish: answer.FinishLength} // the last part is incomplete
	o := c.responseObject(failed)
	o["error"] = map[string]string{"code": e.Code, "message": e.Message}
	failure := namedEvent{"message": e.Message, "code": e.Code, "param": nil}
	maps.Copy(failure, e.Object())
	return []any{c.newEvent("error", failure), c.newEvent("response."+failed, namedEvent{"response": o})}
}

func (s *Server) getOrDeleteResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	k := s.kept.lookupResponse(id)
	switch {
	case k == nil || r.Method == http.MethodDelete && !s.kept.deleteResponse(id):
		s.rejectRequest(w, r, request.NotKept(http.StatusNotFound, "response_id", id))
	case r.Method == http.MethodDelete:
		writeJSON(w, http.StatusOK, request.Encode(map[string]any{"id": id, "object": "response", "deleted": true}))
	case r.URL.Query().Get("stream") == "true":
		s.rejectRequest(w, r, request.Invalid("stream", "stream: a stored answer is sent whole: leave it out"))
	default:
		writeJSON(w, http.StatusOK, k.object)
	}
}
