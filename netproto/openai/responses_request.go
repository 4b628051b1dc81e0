package openai

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// responseRequest is a request of /v1/responses.
type responseRequest struct {
	chatRequest
	store bool
	from  int            // where in the talk the instructions end, which later requests do not go on with
	echo  map[string]any // what the answer repeats of the request
}

// parseResponse reads a request. kept are the answers that it may go on with.
func parseResponse(body []byte, d Defaults, kept *archive) (*responseRequest, *Error) {
	r := &responseRequest{store: true}
	f := parseBody(body)
	r.echoes(f.all)
	f.idle("n", idle{values: "1"})
	f.refuse("max_tokens", "give max_output_tokens")
	f.integerMax("max_output_tokens", &r.request)
	f.flag("store", &r.store)
	r.store = r.store && kept.most > 0
	f.textConfig(&r.request)
	f.reasoning()
	f.included(&r.settings)
	f.common(&r.request, d)
	f.idle("context_management", idle{`[]`, "send what the prompt is to have"})
	f.refuse("conversation", "this server keeps answers, not conversations: give previous_response_id")
	f.refuse("prompt", "this server keeps no prompts: give instructions and input")
	f.harmless("background_options", "client_metadata", "max_tool_calls", "prompt_cache_options")
	f.instructions(r)
	f.input(r, kept)
	f.namespacedTools(&r.chatRequest)
	r.echo["temperature"], r.echo["top_p"], r.echo["store"] = r.settings.Temperature, r.settings.TopP, r.store
	return r, f.end()
}

// echoes keeps what the answer repeats of a request, or what holds where it says nothing.
func (r *responseRequest) echoes(given map[string]json.RawMessage) {
	r.echo = map[string]any{
		"background": false, "instructions": nil, "max_output_tokens": nil, "max_tool_calls": nil,
		"metadata": map[string]string{}, "parallel_tool_calls": true, "previous_response_id": nil,
		"prompt_cache_key": nil, "reasoning": map[string]any{"effort": nil, "summary": nil}, "safety_identifier": nil,
		"service_tier": "default", "text": map[string]any{"format": map[string]string{"type": "text"}},
		"tool_choice": "auto", "tools": []string{}, "top_logprobs": 0, "truncation": "disabled", "user": nil,
	}
	for name := range r.echo {
		if raw, ok := given[name]; ok && name != "service_tier" {
			r.echo[name] = raw
		}
	}
}

// textConfig reads the form that the answer is to have.
func (f *fields) textConfig(r *request) {
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

// included reads what the answer is to tell besides: of what is not there, there is nothing to tell.
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
func (f *fields) instructions(r *responseRequest) {
	text := ""
	if f.text("instructions", &text); text != "" {
		r.talk.Add(answer.Message{Role: "system", Content: text})
	}
	r.from = len(r.talk.Messages)
}

// input reads the turns so far: those of the answer that the request goes on with, and its own.
func (f *fields) input(r *responseRequest, kept *archive) {
	id := ""
	if f.text("previous_response_id", &id); id != "" {
		before := kept.get(id)
		if before == nil {
			err := notKept(http.StatusBadRequest, "previous_response_id", id)
			err.Message = err.Param + ": " + err.Message
			f.fails(err)
			return
		}
		r.talk.Messages = append(r.talk.Messages, before.turns()...)
	}
	known := map[string]bool{} // calls that were made
	for _, m := range r.talk.Messages {
		for _, c := range m.Calls {
			known[c.ID] = true
		}
	}
	var text string
	if json.Unmarshal(f.all["input"], &text) == nil {
		f.take("input")
		r.talk.Add(answer.Message{Role: "user", Content: text})
		return
	}
	all, _ := f.list("input", maxMessages)
	f.elements("input", all, func(o *fields) {
		if m := o.item(known, kept); m.Role != "" {
			r.talk.Add(m)
		}
	})
	if len(r.talk.Messages) == 0 || len(all) == 0 {
		f.missing("input", "give a text, or at least one message")
	}
}

// item reads one item. One that no prompt has is a turn without a role. known are the calls of tools up to there.
func (f *fields) item(known map[string]bool, kept *archive) (m answer.Message) {
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
		if m, ok = kept.item(id); !ok {
			f.fail("id", "there is no item %s in the answers that are kept: give the item itself", shown(id))
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
func (f *fields) namespacedTools(r *chatRequest) {
	f.objects("tools", maxTools, func(o *fields) { o.grouped(r, "") })
	if len(r.tools) > maxTools {
		f.fail("tools", "%d functions are too many: give at most %d", len(r.tools), maxTools)
	}
	f.choose(r, f.flatChoice)
}

// grouped reads a function, or a group of them.
func (f *fields) grouped(r *chatRequest, namespace string) {
	kind := ""
	f.text("type", &kind)
	f.harmless(ignoredInTools...)
	switch {
	case kind == "function":
		t := tool{namespace: namespace}
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
		f.fail("type", "this server runs no tools, and knows functions alone: leave out %s", shown(kind))
	}
}

// flatChoice reads which function is to be called, if any.
func (f *fields) flatChoice(r *chatRequest) {
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
