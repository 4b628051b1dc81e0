package request

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish"
)

// Conversation is the beginning of a chat.
type Conversation struct {
	Messages []pilotfish.Message
	Tools    [][]byte // definitions, as in the request
	// Values are more values for the model's chat template, such as enable_thinking.
	Values map[string]json.RawMessage

	thought *strings.Builder // the thought of the last message, if further ones were added to it; else nil
}

// Add appends a turn. A thought, the text and the calls of an assistant between two other turns are one turn.
func (c *Conversation) Add(m pilotfish.Message) {
	if last := len(c.Messages) - 1; last >= 0 && m.Role == "assistant" && c.Messages[last].Role == m.Role {
		before := &c.Messages[last]
		if before.Content == "" || m.Content == "" {
			before.Content += m.Content
			c.appendThought(before, m.Thought)
			before.Calls = append(before.Calls, m.Calls...)
			before.Local = before.Local || m.Local
			return
		}
	}
	c.Messages, c.thought = append(c.Messages, m), nil
}

// Joined returns the conversation with neighbouring messages of a user as one, for templates in which roles take turns.
// It returns false if there are none.
func (c Conversation) Joined() (Conversation, bool) {
	all := c.Messages
	c.Messages, c.thought = nil, nil
	for _, m := range all {
		if last := len(c.Messages) - 1; last >= 0 && m.Role == "user" && c.Messages[last].Role == m.Role {
			c.Messages[last].Content += "\n\n" + m.Content
		} else {
			c.Messages = append(c.Messages, m)
		}
	}
	return c, len(c.Messages) < len(all)
}

// appendThought adds to the thought of a message. Many additions cost no more than their bytes.
func (c *Conversation) appendThought(m *pilotfish.Message, more string) {
	if more == "" {
		return
	}
	if c.thought == nil {
		c.thought = new(strings.Builder)
		c.thought.WriteString(m.Thought)
	}
	c.thought.WriteString(more)
	m.Thought = c.thought.String()
}

// Templated is a [pilotfish.Model] with a chat template.
type Templated interface {
	ChatTokens(turns []pilotfish.Message, tools [][]byte, values ...pilotfish.TemplateValue) ([]int32, error)
}

// Prompt returns the ids of the conversation up to where the assistant's next turn begins. The error is [ErrNoChat] if
// the model has no chat template, or a [ChatError].
func (c Conversation) Prompt(m Templated) ([]int32, error) {
	var values []pilotfish.TemplateValue
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		values = append(values, pilotfish.TemplateValue{Name: name, Value: c.Values[name]})
	}
	ids, err := m.ChatTokens(c.Messages, c.Tools, values...)
	switch {
	case errors.Is(err, pilotfish.ErrUnsupported):
		return nil, ErrNoChat
	case errors.Is(err, pilotfish.ErrChat):
		return nil, &ChatError{Err: err}
	}
	return ids, err
}

// ErrNoChat means that the model has no chat template.
var ErrNoChat = errors.New("this model has no chat template: send a text to /v1/completions instead")

// ChatError is why the chat template of the model refuses a conversation.
type ChatError struct{ Err error }

// Error implements error.
func (e *ChatError) Error() string { return e.Err.Error() }

// ErrNoInfill means that the model has no special tokens for gaps.
var ErrNoInfill = errors.New("this model cannot fill gaps: its vocabulary has no marks for that, such as " +
	"<|fim_prefix|>; give what comes before alone, as prompt of /v1/completions")
