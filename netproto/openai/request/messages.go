package request

import (
	"encoding/json"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// ReadMessages parses a request of Anthropic's API for a turn of a chat.
func ReadMessages(body []byte, d Defaults) (*Chat, *Error) {
	r := new(Chat)
	f := parseBody(body)
	f.idle("n", idle{values: "1"})
	if d.Thinks {
		r.setThinking(false) // unless the request says otherwise: Anthropic's models think if they are asked to
	} else {
		f.thinking()
	}
	f.thinks(r, d)
	f.contextManagement()
	f.common(&r.Request, d)
	f.integerMax("max_tokens", &r.Request)
	f.stop("stop_sequences", &r.Settings)
	f.outputConfig(&r.Request)
	if system := f.content("system", false); system != "" {
		r.Talk.Add(answer.Message{Role: "system", Content: system})
	}
	f.turns(r, d)
	f.inputTools(r)
	f.harmless("cache_control", "diagnostics", "inference_geo", "user_profile_id", "workspace_id",
		"anthropic_version", "anthropic_beta")
	f.idle("speed", idle{values: `"standard"`})
	f.idle("mcp_servers", idle{`[]`, "give functions as tools"})
	f.refuse("container", "this server runs nothing but a model: leave it out")
	return r, f.end()
}

// thinking accepts values that a model without reasoning satisfies.
func (f *fields) thinking() {
	f.object("thinking", func(o *fields) {
		o.idle("type", idle{`"disabled" "adaptive"`, hintThinks})
		o.harmless("display", "budget_tokens")
	})
}

// contextManagement accepts the edits that only concern reasoning: prompts contain none.
func (f *fields) contextManagement() {
	f.object("context_management", func(o *fields) {
		o.objects("edits", maxMessages, func(e *fields) {
			kind := ""
			if e.text("type", &kind); !strings.HasPrefix(kind, "clear_thinking_") {
				e.fail("type", "this would change the prompt, and is not supported: leave the edit out")
			}
			e.all = nil
		})
	})
}

func (f *fields) outputConfig(r *Request) {
	f.object("output_config", func(o *fields) {
		o.idle("effort", idle{`"high"`, hintThinks})
		o.object("format", func(in *fields) { in.format(r, in.schema) })
	})
}

// turns parses the conversation. If the last turn is the assistant's, the answer begins with it.
func (f *fields) turns(r *Chat, d Defaults) {
	all, _ := f.list("messages", maxMessages)
	known := map[string]bool{} // ids of earlier calls
	f.elements("messages", all, func(o *fields) { o.turn(&r.Talk, known) })
	last := len(r.Talk.Messages) - 1
	if last < 0 || len(all) == 0 {
		f.missing("messages", "give at least one message")
		return
	}
	if r.Talk.Messages[last].Role != "assistant" || len(r.Talk.Messages[last].Calls) > 0 {
		return
	}
	r.prefix = r.Talk.Messages[last].Content
	r.Talk.Messages = r.Talk.Messages[:last]
	switch at := f.element("messages", len(all)-1); {
	case last == 0:
		f.missing("messages", "give a message of the user before the assistant's")
	case r.prefix != "" && r.mayThink() && d.Thinks:
		f.fails(Invalid(at, "%s: an answer with a thought begins with that: leave out the assistant's last message, "+
			"or give thinking.type disabled", at))
	case r.prefix != "" && r.Settings.Structured():
		f.fails(Invalid(at, "%s: an answer with a format begins by itself: leave out the assistant's last message", at))
	}
}

// turn parses one message. known has the ids of earlier tool calls.
func (f *fields) turn(talk *answer.Conversation, known map[string]bool) {
	role := ""
	f.text("role", &role)
	f.harmless(ignoredInMessages...)
	if role != "user" && role != "assistant" && role != "system" {
		f.fail("role", "give user, assistant or system")
	}
	var of answer.Message
	f.mark(&of)
	add := func(m answer.Message) {
		m.Local = of.Local
		talk.Add(m)
	}
	var text string
	var blocks []json.RawMessage
	raw, ok := f.take("content")
	switch {
	case !ok:
		f.missing("content", "give a text")
	case json.Unmarshal(raw, &text) == nil:
		add(answer.Message{Role: role, Content: text})
	case json.Unmarshal(raw, &blocks) == nil:
		f.blocks(role, blocks, add, known)
	default:
		f.fail("content", "give a string, or a list of blocks")
	}
}

// blocks parses the parts of a message: results of tools become turns of their own, texts and calls one turn.
func (f *fields) blocks(role string, all []json.RawMessage, add func(answer.Message), known map[string]bool) {
	var said, thought strings.Builder
	var calls []answer.Call
	says := false
	end := func() {
		if says {
			add(answer.Message{Role: role, Content: said.String(), Thought: thought.String(), Calls: calls})
		}
		said.Reset() // results of tools are the user's, who has no thoughts and makes no calls
		says = false
	}
	f.elements("content", all, func(o *fields) {
		m, shown := o.block(role, known)
		if m.Role == "tool" {
			end()
			add(m)
		} else if shown {
			said.WriteString(m.Content)
			thought.WriteString(m.Thought)
			calls, says = append(calls, m.Calls...), says || m.Thought == ""
		}
	})
	end()
}

// block parses a part of a message. It returns false for a part that has no place in a prompt.
func (f *fields) block(role string, known map[string]bool) (m answer.Message, shown bool) {
	kind := ""
	f.text("type", &kind)
	switch {
	case kind == "text":
		f.needed("text", &m.Content, "give a text")
	case role == "assistant" && kind == "thinking":
		f.text("thinking", &m.Thought)
		f.harmless("signature")
	case role == "assistant" && kind == "redacted_thinking":
		f.all = nil // of other models
		return m, false
	case role == "assistant" && kind == "tool_use":
		m.Calls = []answer.Call{f.toolUse(known)}
	case role == "user" && kind == "tool_result":
		m.Role = "tool"
		f.answered("tool_use_id", known)
		m.Content = f.content("content", false)
	default:
		f.fail("type", "this model reads text and calls of tools alone: give text, tool_use or tool_result")
	}
	f.harmless("caller", "is_error", "toolset_name")
	f.harmless(ignoredInParts...)
	return m, true
}

func (f *fields) toolUse(known map[string]bool) answer.Call {
	var c answer.Call
	f.needed("id", &c.ID, "give the id of the call")
	f.needed("name", &c.Name, "give the name of the function")
	known[c.ID] = true
	c.Arguments = []byte("{}")
	if input, ok := f.take("input"); ok {
		if c.Arguments = input; !isObject(input) {
			f.fail("input", "give a JSON object")
		}
	}
	return c
}

func (f *fields) inputTools(r *Chat) {
	f.objects("tools", maxTools, func(o *fields) {
		var t tool
		o.harmless(ignoredInTools...)
		o.idle("type", idle{`"custom"`, "this server runs no tools: give a name, a description and an input_schema"})
		o.idle("allowed_callers", idle{values: `["direct"]`})
		o.function(&t, "input_schema")
		f.offer(r, t)
	})
	f.choose(r, f.inputChoice)
}

// inputChoice parses which function must be called, if any.
func (f *fields) inputChoice(r *Chat) {
	f.object("tool_choice", func(o *fields) {
		kind := ""
		o.text("type", &kind)
		o.flag("disable_parallel_tool_use", &r.Single)
		switch kind {
		case "none":
			r.Choice.Mode = "none"
		case "auto":
		case "any":
			r.Choice.Mode = "required"
		case "tool":
			o.chosen(r)
		default:
			o.fail("type", "give auto, any, tool or none")
		}
		if r.Choice.Mode == "required" && len(r.Tools) == 0 {
			o.fail("type", "there are no tools to choose from: give some, or leave it out")
		}
	})
}
