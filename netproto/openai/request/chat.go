package request

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// Chat is a request for a turn of a chat.
type Chat struct {
	Request
	Talk   answer.Conversation
	Tools  []tool
	Older  bool // the tools were given as functions, which are answered by a function_call
	Choice toolChoice
	Single bool // at most one call
	Thinking
	prefix string // beginning of the answer, which is not repeated
}

// Prompt returns the ids that the answer follows.
func (r *Chat) Prompt(m answer.Model) ([]int32, error) {
	ids, err := m.Chat(r.Talk)
	if _, refused := errors.AsType[*answer.ChatError](err); refused {
		if talk, joined := r.Talk.Joined(); joined {
			ids, err = m.Chat(talk)
		}
	}
	if err != nil || r.prefix == "" {
		return ids, err
	}
	begun, err := m.Tokenize(r.prefix, false)
	return append(ids, begun...), err
}

// ReadChat parses a request.
func ReadChat(body []byte, d Defaults) (*Chat, *Error) {
	r := new(Chat)
	f := parseBody(body, d)
	f.thinks(r, d)
	f.responseFormat(&r.Request)
	f.common(&r.Request, d)
	f.chatLogProbs(&r.Settings)
	f.messages(r)
	f.tools(r, "function", "")
	f.functions(r)
	f.choose(r)
	f.idle("best_of", idle{"1", "take n", true})
	f.idle("echo", idle{alters: true})
	f.idle("add_special_tokens", idle{alters: true}) // the template has them
	f.idle("suffix", idle{"", "take /v1/completions", true})
	return r, f.end()
}

func (f *fields) chatLogProbs(s *answer.Settings) {
	if f.flag("logprobs", &s.LogProbs); !s.LogProbs {
		f.skip("top_logprobs", "this is for answers with log-probabilities: set logprobs", "unsupported_parameter")
	}
	f.count("top_logprobs", 0, maxTop, &s.Top)
}

func (f *fields) messages(r *Chat) {
	all, _ := f.list("messages", maxMessages)
	if len(all) == 0 {
		f.missing("messages", "give at least one message")
		return
	}
	known := map[string]bool{} // ids of earlier calls
	f.elements("messages", all, func(o *fields) { r.Talk.Messages = append(r.Talk.Messages, o.message(known)) })
}

// message parses one message. known has the ids of earlier tool calls.
func (f *fields) message(known map[string]bool) (m answer.Message) {
	f.text("role", &m.Role)
	f.mark(&m)
	m.Thought = f.thoughtBefore()
	f.idle("prefix", idle{alters: true})
	f.idle("partial", idle{alters: true})
	f.idle("images", idle{hint: "this model reads text alone", alters: true})
	switch m.Role {
	case "user", "system":
		m.Content = f.content("content", true)
	case "developer":
		m.Role, m.Content = "system", f.content("content", true)
	case "assistant":
		m.Calls = f.calls(known)
		f.object("function_call", func(o *fields) {
			m.Calls = append(m.Calls, answer.Call{})
			o.call(&m.Calls[len(m.Calls)-1])
		})
		if m.Content = f.content("content", false); m.Content == "" {
			f.text("refusal", &m.Content)
		}
		f.idle("audio", idle{hint: "this model hears nothing", alters: true})
	case "tool":
		f.answered("tool_call_id", known)
		m.Content = f.result("content")
	case "function": // the older form of tool
		m.Role, m.Content = "tool", f.result("content")
	default:
		f.fail("role", "give system, developer, user, assistant or tool")
	}
	if f.harmless(ignoredInMessages...); m.Role != "assistant" {
		m.Thought = ""
	}
	return m
}

// thoughtBefore returns what an assistant thought, which clients send back under two names; "" for other forms, which
// are of other models.
func (f *fields) thoughtBefore() (thought string) {
	for _, name := range []string{"reasoning", "reasoning_content"} {
		text := ""
		if json.Unmarshal(f.all[name], &text) == nil && text != "" {
			f.take(name)
			thought = text
		}
	}
	return thought
}

// content parses a text, or a list of texts, which it concatenates. null is an empty text.
func (f *fields) content(name string, needed bool) string {
	if _, ok := f.all[name]; !ok && needed && !slices.Contains(f.null, name) {
		f.missing(name, "give a text")
	}
	return f.texts(name, false)
}

// result parses what a tool returned, as content does. A part that is no text is replaced by a remark: refused, it
// would end the conversation, in which it stays.
func (f *fields) result(name string) string { return f.texts(name, true) }

// texts parses the texts of a message, of what a tool returned, or of a document in one of these. Documents do not
// contain others: each level would be parsed again.
func (f *fields) texts(name string, ofTool bool) string {
	var text string
	if f.all[name] == nil || json.Unmarshal(f.all[name], &text) == nil {
		f.take(name)
		return text
	}
	parts := []json.RawMessage{f.all[name]}
	if isObject(parts[0]) {
		f.take(name)
	} else if !f.value(name, &parts, "give a string, or a list of parts of type text") {
		return ""
	}
	var all strings.Builder
	f.elements(name, parts, func(o *fields) {
		kind := ""
		o.text("type", &kind)
		all.WriteString(o.part(kind, ofTool))
	})
	return all.String()
}

// noText matches the types of parts that have content, but no text.
var noText = regexp.MustCompile(`image|audio|video|file|document|screenshot`)

// part parses one part of a content. One of an unknown type is ignored, unless it has a text.
func (f *fields) part(kind string, ofTool bool) (text string) {
	_, has := f.all["text"]
	switch {
	case kind == "refusal":
		f.needed(kind, &text, "give a text")
	case has || kind == "text" || kind == "input_text" || kind == "output_text":
		f.needed("text", &text, "give a text")
	case !f.inDocument && (kind == "document" && f.all["source"] != nil || kind == "search_result"):
		text = f.document(ofTool)
	case noText.MatchString(kind) && ofTool:
		text = "(" + plain(kind) + ": this model reads text alone)"
		f.leave(kind)
	case noText.MatchString(kind):
		f.fail("type", "this model reads text alone: give parts of type text")
	case kind == "" && ofTool:
		text, f.all = string(Encode(f.all)), nil
	default:
		f.leave(kind)
	}
	f.harmless(ignoredInParts...)
	return text
}

// leave ignores an object of a type that has no place in a prompt.
func (f *fields) leave(kind string) {
	f.all = nil
	if f.strict {
		f.fail("type", "this server knows no %s: leave it out", Shown(kind))
	}
	f.ignored(f.at + ": " + plain(kind))
}

// document parses a text with a title, in Anthropic's form.
func (f *fields) document(ofTool bool) string {
	f.inDocument = true
	defer func() { f.inDocument = false }()
	lines := make([]string, 3)
	f.text("title", &lines[0])
	f.text("context", &lines[1])
	if !isObject(f.all["source"]) { // a result of a search, with its address
		f.harmless("source")
		lines[2] = f.texts("content", ofTool)
	}
	f.object("source", func(o *fields) {
		switch kind := ""; {
		case o.text("type", &kind) && kind == "text":
			o.text("data", &lines[2])
			o.harmless("media_type")
		case kind == "content":
			lines[2] = o.texts("content", ofTool)
		default:
			lines[2] = o.part("document", ofTool)
		}
	})
	return strings.TrimLeft(strings.Join(lines, "\n"), "\n") + "\n"
}

// answered parses the id of the call that a message answers, if it has one. known has the ids of earlier calls.
func (f *fields) answered(name string, known map[string]bool) {
	id := ""
	if f.text(name, &id) && !known[id] {
		f.fail(name, "no call before has this id: give the id of one")
	}
}

func (f *fields) calls(known map[string]bool) (calls []answer.Call) {
	f.objects("tool_calls", maxTools, func(o *fields) {
		var c answer.Call
		kind := "function"
		o.text("type", &kind)
		o.needed("id", &c.ID, "give the id of the call")
		o.harmless(ignoredInCalls...)
		switch kind {
		case "function", "custom": // a custom tool has a text instead of arguments
			if !o.object(kind, func(in *fields) { in.call(&c) }) {
				o.missing(kind, "give the function that was called")
			}
		default:
			o.fail("type", "give function or custom")
		}
		known[c.ID] = true
		calls = append(calls, c)
	})
	return calls
}

// call parses the name and the arguments of a call.
func (f *fields) call(c *answer.Call) {
	f.needed("name", &c.Name, "give the name of the function")
	c.Arguments = f.arguments()
}

// arguments parses the arguments of a call: a string, with any text of the model, or as in other servers the object
// itself. The text of a custom tool becomes an object.
func (f *fields) arguments() []byte {
	for _, name := range []string{"arguments", "action", "operation", "input"} {
		if raw := f.all[name]; isObject(raw) {
			f.take(name)
			return raw
		}
	}
	text := ""
	if f.text("input", &text) {
		return Encode(map[string]string{"input": text})
	}
	if f.text("arguments", &text); strings.TrimSpace(text) == "" {
		text = "{}"
	}
	return []byte(text)
}

// mark parses this server's additions to a message.
func (f *fields) mark(m *answer.Message) {
	f.object(OwnName, func(o *fields) {
		o.notes = &notes{strict: true} // see extension
		o.flag("local", &m.Local)
		o.harmless("tokens", "shortened", "seed", "receipt")
	})
}
