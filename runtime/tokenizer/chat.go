package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/quote"
)

// Message is one turn of a chat.
type Message struct {
	Role    string // "system", "user" or "assistant"
	Content string
}

// The control tokens of ChatML, by which ChatML templates are recognised.
const (
	turnStart = "<|im_start|>"
	turnEnd   = "<|im_end|>"
)

// chatML is the chat format of a model: <|im_start|>role\ncontent<|im_end|>\n for each turn.
type chatML struct {
	start, end int32  // the tokens
	system     string // content of the default system turn, for a chat that begins with another role
	addSystem  bool
	toolsEnd   string // text after the definitions of tools
}

// newChatML recognises the chat template of a file.
func newChatML(template string, v *vocabulary) (c chatML, err error) {
	if template != "" && (!strings.Contains(template, turnStart) || !strings.Contains(template, turnEnd)) {
		err := fmt.Errorf("a template without %s and %s is not ChatML: %w", turnStart, turnEnd, ErrUnsupported)
		return c, &KeyError{keyTemplate, err}
	}
	c.start, c.end = v.find([]byte(turnStart)), v.find([]byte(turnEnd))
	if !v.has(c.start, control) || !v.has(c.end, control) {
		err := fmt.Errorf("no control tokens %s and %s to chat with: %w", turnStart, turnEnd, ErrUnsupported)
		return c, &KeyError{keyTokens, err}
	}
	c.system, c.addSystem = defaultSystem(template)
	c.toolsEnd = endOfTools(template)
	return c, nil
}

// endOfTools finds the text of a template between the definitions of tools and the end of the turn. The default is that
// of most files of Qwen2.5. Published files differ in the braces of the example.
func endOfTools(template string) string {
	for _, quote := range []byte{'"', '\''} {
		if _, rest, found := strings.Cut(template, string(quote)+`\n</tools>`); found {
			if text, ok := unquote(rest, quote); ok {
				return "\n</tools>" + text
			}
		}
	}
	return toolsEnd
}

// defaultSystem finds the default system turn of a template: the first place where the beginning of a system turn is
// followed by text up to the end of the turn, and not by the content of a message.
func defaultSystem(template string) (string, bool) {
	for rest := template; ; {
		at := strings.Index(rest, turnStart+"system")
		if at < 0 {
			return "", false
		}
		quote := byte(0) // outside a string
		if at > 0 && (rest[at-1] == '\'' || rest[at-1] == '"') {
			quote = rest[at-1]
		}
		rest = rest[at+len(turnStart+"system"):]
		text, ok := unquote(rest, quote)
		if text, isLine := strings.CutPrefix(text, "\n"); ok && isLine {
			return text, true
		}
	}
}

// unquote returns the text at the beginning of s up to turnEnd, or false if the string in the given quotes, or the text
// outside a string, ends before.
func unquote(s string, quote byte) (string, bool) {
	escapes := map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"'}
	var text strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], turnEnd):
			return text.String(), true
		case s[i] == quote, quote == 0 && s[i] == '{':
			return "", false
		case quote != 0 && s[i] == '\\' && i+1 < len(s) && escapes[s[i+1]] != 0:
			i++
			text.WriteByte(escapes[s[i]])
		default:
			text.WriteByte(s[i])
		}
	}
	return "", false
}

// Chat returns the ids of a chat as the model was trained on it, without BOS: for each message <|im_start|>role, line
// end, content, <|im_end|>, line end. If addGenerationPrompt is set, the beginning of an assistant's turn follows,
// which the model continues. If the first message is not a system message, the default system message of the model's
// template precedes it, such as "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."; a file that has
// the tokens but no template has none.
//
// The turns are put together from ids. Special tokens in the contents are not parsed, so that no content can forge a
// turn.
//
// The error is [ErrNoMessage], [ErrRole], or a [KeyError] if the model has no ChatML template or lacks its tokens.
func (t *Tokenizer) Chat(msgs []Message, addGenerationPrompt bool) ([]int32, error) {
	if t.chatErr != nil {
		return nil, fmt.Errorf("chat: %w", t.chatErr)
	}
	if len(msgs) == 0 {
		return nil, fmt.Errorf("chat: %w", ErrNoMessage)
	}
	var ids []int32
	if msgs[0].Role != "system" && t.chat.addSystem {
		ids = t.appendTurn(ids, Message{"system", t.chat.system})
	}
	for i, m := range msgs {
		switch m.Role {
		case "system", "user", "assistant":
			ids = t.appendTurn(ids, m)
		default:
			return nil, fmt.Errorf("chat: message %d: %w %s (known: system, user, assistant)", i, ErrRole,
				quote.Text(m.Role))
		}
	}
	if addGenerationPrompt {
		ids = t.appendAnswer(ids)
	}
	return ids, nil
}

// appendTurn adds the ids of a turn.
func (t *Tokenizer) appendTurn(ids []int32, m Message) []int32 {
	ids = append(ids, t.chat.start)
	ids = append(ids, t.Encode(m.Role+"\n"+m.Content, false)...)
	return t.appendEnd(ids)
}

// appendEnd adds the ids of the end of a turn.
func (t *Tokenizer) appendEnd(ids []int32) []int32 {
	return append(append(ids, t.chat.end), t.Encode("\n", false)...)
}

// appendAnswer adds the beginning of a turn of the assistant.
func (t *Tokenizer) appendAnswer(ids []int32) []int32 {
	return append(append(ids, t.chat.start), t.Encode("assistant\n", false)...)
}

// Next returns the ids of a chat that continues. text is one that [Tokenizer.Chat] or Next returned, followed by the
// generated answer without its end token. So the ids of the answer stay the same, which encoding its text again does
// not guarantee, and the model's KV cache of them can be used again.
func (t *Tokenizer) Next(text []int32, question Message) ([]int32, error) {
	if t.chatErr != nil {
		return nil, fmt.Errorf("chat: %w", t.chatErr)
	}
	ids := t.appendEnd(slices.Clone(text))
	return t.appendAnswer(t.appendTurn(ids, question)), nil
}
