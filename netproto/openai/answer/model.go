package answer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
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
	// if the model has no chat template.
	Chat(c Conversation) ([]int32, error)
	// Tokenize returns the ids of a text. Special tokens in it are recognised if special is set, else they are text.
	Tokenize(text string, special bool) ([]int32, error)
	// Bytes returns the text of a token, which often has no whole characters.
	Bytes(id int32) []byte
	// Name returns the name of a token that has no text; "" for others.
	Name(id int32) string
	// Infill returns the prompt for a text with a gap; for an empty Infill, its three marks alone. The error is
	// [ErrNoInfill] if the model has no such marks.
	Infill(f Infill) ([]int32, error)
	// Check reports settings that the model cannot follow, such as a schema with keywords that cannot be decided. It
	// returns the paths of keywords of the schema that have no effect. When ctx ends, it returns the cause.
	Check(ctx context.Context, s Settings) (ignored []string, err error)
	// NewSession makes an empty text.
	NewSession() Session
	// SavedText returns the text that [Session.SaveKV] has written, if a session can load it. It reads only the head.
	SavedText(r io.Reader) ([]int32, error)
}

// Session is one text. It generates one answer at a time.
type Session interface {
	// Generate yields the tokens that follow a prompt. What it has in common with the text so far, which is the last
	// prompt and its answer, is not computed again. An error ends the sequence, and so does ctx.
	Generate(ctx context.Context, prompt []int32, s Settings) iter.Seq2[Token, error]
	// Score yields the tokens of a text with their log-probabilities and the top best tokens at each place; of the
	// first token both are absent (NaN, nil).
	Score(ctx context.Context, text []int32, top int) iter.Seq2[Token, error]
	// Summary is what the last answer took, as of now.
	Summary() Summary
	// CopyKV makes the first n tokens of another session of the model the text, with what was computed for them.
	CopyKV(ctx context.Context, from Session, n int) error
	// SaveKV writes the text with what was computed for it, and LoadKV makes what it has written the text.
	SaveKV(ctx context.Context, w io.Writer) error
	LoadKV(ctx context.Context, r io.Reader) error
	// Close releases the memory of the text.
	Close() error
}

// Conversation is the beginning of a chat.
type Conversation struct {
	Messages []Message
	Tools    []json.RawMessage // definitions, as the request has them
}

// Add puts a turn after the others. What an assistant says and calls in one go is one turn.
func (c *Conversation) Add(m Message) {
	if last := len(c.Messages) - 1; last >= 0 && m.Role == "assistant" && c.Messages[last].Role == m.Role {
		before := &c.Messages[last]
		if before.Content == "" || m.Content == "" {
			before.Content += m.Content
			before.Calls = append(before.Calls, m.Calls...)
			before.Local = before.Local || m.Local
			return
		}
	}
	c.Messages = append(c.Messages, m)
}

// Message is one turn.
type Message struct {
	Role    string // "system", "user", "assistant", or "tool" for what a tool returned
	Content string
	Calls   []Call // of tools, by an assistant
	Local   bool   // see [Settings].Local
}

// Call is a call of a tool.
type Call struct {
	ID        string
	Name      string
	Arguments []byte // JSON text of an object, or whatever else a model wrote there
}

// Settings say how an answer is generated.
type Settings = terms.Settings

// Token is one token of an answer.
type Token struct {
	ID         int32
	Text       string // the whole characters that it completes, often none
	LogProb    float64
	Top        []Candidate // the best tokens, best first
	Origin     string      // who chose it
	Confidence float64
	Unverified bool
	At         time.Duration // since the answer began
}

// Candidate is a token that could have been chosen.
type Candidate struct {
	ID      int32
	LogProb float64
}

// Why an answer ended: the values of [Summary].Stop.
const (
	StopEnd     = "end"     // the model ended it
	StopString  = "stop"    // one of [Settings].Stop
	StopLength  = "length"  // as many tokens as were asked for
	StopContext = "context" // no room
)

// Summary is what an answer took.
type Summary struct {
	Text string // all of it, also what has not been part of a token's text
	Stop string // "" while it runs and after an error
	// Stopped is the text of [Settings].Stop that ended it, with [StopString].
	Stopped string
	End     *Token // the end token, which is no part of the answer; nil where none ended it
	// Shortened says that a value was ended by [Settings].Complete: it may lack something, and Stop is why.
	Shortened bool

	Reused int // tokens of the prompt that were known from before
	Tokens int // generated
	Cloud  int // of these, chosen by a large model
	Asks   int // questions to it
	Sent   Sent
}

// Sent is what of a request has left this device.
type Sent struct {
	Tokens int    `json:"tokens"` // of texts, each as often as it was sent
	Bytes  int    `json:"bytes"`  // of the messages, before encryption
	To     string `json:"to"`     // address of the gateway; "" where nothing was sent
}

// Add adds what has left for another answer.
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
	Repo, Name     string                        // of the repository and of the file; "": nothing is said of them
	Files          []struct{ Name, Text string } // others of the repository
	Most           int                           // tokens of the prompt, beyond which text is left out; 0: any number
}

// ErrNoChat says that a model continues texts but has no form for chats.
var ErrNoChat = errors.New("this model has no chat template: send a text to /v1/completions instead")

// ErrNoInfill says that a model has no form for texts with gaps.
var ErrNoInfill = errors.New("this model cannot fill gaps: its vocabulary has no marks for that, such as " +
	"<|fim_prefix|>; give what comes before alone, as prompt of /v1/completions")
