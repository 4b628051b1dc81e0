package request

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Chat is a request for a turn of a chat.
type Chat struct {
	Request
	Talk   Conversation
	Tools  []tool
	Older  bool // the tools were given as functions, which are answered by a function_call
	Choice toolChoice
	Single bool // at most one call
	Thinking
	prefix string // beginning of the answer, which is not repeated
}

// Prompt returns the ids that the answer follows.
func (r *Chat) Prompt(m Model) ([]int32, error) {
	ids, err := r.Talk.Prompt(m)
	if _, refused := errors.AsType[*ChatError](err); refused {
		if talk, joined := r.Talk.Joined(); joined {
			ids, err = talk.Prompt(m)
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
	f := parseBody(body)
	f.parseThinking(r, d)
	f.parseResponseFormat(&r.Request)
	f.parseCommonFields(&r.Request, d)
	f.parseChatLogProbs(&r.Settings)
	f.parseMessages(r)
	f.parseTools(r, "function", "")
	f.parseFunctions(r)
	f.applyToolChoice(r)
	f.checkUnsupported("best_of", unsupported{"1", "take n", true})
	f.checkUnsupported("echo", unsupported{alters: true})
	f.checkUnsupported("add_special_tokens", unsupported{alters: true}) // the template has them
	f.checkUnsupported("suffix", unsupported{"", "take /v1/completions", true})
	return r, f.finishParsing()
}

func (f *fields) parseChatLogProbs(s *terms.Settings) {
	if f.parseBool("logprobs", &s.LogProbs); !s.LogProbs {
		f.ignoreField("top_logprobs")
	}
	f.parseInt("top_logprobs", 0, maxTop, &s.Top)
}

func (f *fields) parseMessages(r *Chat) {
	all, _ := f.parseList("messages", maxMessages)
	if len(all) == 0 {
		f.failMissing("messages", "give at least one message")
		return
	}
	known := map[string]bool{} // ids of earlier calls
	f.parseElements("messages", all, func(o *fields) {
		r.Talk.Messages = append(r.Talk.Messages, o.parseMessage(known))
	})
}

func (f *fields) parseMessage(known map[string]bool) (m pilotfish.Message) {
	f.parseString("role", &m.Role)
	f.parseMessageExtension(&m)
	m.Thought = f.parseEarlierThought()
	f.checkUnsupported("prefix", unsupported{alters: true})
	f.checkUnsupported("partial", unsupported{alters: true})
	f.checkUnsupported("images", unsupported{hint: "this model reads text alone", alters: true})
	switch m.Role {
	case "user", "system":
		m.Content = f.parseContent("content", true)
	case "developer":
		m.Role, m.Content = "system", f.parseContent("content", true)
	case "assistant":
		m.Calls = f.parseToolCalls(known)
		f.parseObject("function_call", func(o *fields) {
			m.Calls = append(m.Calls, pilotfish.ToolCall{})
			o.parseCall(&m.Calls[len(m.Calls)-1])
		})
		if m.Content = f.parseContent("content", false); m.Content == "" {
			f.parseString("refusal", &m.Content)
		}
		f.checkUnsupported("audio", unsupported{hint: "this model hears nothing", alters: true})
	case "tool":
		f.parseAnsweredCall("tool_call_id", known)
		m.Content = f.parseToolResult("content")
	case "function": // the older form of tool
		m.Role, m.Content = "tool", f.parseToolResult("content")
	default:
		f.failField("role", "give system, developer, user, assistant or tool")
	}
	if f.ignoreHarmless(ignoredInMessages...); m.Role != "assistant" {
		m.Thought = ""
	}
	return m
}

// parseEarlierThought returns what an assistant thought, which clients send back under two names; "" for other forms,
// which are of other models.
func (f *fields) parseEarlierThought() (thought string) {
	for _, name := range []string{"reasoning", "reasoning_content"} {
		text := ""
		if json.Unmarshal(f.all[name], &text) == nil && text != "" {
			f.takeField(name)
			thought = text
		}
	}
	return thought
}

// parseContent parses a text, or a list of texts, which it concatenates. null is an empty text.
func (f *fields) parseContent(name string, needed bool) string {
	if _, ok := f.all[name]; !ok && needed && !slices.Contains(f.null, name) {
		f.failMissing(name, "give a text")
	}
	return f.parseTexts(name, false)
}

// parseToolResult parses what a tool returned, as parseContent does. A part that is no text is replaced by a remark:
// refused, it would end the conversation, in which it stays.
func (f *fields) parseToolResult(name string) string { return f.parseTexts(name, true) }

// parseTexts parses the texts of a message, of what a tool returned, or of a document in one of these. Documents do not
// contain others: each level would be parsed again.
func (f *fields) parseTexts(name string, ofTool bool) string {
	var text string
	if f.all[name] == nil || json.Unmarshal(f.all[name], &text) == nil {
		f.takeField(name)
		return text
	}
	parts := []json.RawMessage{f.all[name]}
	if isObject(parts[0]) {
		f.takeField(name)
	} else if !f.parseValue(name, &parts, "give a string, or a list of parts of type text") {
		return ""
	}
	var all strings.Builder
	f.parseElements(name, parts, func(o *fields) {
		kind := ""
		o.parseString("type", &kind)
		all.WriteString(o.parsePart(kind, ofTool))
	})
	return all.String()
}

// noText matches the types of parts that have content, but no text.
var noText = regexp.MustCompile(`image|audio|video|file|document|screenshot`)

// parsePart parses one part of a content. One of an unknown type is ignored, unless it has a text.
func (f *fields) parsePart(kind string, ofTool bool) (text string) {
	_, has := f.all["text"]
	switch {
	case kind == "refusal":
		f.parseRequired(kind, &text, "give a text")
	case has || kind == "text" || kind == "input_text" || kind == "output_text":
		f.parseRequired("text", &text, "give a text")
	case !f.inDocument && (kind == "document" && f.all["source"] != nil || kind == "search_result"):
		text = f.parseDocument(ofTool)
	case noText.MatchString(kind) && ofTool:
		text = "(" + plainName(kind) + ": this model reads text alone)"
		f.ignoreObject(kind)
	case noText.MatchString(kind):
		f.failField("type", "this model reads text alone: give parts of type text")
	case kind == "" && ofTool:
		text, f.all = string(Encode(f.all)), nil
	default:
		f.ignoreObject(kind)
	}
	f.ignoreHarmless(ignoredInParts...)
	return text
}

func (f *fields) ignoreObject(kind string) {
	f.all = nil
	f.recordIgnored(f.at + ": " + plainName(kind))
}

// parseDocument parses a text with a title, in Anthropic's form.
func (f *fields) parseDocument(ofTool bool) string {
	f.inDocument = true
	defer func() { f.inDocument = false }()
	lines := make([]string, 3)
	f.parseString("title", &lines[0])
	f.parseString("context", &lines[1])
	if !isObject(f.all["source"]) { // a result of a search, with its address
		f.ignoreHarmless("source")
		lines[2] = f.parseTexts("content", ofTool)
	}
	f.parseObject("source", func(o *fields) {
		switch kind := ""; {
		case o.parseString("type", &kind) && kind == "text":
			o.parseString("data", &lines[2])
			o.ignoreHarmless("media_type")
		case kind == "content":
			lines[2] = o.parseTexts("content", ofTool)
		default:
			lines[2] = o.parsePart("document", ofTool)
		}
	})
	return strings.TrimLeft(strings.Join(lines, "\n"), "\n") + "\n"
}

func (f *fields) parseAnsweredCall(name string, known map[string]bool) {
	id := ""
	if f.parseString(name, &id) && !known[id] {
		f.failField(name, "no call before has this id: give the id of one")
	}
}

func (f *fields) parseToolCalls(known map[string]bool) (calls []pilotfish.ToolCall) {
	f.parseObjects("tool_calls", maxTools, func(o *fields) {
		var c pilotfish.ToolCall
		kind := "function"
		o.parseString("type", &kind)
		o.parseRequired("id", &c.ID, "give the id of the call")
		o.ignoreHarmless(ignoredInCalls...)
		switch kind {
		case "function", "custom": // a custom tool has a text instead of arguments
			if !o.parseObject(kind, func(in *fields) { in.parseCall(&c) }) {
				o.failMissing(kind, "give the function that was called")
			}
		default:
			o.failField("type", "give function or custom")
		}
		known[c.ID] = true
		calls = append(calls, c)
	})
	return calls
}

func (f *fields) parseCall(c *pilotfish.ToolCall) {
	f.parseRequired("name", &c.Name, "give the name of the function")
	c.Arguments = f.parseArguments()
}

// parseArguments parses the arguments of a call: a string, with any text of the model, or as in other servers the
// object itself. The text of a custom tool becomes an object.
func (f *fields) parseArguments() []byte {
	for _, name := range []string{"arguments", "action", "operation", "input"} {
		if raw := f.all[name]; isObject(raw) {
			f.takeField(name)
			return raw
		}
	}
	text := ""
	if f.parseString("input", &text) {
		return Encode(map[string]string{"input": text})
	}
	if f.parseString("arguments", &text); strings.TrimSpace(text) == "" {
		text = "{}"
	}
	return []byte(text)
}

func (f *fields) parseMessageExtension(m *pilotfish.Message) {
	f.parseObject(OwnName, func(o *fields) {
		o.notes = &notes{strict: true} // see parseExtension
		o.parseBool("local", &m.Local)
		o.ignoreHarmless("tokens", "shortened", "seed", "receipt")
	})
}
