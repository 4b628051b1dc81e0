package request

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/pilotfish-ai/pilotfish"
)

// ReadMessages parses a request of Anthropic's API for a turn of a chat.
func ReadMessages(body []byte, d Defaults) (*Chat, *Error) {
	r := new(Chat)
	f := parseBody(body)
	f.parseThread()
	f.checkUnsupported("n", unsupported{values: "1", alters: true})
	if d.Thinks {
		r.setThinking(false) // unless the request says otherwise: Anthropic's models think if they are asked to
	}
	f.parseThinking(r, d)
	f.parseObject("output_config", func(o *fields) {
		o.checkUnsupported("effort", unsupported{values: `"high"`})
		o.parseObject("format", func(in *fields) { in.parseFormat(&r.Request) })
	})
	f.parseCommonFields(&r.Request, d)
	f.parseStop("stop_sequences", &r.Settings)
	if system := f.parseContent("system", false); system != "" {
		r.Talk.Add(pilotfish.Message{Role: "system", Content: system})
	}
	f.parseTurns(r, d)
	f.parseTools(r, "custom", "")
	f.applyToolChoice(r)
	f.checkUnsupported("compaction", unsupported{hint: "no summaries are made here", alters: true})
	f.ignoreHarmless("cache_control", "diagnostics", "inference_geo", "user_profile_id", "workspace_id",
		"anthropic_version", "anthropic_beta")
	return r, f.finishParsing()
}

// parseThread refuses to continue a conversation of which the server would have the beginning. With this code,
// Anthropic's clients then send all of it.
func (f *fields) parseThread() {
	f.parseObject("thread", func(o *fields) {
		kind := ""
		if o.parseString("type", &kind); kind == "continue" {
			o.failField("previous_message_id", "this server keeps no threads: send all messages")
			o.err.Status, o.err.Details = http.StatusNotFound, map[string]string{"error_code": "thread_not_found"}
		}
		f.recordIgnored(o.at)
	})
}

// parseTurns parses the conversation. If the last turn is the assistant's, the answer begins with it.
func (f *fields) parseTurns(r *Chat, d Defaults) {
	all, _ := f.parseList("messages", maxMessages)
	known := map[string]bool{} // ids of earlier calls
	f.parseElements("messages", all, func(o *fields) { o.parseTurn(&r.Talk, known) })
	last := len(r.Talk.Messages) - 1
	if last < 0 || len(all) == 0 {
		f.failMissing("messages", "give at least one message")
		return
	}
	if r.Talk.Messages[last].Role != "assistant" || len(r.Talk.Messages[last].Calls) > 0 {
		return
	}
	r.prefix = r.Talk.Messages[last].Content
	r.Talk.Messages = r.Talk.Messages[:last]
	switch at := f.elementPath("messages", len(all)-1); {
	case last == 0:
		f.failMissing("messages", "give a message of the user before the assistant's")
	case r.prefix != "" && r.mayThink() && d.Thinks:
		f.recordError(Invalid(at, "%s: an answer with a thought begins with that: leave out the assistant's last "+
			"message, or give thinking.type disabled", at))
	case r.prefix != "" && r.Settings.Structured():
		f.recordError(Invalid(at, "%s: an answer with a format begins by itself: leave out the assistant's last "+
			"message", at))
	}
}

func (f *fields) parseTurn(talk *Conversation, known map[string]bool) {
	role := ""
	f.parseString("role", &role)
	f.ignoreHarmless(ignoredInMessages...)
	if role != "user" && role != "assistant" && role != "system" {
		f.failField("role", "give user, assistant or system")
	}
	var of pilotfish.Message
	f.parseMessageExtension(&of)
	add := func(m pilotfish.Message) {
		m.Local = of.Local
		talk.Add(m)
	}
	var text string
	var blocks []json.RawMessage
	raw, ok := f.takeField("content")
	switch {
	case !ok && role == "system": // it has settings alone
	case !ok:
		f.failMissing("content", "give a text")
	case json.Unmarshal(raw, &text) == nil:
		add(pilotfish.Message{Role: role, Content: text})
	case json.Unmarshal(raw, &blocks) == nil:
		f.parseBlocks(role, blocks, add, known)
	default:
		f.failField("content", "give a string, or a list of blocks")
	}
}

// parseBlocks parses the parts of a message: results of tools become turns of their own, texts and calls one turn.
func (f *fields) parseBlocks(role string, all []json.RawMessage, add func(pilotfish.Message), known map[string]bool) {
	var said, thought strings.Builder
	var calls []pilotfish.ToolCall
	says := false
	end := func() {
		if says {
			add(pilotfish.Message{Role: role, Content: said.String(), Thought: thought.String(), Calls: calls})
		}
		said.Reset()
		thought.Reset()
		calls, says = nil, false
	}
	f.parseElements("content", all, func(o *fields) {
		m, shown := o.parseBlock(role, known)
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

// parseBlock parses a part of a message. It returns false for a part that has no place in a prompt.
func (f *fields) parseBlock(role string, known map[string]bool) (m pilotfish.Message, shown bool) {
	kind := ""
	f.parseString("type", &kind)
	switch {
	case kind == "thinking" && role == "assistant":
		f.parseString(kind, &m.Thought)
		f.ignoreHarmless("signature")
	case kind == "tool_use" && role == "assistant", kind == "mcp_tool_use":
		m.Calls = []pilotfish.ToolCall{f.parseToolUse(known)}
	case kind == "tool_result" && role == "user", kind == "mcp_tool_result":
		m.Role = "tool"
		f.parseAnsweredCall("tool_use_id", known)
		m.Content = f.parseToolResult("content")
	case kind == "compaction" && f.all["content"] != nil: // the summary of earlier turns
		f.parseString("content", &m.Content)
	case kind == "compaction":
		f.failField("type", encrypted)
	case kind == "tool_use", kind == "tool_result":
		f.failField("type", "this model reads text and calls of tools alone: give text, tool_use or tool_result")
	case strings.HasSuffix(kind, "_tool_result"), strings.Contains(kind, "thinking"): // of servers, and of other models
		f.ignoreObject(kind)
	default:
		m.Content = f.parsePart(kind, false)
	}
	f.ignoreHarmless("caller", "is_error", "toolset_name", "server_name")
	f.ignoreHarmless(ignoredInParts...)
	return m, f.all != nil
}

func (f *fields) parseToolUse(known map[string]bool) pilotfish.ToolCall {
	var c pilotfish.ToolCall
	f.parseRequired("id", &c.ID, "give the id of the call")
	f.parseRequired("name", &c.Name, "give the name of the function")
	known[c.ID] = true
	c.Arguments = []byte("{}")
	if input, ok := f.takeField("input"); ok {
		if c.Arguments = input; !isObject(input) {
			f.failField("input", "give a JSON object")
		}
	}
	return c
}
