package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/quote"
)

// Turn is a turn of a chat with tools.
type Turn struct {
	Role    string     // "system", "user", "assistant", or "tool" for the result of a tool
	Content string     // may be empty if there are calls
	Calls   []ToolCall // of an assistant
}

// ToolCall is a call of a tool, as a model made it.
type ToolCall struct {
	Name      string
	Arguments []byte // JSON text of an object; other text, which models sometimes write, is shown as a string
}

// The texts around tools in the system's turn, as in the training of the models of Qwen2.5.
const (
	toolsBegin = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
	toolsEnd = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within " +
		"<tool_call></tool_call> XML tags:\n<tool_call>\n" +
		"{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
)

// ChatTools is [Tokenizer.Chat], up to the beginning of the assistant's turn, for a chat in which the model may call
// tools: each tool is the JSON text of its definition, {"type": "function", "function": {"name": …}}. The turns are
// those of the template of Qwen2.5: definitions are in the system's turn, followed by the text of the file's template
// about them; calls are between <tool_call> and </tool_call> in the assistant's turn; and results of tools are between
// <tool_response> and </tool_response> in a turn of the user, one turn for all tools that answer together. JSON is
// written like Python's json.dumps.
//
// As in Chat, special tokens in contents are not parsed.
func (t *Tokenizer) ChatTools(turns []Turn, tools [][]byte) ([]int32, error) {
	if t.chatErr != nil {
		return nil, fmt.Errorf("chat: %w", t.chatErr)
	}
	if len(turns) == 0 {
		return nil, fmt.Errorf("chat: %w", ErrNoMessage)
	}
	texts, err := t.turnTexts(turns, tools)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	var ids []int32
	for _, text := range texts {
		ids = append(ids, t.chat.start)
		ids = append(ids, t.Encode(text, false)...)
		ids = t.appendEnd(ids)
	}
	return t.appendAnswer(ids), nil
}

// turnTexts returns the text between <|im_start|> and <|im_end|> of each turn.
func (t *Tokenizer) turnTexts(turns []Turn, tools [][]byte) ([]string, error) {
	system, own := t.chat.system, t.chat.addSystem
	given := turns[0].Role == "system"
	if given {
		system, turns = turns[0].Content, turns[1:]
	}
	shift := 0 // of the numbers of messages
	if given {
		shift = 1
	}
	var texts []string
	if len(tools) > 0 {
		text, err := t.toolsText(tools)
		if err != nil {
			return nil, err
		}
		if given || own {
			text = system + "\n\n" + text
		}
		texts = append(texts, "system\n"+text)
	} else if given || own {
		texts = append(texts, "system\n"+system)
	}
	for i := 0; i < len(turns); i++ {
		if turns[i].Role != "tool" {
			text, err := turnText(turns[i])
			if err != nil {
				return nil, fmt.Errorf("message %d: %w", i+shift, err)
			}
			texts = append(texts, text)
			continue
		}
		text := "user"
		for ; i < len(turns) && turns[i].Role == "tool"; i++ {
			text += "\n<tool_response>\n" + turns[i].Content + "\n</tool_response>"
		}
		i--
		texts = append(texts, text)
	}
	return texts, nil
}

// toolsText returns the text about tools in the system's turn.
func (t *Tokenizer) toolsText(tools [][]byte) (string, error) {
	var b strings.Builder
	b.WriteString(toolsBegin)
	for i, tool := range tools {
		text, err := pythonJSON(tool)
		if err != nil {
			return "", fmt.Errorf("tool %d: %w", i, err)
		}
		b.WriteString("\n" + text)
	}
	b.WriteString(t.chat.toolsEnd)
	return b.String(), nil
}

// turnText returns the text of a turn that is not a tool's.
func turnText(m Turn) (string, error) {
	switch m.Role {
	case "system", "user", "assistant":
	default:
		return "", fmt.Errorf("%w %s (known: system, user, assistant, tool)", ErrRole, quote.Text(m.Role))
	}
	if len(m.Calls) == 0 {
		return m.Role + "\n" + m.Content, nil
	}
	text := m.Role
	if m.Content != "" {
		text += "\n" + m.Content
	}
	for _, c := range m.Calls {
		text += "\n<tool_call>\n{\"name\": \"" + c.Name + "\", \"arguments\": " + argumentsText(c.Arguments) +
			"}\n</tool_call>"
	}
	return text, nil
}

// argumentsText writes arguments like the template's filter tojson: text that is not JSON as a string.
func argumentsText(arguments []byte) string {
	text, err := pythonJSON(arguments)
	if err == nil {
		return text
	}
	var b strings.Builder
	appendString(&b, string(arguments))
	return b.String()
}

// pythonJSON writes JSON text like Python's json.dumps with ensure_ascii=False: a blank after each colon and comma,
// fields in their order, and characters unescaped. Numbers are unchanged.
func pythonJSON(text []byte) (string, error) {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil { // the decoder alone accepts more
		return "", fmt.Errorf("this is not JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var b strings.Builder
	err := appendValue(&b, d, 0)
	return b.String(), err
}

// maxDepth is the maximum nesting depth of brackets.
const maxDepth = 1000

// appendValue writes the next value.
func appendValue(b *strings.Builder, d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch v := t.(type) {
	case json.Delim:
		if depth == maxDepth {
			return fmt.Errorf("brackets stand more than %d deep", maxDepth)
		}
		return appendAll(b, d, v, depth+1)
	case string:
		appendString(b, v)
	case json.Number:
		b.WriteString(v.String())
	case bool:
		fmt.Fprint(b, v)
	case nil:
		b.WriteString("null")
	}
	return nil
}

// appendAll writes the rest after an opening bracket, up to the closing one.
func appendAll(b *strings.Builder, d *json.Decoder, open json.Delim, depth int) error {
	b.WriteString(open.String())
	for first := true; d.More(); first = false {
		if !first {
			b.WriteString(", ")
		}
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string) // the decoder accepts only strings there
			appendString(b, name)
			b.WriteString(": ")
		}
		if err := appendValue(b, d, depth); err != nil {
			return err
		}
	}
	end, err := d.Token()
	if err == nil {
		b.WriteString(end.(json.Delim).String())
	}
	return err
}

// appendString writes a string.
func appendString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\b':
			b.WriteString(`\b`)
		case '\f':
			b.WriteString(`\f`)
		default:
			if r < 0x20 {
				fmt.Fprintf(b, `\u%04x`, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	b.WriteByte('"')
}
