package tokenizer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/runtime/jinja"
)

// Message is one turn of a chat.
type Message struct {
	Role    string     // "system", "user", "assistant", or "tool" for the result of a tool
	Content string     // may be empty if there are calls
	Thought string     // what an assistant thought before the content, without marks; a template may leave it out
	Calls   []ToolCall // of an assistant
}

// ToolCall is a call of a tool, as a model made it.
type ToolCall struct {
	Name      string
	Arguments []byte // JSON text of an object; other text, which models sometimes write, is given as a string
}

// Value is a value for a chat template beside the messages and tools: a name, such as enable_thinking, and nil, a bool,
// an int, a string or JSON (json.RawMessage). The name strftime_now is that of a function (jinja.Func) by which some
// templates write the date; without a value, it writes the time of the clock.
type Value = jinja.Field

// plainTemplate is the template for files that have the tokens of ChatML and no template.
const plainTemplate = `{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}` +
	`{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

func newChatTemplate(source string, v *vocabulary) (*jinja.Template, error) {
	if source == "" {
		for _, mark := range []string{"<|im_start|>", "<|im_end|>"} {
			if !v.hasKind(v.lookupToken([]byte(mark)), control) {
				return nil, &KeyError{keyTemplate, fmt.Errorf(
					"absent, and there is no control token %s to chat without it: %w", mark, ErrUnsupported)}
			}
		}
		source = plainTemplate
	}
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, &KeyError{keyTemplate, fmt.Errorf("%w: %w", ErrUnsupported, err)}
	}
	return t, nil
}

// Chat returns the ids of a chat, as the template of the file renders it, up to the beginning of the assistant's turn,
// which the model continues. Each tool is the JSON text of its definition, {"type": "function", "function": {"name":
// …}}. A file without a template, but with the tokens <|im_start|> and <|im_end|>, has the format ChatML.
//
// Special tokens are recognised where the template wrote them. In contents, and all else that is given, they are text,
// so that no content can forge a turn.
//
// The error is [ErrNoMessage], [ErrRole], [ErrChat] if the template refuses the chat, or a [KeyError] if there is no
// template that can be used.
func (t *Tokenizer) Chat(msgs []Message, tools [][]byte, values ...Value) ([]int32, error) {
	return t.Next(nil, msgs, tools, values...)
}

// Next is Chat for a chat that continues. before is what Chat or Next returned, with the generated answer without its
// end token; msgs are all messages, with that answer. As far as before has the text that the template now renders, the
// ids stay the same, which encoding the text again does not guarantee: so the model's KV cache of them can be used
// again. That is up to the first thought that the template leaves out, or else to the end of the answer.
func (t *Tokenizer) Next(before []int32, msgs []Message, tools [][]byte, values ...Value) ([]int32, error) {
	text, err := t.renderChat(msgs, tools, values)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	parts := t.splitControlTokens(text)
	kept, rest := t.commonPrefix(before, parts)
	ids := slices.Clone(before[:kept])
	for _, p := range rest {
		if p.id >= 0 {
			ids = append(ids, p.id)
		} else {
			ids = append(ids, t.Encode(p.text, false)...)
		}
	}
	return ids, nil
}

// CallsInTags reports whether the template of the file writes calls of tools in tags, <function=NAME> and
// <parameter=KEY>, as that of Qwen3.5 does, and not in JSON.
func (t *Tokenizer) CallsInTags() bool { return t.callTags }

func (t *Tokenizer) renderChat(msgs []Message, tools [][]byte, values []Value) (text jinja.Text, err error) {
	if t.chatErr != nil {
		return text, t.chatErr
	}
	if len(msgs) == 0 {
		return text, ErrNoMessage
	}
	var turns, defined []any
	for i, m := range msgs {
		if !slices.Contains([]string{"system", "user", "assistant", "tool"}, m.Role) {
			return text, fmt.Errorf("message %d: %w %s (known: system, user, assistant, tool)", i, ErrRole,
				errs.Quote(m.Role))
		}
		turns = append(turns, m.templateObject())
	}
	if len(tools) > 0 && !t.chatTools {
		return text, fmt.Errorf("%w: it has no place for tools", ErrChat)
	}
	for i, tool := range tools {
		if err := jinja.CheckJSON(tool); err != nil {
			return text, fmt.Errorf("tool %d: %w", i, err)
		}
		defined = append(defined, json.RawMessage(tool))
	}
	all := jinja.Object{{Name: "bos_token", Value: jinja.Trusted(t.Text(t.bos))},
		{Name: "eos_token", Value: jinja.Trusted(t.Text(t.eos))}}
	all = append(append(append(all, newStrftimeValue(t.now)), values...), jinja.Object{{Name: "messages", Value: turns},
		{Name: "add_generation_prompt", Value: true}}...)
	if len(tools) > 0 {
		all = append(all, Value{Name: "tools", Value: defined})
	}
	if text, err = t.chat.Render(all); err != nil {
		return text, fmt.Errorf("%w: %w", ErrChat, err)
	}
	return text, nil
}

func (m Message) templateObject() jinja.Object {
	o := jinja.Object{{Name: "role", Value: m.Role}, {Name: "content", Value: m.Content}}
	if m.Thought != "" {
		o = append(o, Value{Name: "reasoning_content", Value: m.Thought})
	}
	var calls []any
	for _, c := range m.Calls {
		arguments := any(json.RawMessage(c.Arguments))
		if jinja.CheckJSON(c.Arguments) != nil {
			arguments = string(c.Arguments)
		}
		calls = append(calls, jinja.Object{{Name: "type", Value: "function"}, {Name: "function",
			Value: jinja.Object{{Name: "name", Value: c.Name}, {Name: "arguments", Value: arguments}}}})
	}
	if len(calls) > 0 {
		o = append(o, Value{Name: "tool_calls", Value: calls})
	}
	return o
}

// splitControlTokens cuts a chat at the control tokens that the template wrote.
func (t *Tokenizer) splitControlTokens(text jinja.Text) []fragment {
	own := []byte(text.String) // what the template wrote, with zeros for the rest
	for i := range own {
		if text.Given[i] == '1' {
			own[i] = 0
		}
	}
	parts := []fragment{{-1, string(own)}}
	for _, s := range t.parsed {
		if t.vocab.hasKind(s.id, control|unknown) {
			parts = s.splitFragments(parts)
		}
	}
	at := 0
	for i, p := range parts {
		parts[i].text = text.String[at : at+len(p.text)]
		at += len(p.text)
	}
	return parts
}

// commonPrefix returns how many tokens of a text are also those of a chat, up to the last control token or the last end
// of the text between two, and the rest of the chat.
func (t *Tokenizer) commonPrefix(ids []int32, parts []fragment) (kept int, rest []fragment) {
	rest = parts
	for open, i := "", 0; i < len(ids) && len(parts) > 0; i++ {
		is := t.vocab.hasKind(ids[i], control|unknown)
		if open == "" {
			open = parts[0].text
		}
		spelled := t.Text(ids[i])
		if !is {
			spelled = string(t.Bytes(ids[i]))
		}
		if is != (parts[0].id >= 0) || !strings.HasPrefix(open, spelled) {
			break
		}
		if open = open[len(spelled):]; open == "" {
			parts = parts[1:]
			kept, rest = i+1, parts
		}
	}
	return kept, rest
}

// Says reports whether ids are the beginning of a chat, whatever was thought in it.
func (t *Tokenizer) Says(ids []int32, msgs []Message, tools [][]byte, values ...Value) (bool, error) {
	text, err := t.renderChat(msgs, tools, values)
	if err != nil {
		return false, fmt.Errorf("chat: %w", err)
	}
	var begun strings.Builder
	for _, id := range ids {
		if t.vocab.hasKind(id, control|unknown) {
			begun.WriteString(t.Text(id))
		} else {
			begun.Write(t.Bytes(id))
		}
	}
	return strings.HasPrefix(thoughts.ReplaceAllString(text.String, ""), thoughts.ReplaceAllString(begun.String(), "")),
		nil
}

// thoughts matches thoughts with their marks, also one that was cut.
var thoughts = regexp.MustCompile(`(?s)<think>.*?(</think>\n*|$)`)
