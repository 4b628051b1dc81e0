package request

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// ReadMessages parses a request of Anthropic's API for a turn of a chat.
func ReadMessages(body []byte, d Defaults) (*Chat, *Error) {
	r := new(Chat)
	f := parseBody(body, d)
	f.thread()
	f.idle("n", idle{values: "1", alters: true})
	if d.Thinks {
		r.setThinking(false) // unless the request says otherwise: Anthropic's models think if they are asked to
	}
	f.thinks(r, d)
	f.object("output_config", func(o *fields) {
		o.idle("effort", idle{`"high"`, hintThinks, false})
		o.object("format", func(in *fields) { in.format(&r.Request) })
	})
	f.common(&r.Request, d)
	f.stop("stop_sequences", &r.Settings)
	if system := f.content("system", false); system != "" {
		r.Talk.Add(answer.Message{Role: "system", Content: system})
	}
	f.turns(r, d)
	f.tools(r, "custom", "")
	f.choose(r)
	f.idle("compaction", idle{hint: "no summaries are made here", alters: true})
	f.harmless("cache_control", "diagnostics", "inference_geo", "user_profile_id", "workspace_id",
		"anthropic_version", "anthropic_beta")
	return r, f.end()
}

// thread refuses to continue a conversation of which the server would have the beginning. With this code, Anthropic's
// clients then send all of it.
func (f *fields) thread() {
	f.object("thread", func(o *fields) {
		kind := ""
		if o.text("type", &kind); kind == "continue" {
			o.fail("previous_message_id", "this server keeps no threads: send all messages")
			o.err.Status, o.err.Details = http.StatusNotFound, map[string]string{"error_code": "thread_not_found"}
		}
		f.ignored(o.at)
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
	case !ok && role == "system": // it has settings alone
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
		said.Reset()
		thought.Reset()
		calls, says = nil, false
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
	case kind == "thinking" && role == "assistant":
		f.text(kind, &m.Thought)
		f.harmless("signature")
	case kind == "tool_use" && role == "assistant", kind == "mcp_tool_use":
		m.Calls = []answer.Call{f.toolUse(known)}
	case kind == "tool_result" && role == "user", kind == "mcp_tool_result":
		m.Role = "tool"
		f.answered("tool_use_id", known)
		m.Content = f.result("content")
	case kind == "compaction" && f.all["content"] != nil: // the summary of earlier turns
		f.text("content", &m.Content)
	case kind == "compaction":
		f.fail("type", encrypted)
	case kind == "tool_use", kind == "tool_result":
		f.fail("type", "this model reads text and calls of tools alone: give text, tool_use or tool_result")
	case strings.HasSuffix(kind, "_tool_result"), strings.Contains(kind, "thinking"): // of servers, and of other models
		f.leave(kind)
	default:
		m.Content = f.part(kind, false)
	}
	f.harmless("caller", "is_error", "toolset_name", "server_name")
	f.harmless(ignoredInParts...)
	return m, f.all != nil
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
