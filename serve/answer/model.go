package answer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Model generates answers. Its methods are safe for concurrent use.
type Model interface {
	// Context is the maximum length of a text in tokens, prompt and answer.
	Context() int
	// Vocabulary is the number of tokens; ids are below it.
	Vocabulary() int
	// Chat returns the ids of a conversation up to where the assistant's next turn begins. The error is [ErrNoChat]
	// if the model has no chat template, or a [ChatError].
	Chat(c Conversation) ([]int32, error)
	// Thinks reports whether the model may think, between marks, before it answers a prompt.
	Thinks(prompt []int32) bool
	// Tokenize returns the ids of a text. Special tokens in it are recognised if special is set, else they are text.
	Tokenize(text string, special bool) ([]int32, error)
	// Bytes returns the text of a token, which often has no whole characters.
	Bytes(id int32) []byte
	// Name returns the name of a token that has no text; "" for others.
	Name(id int32) string
	// Infill returns the prompt for a text with a gap; for an empty Infill, its three marks alone. The error is
	// [ErrNoInfill] if the model has no such marks.
	Infill(f Infill) ([]int32, error)
	// Check returns an error for settings that the model does not support, such as a schema with undecidable keywords.
	// It returns the paths of the schema's keywords that have no effect. When ctx ends, it returns the cause.
	Check(ctx context.Context, s Settings) (ignored []string, err error)
	// NewSession makes a session with an empty text.
	NewSession() Session
	// SavedText returns the text in a file of [Session.SaveKV], if a session can load the file. It reads only the
	// header.
	SavedText(r io.Reader) ([]int32, error)
}

// Session is one text. It generates one answer at a time.
type Session interface {
	// Generate yields the tokens that follow a prompt. The common prefix with the last prompt and its answer is not
	// computed again. An error ends the sequence, as does ctx.
	Generate(ctx context.Context, prompt []int32, s Settings) iter.Seq2[Token, error]
	// Score yields the tokens of a text with their log-probabilities and the top best tokens at each position; for the
	// first token these are absent (NaN, nil).
	Score(ctx context.Context, text []int32, top int) iter.Seq2[Token, error]
	// Summary returns the summary of the last answer so far.
	Summary() Summary
	// KVTokens is the number of tokens of the text in the KV cache: after an error perhaps only a part of the prompt.
	KVTokens() int
	// CopyKV replaces the text by the first n tokens of another session of the model, with its KV cache.
	CopyKV(ctx context.Context, from Session, n int) error
	// SaveKV writes the text with its KV cache. LoadKV replaces the text by a saved one.
	SaveKV(ctx context.Context, w io.Writer) error
	LoadKV(ctx context.Context, r io.Reader) error
	// Close releases the memory of the text.
	Close() error
}

// Conversation is the beginning of a chat.
type Conversation struct {
	Messages []Message
	Tools    []json.RawMessage // definitions, as in the request
	// Values are more values for the model's chat template, such as enable_thinking.
	Values map[string]json.RawMessage

	thought *strings.Builder // the thought of the last message, if further ones were added to it; else nil
}

// Add appends a turn. A thought, the text and the calls of an assistant between two other turns are one turn.
func (c *Conversation) Add(m Message) {
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
func (c *Conversation) appendThought(m *Message, more string) {
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

// Message is one turn.
type Message struct {
	Role    string // "system", "user", "assistant", or "tool" for what a tool returned
	Content string
	Thought string // what an assistant thought before
	Calls   []Call // tool calls of an assistant
	Local   bool   // see [Settings].Local
}

// Call is a tool call.
type Call struct {
	ID        string
	Name      string
	Arguments []byte // a JSON object as text, or whatever else a model wrote
}

// Settings say how an answer is generated.
type Settings = terms.Settings

// Token is one token of an answer.
type Token struct {
	ID         int32
	Kind       string // "" of the answer, [KindThought] or [KindMark]
	Text       string // the whole characters that the token completes, often none
	LogProb    float64
	Top        []terms.Candidate // the best tokens, best first
	Origin     string            // which model chose it
	Local      string            // the small model's own token, if the large model chose another one
	Asked      bool              // the large model was asked for it, with or without an answer
	Confidence float64
	Unverified bool
	At         time.Duration // since the answer began
}

// Values of [Token].Kind, beside "".
const (
	KindThought = "thought" // of what the model thinks before it answers
	KindMark    = "mark"    // the marks of a thought, and the blanks after them
)

// Values of [Summary].Stop: why an answer ended.
const (
	StopEnd     = "end"     // the model ended it
	StopString  = "stop"    // one of [Settings].Stop
	StopLength  = "length"  // the maximum number of tokens was reached
	StopContext = "context" // the context is full
)

// Summary has the result and the costs of an answer.
type Summary struct {
	Text string // the whole text, including parts that were in no token's text
	Stop string // "" while it runs and after an error
	// Stopped is the text of [Settings].Stop that ended it, with [StopString].
	Stopped string
	End     *Token // the end token, which is not part of the answer; nil if the answer did not end with one
	// Shortened reports that [Settings].Complete ended a JSON value early, for the reason in Stop: it may be
	// incomplete.
	Shortened bool

	Reused int // tokens of the prompt that were in the KV cache
	Cloud  int // tokens that were chosen by a large model
	Asks   int // questions to the large model
	Sent   Sent
}

// Sent is what left this device for a request.
type Sent struct {
	Tokens int    `json:"tokens"` // of texts; a token counts each time it is sent
	Bytes  int    `json:"bytes"`  // of the messages, before encryption
	To     string `json:"to"`     // address of the gateway; "" if nothing was sent
}

// Add adds what was sent for another answer.
func (s *Sent) Add(o Sent) {
	s.Tokens += o.Tokens
	s.Bytes += o.Bytes
	if o.To != "" {
		s.To = o.To
	}
}

// Infill is a text with a gap to fill.
type Infill struct {
	Prefix, Suffix string                        // before the gap and after it
	Repo, Name     string                        // of the repository and of the file; "": unknown
	Files          []struct{ Name, Text string } // other files of the repository
	Most           int                           // tokens of the prompt at most, by omitting text; 0: no limit
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
