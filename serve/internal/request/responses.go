package request

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Response is a request of /v1/responses.
type Response struct {
	Chat
	Store bool
	From  int            // where the instructions end in the conversation; later requests do not inherit them
	local bool           // a stored answer that it continues was local
	Echo  map[string]any // fields of the request that the response repeats
}

// Kept are the stored answers of /v1/responses, which requests can continue.
type Kept interface {
	// Talk returns the conversation up to and including an answer, as a list that may be appended to; false if it is
	// not stored. Its messages are marked as local if the answer was.
	Talk(id string) ([]pilotfish.Message, bool)
	// Item returns the text or the call of an item of an answer; false if it is not stored.
	Item(id string) (pilotfish.Message, bool)
}

// ReadResponse parses a request. kept are the answers that it may continue.
func ReadResponse(body []byte, d Defaults, kept Kept) (*Response, *Error) {
	r := &Response{Store: true}
	f := parseBody(body)
	r.recordEcho(f.all)
	f.checkUnsupported("n", unsupported{values: "1", alters: true})
	f.parseBool("store", &r.Store)
	f.parseObject("text", func(o *fields) {
		o.checkUnsupported("verbosity", unsupported{values: `"medium"`})
		o.parseObject("format", func(in *fields) { in.parseFormat(&r.Request) })
	})
	f.parseThinking(&r.Chat, d)
	f.parseInclude(&r.Settings)
	f.parseCommonFields(&r.Request, d)
	f.checkUnsupported("conversation",
		unsupported{hint: "this server keeps answers: give previous_response_id", alters: true})
	f.checkUnsupported("prompt",
		unsupported{hint: "this server keeps no prompts: give instructions and input", alters: true})
	f.ignoreHarmless("background_options", "client_metadata", "max_tool_calls")
	f.parseInstructions(r)
	f.parseInput(r, kept)
	f.parseTools(&r.Chat, "function", "")
	f.applyToolChoice(&r.Chat)
	r.Settings.Local = r.Settings.Local || r.local
	r.Echo["temperature"], r.Echo["top_p"], r.Echo["store"] = r.Settings.Temperature, r.Settings.TopP, r.Store
	return r, f.finishParsing()
}

func (r *Response) recordEcho(given map[string]json.RawMessage) {
	r.Echo = map[string]any{
		"background": false, "instructions": nil, "max_output_tokens": nil, "max_tool_calls": nil,
		"metadata": map[string]string{}, "parallel_tool_calls": true, "previous_response_id": nil,
		"prompt_cache_key": nil, "reasoning": map[string]any{"effort": nil, "summary": nil}, "safety_identifier": nil,
		"service_tier": "default", "text": map[string]any{"format": map[string]string{"type": "text"}},
		"tool_choice": "auto", "tools": []string{}, "top_logprobs": 0, "truncation": "disabled", "user": nil,
	}
	for name := range r.Echo {
		if raw, ok := given[name]; ok && !slices.Contains([]string{"service_tier", "background", "truncation"}, name) {
			r.Echo[name] = raw
		}
	}
}

func (f *fields) parseInclude(s *terms.Settings) {
	var all []string
	f.parseValue("include", &all, "give a list of strings")
	f.parseInt("top_logprobs", 0, maxTop, &s.Top)
	s.LogProbs = s.Top > 0
	for _, name := range all {
		if name == "message.output_text.logprobs" {
			s.LogProbs = true
		} else {
			f.recordIgnored("include: " + plainName(name))
		}
	}
}

func (f *fields) parseInstructions(r *Response) {
	text := ""
	if f.parseString("instructions", &text); text != "" {
		r.Talk.Add(pilotfish.Message{Role: "system", Content: text})
	}
	r.From = len(r.Talk.Messages)
}

func (f *fields) parseInput(r *Response, kept Kept) {
	id := ""
	if f.parseString("previous_response_id", &id); id != "" {
		before, ok := kept.Talk(id)
		if !ok {
			err := NotKept(http.StatusBadRequest, "previous_response_id", id)
			err.Message = err.Param + ": " + err.Message
			f.recordError(err)
			return
		}
		for _, m := range before {
			r.local, m.Local = r.local || m.Local, false // the request is local, not each like message of others
			r.Talk.Messages = append(r.Talk.Messages, m)
		}
	}
	known := map[string]bool{} // ids of earlier calls
	for _, m := range r.Talk.Messages {
		for _, c := range m.Calls {
			known[c.ID] = true
		}
	}
	var text string
	if json.Unmarshal(f.all["input"], &text) == nil {
		f.takeField("input")
		r.Talk.Add(pilotfish.Message{Role: "user", Content: text})
		return
	}
	all, _ := f.parseList("input", maxMessages)
	f.parseElements("input", all, func(o *fields) {
		if m := o.parseItem(r, known, kept); m.Role != "" {
			r.Talk.Add(m)
		}
	})
	if len(r.Talk.Messages) == 0 || len(all) == 0 {
		f.failMissing("input", "give a text, or at least one message")
	}
}

// parseItem parses one item. One that has no place in a prompt becomes a turn without a role. known has the ids of
// earlier tool calls.
func (f *fields) parseItem(r *Response, known map[string]bool, kept Kept) (m pilotfish.Message) {
	kind := "message"
	f.parseString("type", &kind)
	switch kind {
	case "message":
		f.ignoreHarmless("phase")
		return f.parseMessage(known)
	case "function_call":
		m.Role, m.Calls = "assistant", []pilotfish.ToolCall{f.parseCallItem(known)}
	case "function_call_output":
		f.ignoreHarmless(ignoredInMessages...)
		m.Role = "tool"
		f.parseAnsweredCall("call_id", known)
		m.Content = f.parseToolResult("output")
	case "reasoning":
		if m.Thought = f.parseReasoning(); m.Thought != "" {
			m.Role = "assistant"
		}
	case "item_reference":
		id := ""
		f.parseString("id", &id)
		var ok bool
		if m, ok = kept.Item(id); !ok {
			f.failField("id", "there is no item %s in the answers that are kept: give the item itself", Shown(id))
		}
		for _, c := range m.Calls {
			known[c.ID] = true
		}
		r.local, m.Local = r.local || m.Local, false // as in parseInput
	case "additional_tools", "tool_search_output":
		f.parseTools(&r.Chat, "function", "")
		f.ignoreHarmless("call_id", "execution", "role")
		f.ignoreHarmless(ignoredInMessages...)
	case "compaction":
		f.failField("type", encrypted)
	default:
		m = f.parseOtherItem(kind)
	}
	return m
}

// encrypted is the error for a summary of earlier turns that only the server which wrote it can read.
const encrypted = "this is encrypted: send the messages that it stands for"

// parseOtherItem parses a call of a tool that its client runs, such as local_shell_call, as a call of a function of
// that name, and its output. Other items, such as calls of tools of a server, have no place in a prompt.
func (f *fields) parseOtherItem(kind string) (m pilotfish.Message) {
	of, output := strings.CutSuffix(kind, "_output")
	name, call := strings.CutSuffix(of, "_call")
	c := pilotfish.ToolCall{Name: name}
	switch given := f.parseString("call_id", &c.ID); {
	case call && output:
		m.Role, m.Content = "tool", f.parseToolResult("output")
	case call && given:
		f.parseString("name", &c.Name)
		c.Arguments = f.parseArguments()
		m.Role, m.Calls = "assistant", []pilotfish.ToolCall{c}
	default:
		f.ignoreObject(kind)
	}
	f.ignoreHarmless("caller", "namespace")
	f.ignoreHarmless(ignoredInMessages...)
	return m
}

// parseReasoning returns the text of an item of reasoning; "" for other forms, which are of other models.
func (f *fields) parseReasoning() string {
	var item struct{ Content []struct{ Type, Text string } }
	var text strings.Builder
	if json.Unmarshal(Encode(f.all), &item) == nil {
		for _, part := range item.Content {
			text.WriteString(part.Text)
		}
	}
	f.all = nil
	return text.String()
}

func (f *fields) parseCallItem(known map[string]bool) (c pilotfish.ToolCall) {
	f.parseRequired("call_id", &c.ID, "give the id of the call")
	f.parseRequired("name", &c.Name, "give the name of the function")
	c.Arguments = f.parseArguments()
	known[c.ID] = true
	f.ignoreHarmless("caller", "namespace")
	f.ignoreHarmless(ignoredInMessages...)
	return c
}

// NotKept returns the error for an answer that is not stored.
func NotKept(status int, param, id string) *Error {
	return Refuse(status, "previous_response_not_found", "there is no response %s: it was made with store false or by "+
		"another process, was deleted, or made room for others. Send the whole conversation as input", Shown(id)).
		Of(param)
}
