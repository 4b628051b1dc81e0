package request

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// Response is a request of /v1/responses.
type Response struct {
	Chat
	Store bool
	From  int            // where in the talk the instructions end, which later requests do not go on with
	Echo  map[string]any // what the answer repeats of the request
}

// Kept are the answers of /v1/responses that requests can go on with.
type Kept interface {
	Keeps() bool // there can be some
	// Talk returns the messages of an answer and of what it followed, as a list that may grow; false if it is not kept.
	Talk(id string) ([]answer.Message, bool)
	// Item returns what an item of an answer says or calls; false if it is not kept.
	Item(id string) (answer.Message, bool)
}

// ReadResponse reads a request. kept are the answers that it may go on with.
func ReadResponse(body []byte, d Defaults, kept Kept) (*Response, *Error) {
	r := &Response{Store: true}
	f := parseBody(body)
	r.echoes(f.all)
	f.idle("n", idle{values: "1"})
	f.refuse("max_tokens", "give max_output_tokens")
	f.integerMax("max_output_tokens", &r.Request)
	f.flag("store", &r.Store)
	r.Store = r.Store && kept.Keeps()
	f.textConfig(&r.Request)
	f.reasoning()
	f.included(&r.Settings)
	f.common(&r.Request, d)
	f.idle("context_management", idle{`[]`, "send what the prompt is to have"})
	f.refuse("conversation", "this server keeps answers, not conversations: give previous_response_id")
	f.refuse("prompt", "this server keeps no prompts: give instructions and input")
	f.harmless("background_options", "client_metadata", "max_tool_calls", "prompt_cache_options")
	f.instructions(r)
	f.input(r, kept)
	f.namespacedTools(&r.Chat)
	r.Echo["temperature"], r.Echo["top_p"], r.Echo["store"] = r.Settings.Temperature, r.Settings.TopP, r.Store
	return r, f.end()
}

// echoes keeps what the answer repeats of a request, or what holds where it says nothing.
func (r *Response) echoes(given map[string]json.RawMessage) {
	r.Echo = map[string]any{
		"background": false, "instructions": nil, "max_output_tokens": nil, "max_tool_calls": nil,
		"metadata": map[string]string{}, "parallel_tool_calls": true, "previous_response_id": nil,
		"prompt_cache_key": nil, "reasoning": map[string]any{"effort": nil, "summary": nil}, "safety_identifier": nil,
		"service_tier": "default", "text": map[string]any{"format": map[string]string{"type": "text"}},
		"tool_choice": "auto", "tools": []string{}, "top_logprobs": 0, "truncation": "disabled", "user": nil,
	}
	for name := range r.Echo {
		if raw, ok := given[name]; ok && name != "service_tier" {
			r.Echo[name] = raw
		}
	}
}

// textConfig reads the form that the answer is to have.
func (f *fields) textConfig(r *Request) {
	f.object("text", func(o *fields) {
		o.idle("verbosity", idle{values: `"medium"`})
		o.object("format", func(in *fields) { in.format(r, in.schema) })
	})
}

// reasoning accepts what a model that never thinks before it answers obeys.
func (f *fields) reasoning() {
	f.object("reasoning", func(o *fields) {
		o.idle("effort", idle{`"none" "minimal"`, hintThinks})
		o.harmless("summary", "generate_summary")
	})
}

// included reads what the answer is to contain besides. What this server does not have is left out.
func (f *fields) included(s *answer.Settings) {
	var all []string
	raw, ok := f.take("include")
	if ok && json.Unmarshal(raw, &all) != nil {
		f.fail("include", "give a list of strings")
	}
	f.count("top_logprobs", 0, maxTop, &s.Top)
	s.LogProbs = s.Top > 0 || slices.Contains(all, "message.output_text.logprobs")
}

// instructions reads the system's turn.
func (f *fields) instructions(r *Response) {
	text := ""
	if f.text("instructions", &text); text != "" {
		r.Talk.Add(answer.Message{Role: "system", Content: text})
	}
	r.From = len(r.Talk.Messages)
}

// input reads the turns so far: those of the answer that the request goes on with, and its own.
func (f *fields) input(r *Response, kept Kept) {
	id := ""
	if f.text("previous_response_id", &id); id != "" {
		before, ok := kept.Talk(id)
		if !ok {
			err := NotKept(http.StatusBadRequest, "previous_response_id", id)
			err.Message = err.Param + ": " + err.Message
			f.fails(err)
			return
		}
		r.Talk.Messages = append(r.Talk.Messages, before...)
	}
	known := map[string]bool{} // calls that were made
	for _, m := range r.Talk.Messages {
		for _, c := range m.Calls {
			known[c.ID] = true
		}
	}
	var text string
	if json.Unmarshal(f.all["input"], &text) == nil {
		f.take("input")
		r.Talk.Add(answer.Message{Role: "user", Content: text})
		return
	}
	all, _ := f.list("input", maxMessages)
	f.elements("input", all, func(o *fields) {
		if m := o.item(known, kept); m.Role != "" {
			r.Talk.Add(m)
		}
	})
	if len(r.Talk.Messages) == 0 || len(all) == 0 {
		f.missing("input", "give a text, or at least one message")
	}
}

// item reads one item. One that no prompt has is a turn without a role. known are the calls of tools up to there.
func (f *fields) item(known map[string]bool, kept Kept) (m answer.Message) {
	kind := "message"
	f.text("type", &kind)
	switch kind {
	case "message":
		f.harmless("phase")
		return f.message(known)
	case "function_call":
		m.Role, m.Calls = "assistant", []answer.Call{f.functionCall(known)}
	case "function_call_output":
		f.harmless(ignoredInMessages...)
		m.Role = "tool"
		f.answered("call_id", known)
		m.Content = f.content("output", true)
	case "reasoning":
		f.all = nil // of other models
	case "item_reference":
		id := ""
		f.text("id", &id)
		var ok bool
		if m, ok = kept.Item(id); !ok {
			f.fail("id", "there is no item %s in the answers that are kept: give the item itself", Shown(id))
		}
		for _, c := range m.Calls {
			known[c.ID] = true
		}
	default:
		f.fail("type", "this model reads messages, function_call and function_call_output alone")
	}
	return m
}

// functionCall reads a call that an assistant made.
func (f *fields) functionCall(known map[string]bool) (c answer.Call) {
	f.needed("call_id", &c.ID, "give the id of the call")
	f.needed("name", &c.Name, "give the name of the function")
	c.Arguments = f.arguments()
	known[c.ID] = true
	f.harmless("caller", "namespace")
	f.harmless(ignoredInMessages...)
	return c
}

// namespacedTools reads the functions that may be called, which may be grouped.
func (f *fields) namespacedTools(r *Chat) {
	f.objects("tools", maxTools, func(o *fields) { o.grouped(r, "") })
	if len(r.Tools) > maxTools {
		f.fail("tools", "%d functions are too many: give at most %d", len(r.Tools), maxTools)
	}
	f.choose(r, f.flatChoice)
}

// grouped reads a function, or a group of them.
func (f *fields) grouped(r *Chat, namespace string) {
	kind := ""
	f.text("type", &kind)
	f.harmless(ignoredInTools...)
	switch {
	case kind == "function":
		t := tool{Namespace: namespace}
		f.idle("allowed_callers", idle{values: `["direct"]`})
		f.harmless("output_schema")
		f.function(&t, "parameters")
		f.offer(r, t)
	case kind == "namespace" && namespace == "":
		name := ""
		f.text("name", &name)
		f.harmless("description")
		f.objects("tools", maxTools, func(o *fields) { o.grouped(r, name) })
	default:
		f.fail("type", "this server runs no tools, and knows functions alone: leave out %s", Shown(kind))
	}
}

// flatChoice reads which function is to be called, if any.
func (f *fields) flatChoice(r *Chat) {
	raw, ok := f.all["tool_choice"]
	if !ok || !isObject(raw) {
		f.toolChoice(r)
		return
	}
	f.object("tool_choice", func(o *fields) {
		o.one("type", "function", "give function: no other choice is known")
		o.chosen(r)
	})
}

// NotKept is the error of an answer that is not kept.
func NotKept(status int, param, id string) *Error {
	return Refuse(status, "previous_response_not_found", "there is no response %s: it was made with store false or by "+
		"another process, was deleted, or made room for others. Send the whole conversation as input", Shown(id)).
		Of(param)
}
