package request

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// Chat is a request for a turn of a chat.
type Chat struct {
	Request
	Talk   answer.Conversation
	Tools  []tool
	Choice toolChoice
	Single bool // at most one call
	Thinking
	prefix string // beginning of the answer, which is not repeated
}

// Prompt returns the ids that the answer follows.
func (r *Chat) Prompt(m answer.Model) ([]int32, error) {
	ids, err := m.Chat(r.Talk)
	if err != nil || r.prefix == "" {
		return ids, err
	}
	begun, err := m.Tokenize(r.prefix, false)
	return append(ids, begun...), err
}

// ReadChat parses a request.
func ReadChat(body []byte, d Defaults) (*Chat, *Error) {
	r := new(Chat)
	f := parseBody(body)
	f.thinks(r, d)
	f.common(&r.Request, d)
	f.chatLimits(&r.Request)
	f.responseFormat(&r.Request)
	f.chatLogProbs(&r.Settings)
	f.messages(r)
	f.tools(r)
	f.idle("best_of", idle{"1", "take n"})
	f.idle("echo", idle{values: "false"})
	f.idle("add_special_tokens", idle{values: "false"}) // the template has them
	f.idle("suffix", idle{`""`, "take /v1/completions"})
	return r, f.end()
}

// chatLimits parses the maximum number of tokens, which has two names.
func (f *fields) chatLimits(r *Request) {
	old := f.integerMax("max_tokens", r)
	first := r.Settings.MaxTokens
	if f.integerMax("max_completion_tokens", r) && old && first != r.Settings.MaxTokens {
		f.fail("max_tokens", "this differs from max_completion_tokens: give one of them")
	}
}

// integerMax parses a maximum number of tokens.
func (f *fields) integerMax(name string, r *Request) bool {
	if means(f.all[name], "-1") { // no limit
		f.take(name)
	}
	return f.count(name, 1, math.MaxInt32, &r.Settings.MaxTokens)
}

func (f *fields) chatLogProbs(s *answer.Settings) {
	f.flag("logprobs", &s.LogProbs)
	if f.count("top_logprobs", 0, maxTop, &s.Top) && s.Top > 0 && !s.LogProbs {
		f.fail("top_logprobs", "this is for answers with log-probabilities: set logprobs, or leave it out")
	}
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
	thought := f.thoughtBefore()
	f.harmless(ignoredInMessages...)
	f.idle("prefix", idle{values: "false"})
	f.idle("partial", idle{values: "false"})
	f.idle("images", idle{`[]`, "this model reads text alone"})
	if m.Role != "assistant" {
		f.idle("tool_calls", idle{values: "[]"})
	}
	switch m.Role {
	case "user", "system":
		m.Content = f.content("content", true)
	case "developer":
		m.Role, m.Content = "system", f.content("content", true)
	case "assistant":
		m.Thought = thought
		m.Calls = f.calls(known)
		m.Content = f.content("content", len(m.Calls) == 0)
		f.refuse("audio", "this model hears nothing")
		f.refuse("function_call", "functions are not supported in this form: give tool_calls")
	case "tool":
		f.answered("tool_call_id", known)
		m.Content = f.content("content", true)
	default:
		f.fail("role", "give system, developer, user, assistant or tool")
	}
	return m
}

// thoughtBefore returns what an assistant thought, which clients send back under two names; "" for other forms, which
// are of other models.
func (f *fields) thoughtBefore() (thought string) {
	for _, name := range []string{"reasoning", "reasoning_content"} {
		text := ""
		if raw, ok := f.all[name]; ok && json.Unmarshal(raw, &text) == nil && text != "" {
			thought = text
		}
	}
	return thought
}

// content parses a text, or a list of texts, which it concatenates.
func (f *fields) content(name string, needed bool) string {
	raw, ok := f.take(name)
	if !ok {
		if needed {
			f.missing(name, "give a text")
		}
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		f.fail(name, "give a string, or a list of parts of type text")
		return ""
	}
	var all strings.Builder
	f.elements(name, parts, func(o *fields) {
		kind, field := "", "text"
		switch o.text("type", &kind); kind {
		case "text", "input_text", "output_text":
		case "refusal":
			field = kind
		default:
			o.fail("type", "this model reads text alone: give parts of type text")
		}
		o.needed(field, &text, "give a text")
		o.harmless(ignoredInParts...)
		all.WriteString(text)
	})
	return all.String()
}

// answered parses the id of the call that a message answers. known has the ids of earlier calls.
func (f *fields) answered(name string, known map[string]bool) {
	id := ""
	f.needed(name, &id, "give the id of the call that this answers")
	if !known[id] {
		f.fail(name, "no call before has this id: give the id of one")
	}
}

func (f *fields) calls(known map[string]bool) (calls []answer.Call) {
	f.objects("tool_calls", maxTools, func(o *fields) {
		var c answer.Call
		kind := "function"
		o.text("type", &kind)
		if kind != "function" {
			o.fail("type", "give function")
		}
		o.needed("id", &c.ID, "give the id of the call")
		o.harmless(ignoredInCalls...)
		o.called(&c)
		known[c.ID] = true
		calls = append(calls, c)
	})
	return calls
}

// arguments parses the arguments of a call: a string, with any text of the model, or as in other servers the object
// itself.
func (f *fields) arguments() []byte {
	if raw := f.all["arguments"]; isObject(raw) {
		f.take("arguments")
		return raw
	}
	text := ""
	if f.text("arguments", &text); strings.TrimSpace(text) == "" {
		text = "{}"
	}
	return []byte(text)
}

// called parses the name and the arguments of a call.
func (f *fields) called(c *answer.Call) {
	if !f.object("function", func(o *fields) {
		o.needed("name", &c.Name, "give the name of the function")
		c.Arguments = o.arguments()
	}) {
		f.missing("function", "give the function that was called")
	}
}

// mark parses this server's additions to a message.
func (f *fields) mark(m *answer.Message) {
	f.object(OwnName, func(o *fields) {
		o.flag("local", &m.Local)
		o.harmless("tokens", "shortened", "seed", "receipt")
	})
}
