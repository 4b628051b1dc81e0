package pilotfish

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Token is one token of an answer.
type Token struct {
	ID         int32         // in the vocabulary
	Pos        int           // position in the whole text, prompt included
	Text       string        // the whole characters that this token completes; may be empty
	Kind       string        // what it belongs to: [KindAnswer], [KindThought], [KindMark] or [KindCall]
	Origin     string        // which model chose it: [Edge], [Large] or [EdgeTimeout]
	Local      int32         // the small model's token: ID, unless the large model chose another one
	Asked      bool          // the large model was asked for it, with or without an answer
	Confidence float32       // that the small model's token may stand, 0 to 1: of the router, or else its probability
	Unverified bool          // it was to be verified, but no answer came in time
	At         time.Duration // from the call until the token was known

	// With [Settings].Top, of the model that chose the token: its log-probability (natural; NaN where the large model
	// did not give one), and the best tokens with theirs, best first. They are of the model's own distribution: before
	// temperature, penalties, bias and schema.
	LogProb float32
	Top     []Candidate
}

// Values of [Token].Origin.
const (
	Edge        = "edge"         // the small model
	Large       = "cloud"        // the large model
	EdgeTimeout = "edge-timeout" // the small model, because the large one did not answer in time
)

// Values of [Token].Kind.
const (
	KindAnswer  = ""              // the answer itself
	KindThought = "thought"       // what the model thought before it
	KindMark    = "mark"          // <think>, </think> and the blanks after them
	KindCall    = answer.KindCall // a call of a tool, as the model writes it: see [Chat.Calls]
)

// Text reads an answer to its end and returns its text, without what the model thought before. On an error it also
// returns the text before it.
func Text(tokens iter.Seq2[Token, error]) (string, error) {
	var text strings.Builder
	for t, err := range tokens {
		if err != nil {
			return text.String(), err
		}
		if t.Kind == KindAnswer {
			text.WriteString(t.Text)
		}
	}
	return text.String(), nil
}

// Option is a setting of one answer: [Settings], [Route], or the result of [Via], [MaxTokens] or [Watch].
type Option interface {
	applyTo(r *request)
}

// request holds all options of an answer.
type request struct {
	settings terms.Settings
	sampler  Sampler
	best     int
	route    *Route
	watch    []func(Event)
	heads    []func(Head)
	trace    *engine.Watcher
	tools    ToolUse
}

func newRequest(options []Option) (r request) {
	for _, o := range options {
		o.applyTo(&r)
	}
	return r
}

// Settings configure how an answer is generated. The zero value is greedy decoding up to an end token.
//
// Where a large model behind a gateway is asked and MinP, the penalties, LogitBias or a schema change the distribution,
// the token is chosen from its 32 best by the same rules; if none of them is allowed, the small model's token is kept.
type Settings struct {
	MaxTokens int // most tokens to generate; 0: as many as fit into the context

	Temperature float64 // logits are divided by it, 0 to 100; 0 means greedy, and TopP, MinP and TopK have no effect
	TopP        float64 // draw from the most probable tokens of this total probability, 0 to 1; 0 and 1: from all
	MinP        float64 // draw from tokens of at least this share of the most probable one's probability, 0 to 1
	TopK        int     // draw from the k most probable tokens; 0: from all

	RepeatPenalty    float64 // divides the logits of the last 64 tokens, multiplies negative ones, 0 to 10; 0, 1: off
	PresencePenalty  float64 // subtracted from the logits of tokens in the answer, -2 to 2
	FrequencyPenalty float64 // subtracted from the logit of a token for each time that it is in the answer, -2 to 2

	Seed      uint64            // of the random numbers: the same seed gives the same text
	LogitBias map[int32]float32 // added to the logits of tokens, -100 to 100

	// Stop are texts that end the answer where they occur. They are not part of the answer; tokens that may be the
	// beginning of one are held back until that is decided.
	Stop      []string
	IgnoreEnd bool // continue after an end token

	LogProbs bool // report the log-probability of each token
	Top      int  // the same, and of so many of the most probable tokens, 0 to 20: [Token].Top

	// Schema is a JSON schema that the answer follows: docs/use/structured.md lists what is supported. Other keywords
	// are refused with a [SchemaError], and [Stats].Ignored lists keywords without effect. The large model can verify
	// an answer with a schema, but none with other rules.
	Schema   []byte
	JSON     bool // the answer is any JSON object
	Complete bool // near MaxTokens or the end of the context, complete the value in the shortest way, if it can be
	Closed   bool // objects have only the properties that the schema lists, unless additionalProperties allows others
	// Call says that Schema is that of calls of tools: objects with a name, which is constant, and arguments. If the
	// model writes calls in tags, as Qwen3.5 does, the answer is one: <function=NAME>, and Closed has no effect.
	Call bool

	// Lookup is the maximum number of tokens in a forward pass, guesses from the text included, 2 to 8; 0 means 8,
	// negative 1. The answer is the same with any value.
	Lookup int

	// Local keeps the text on this device: a [Route] has no effect, and its verification is not possible. In a [Chat]
	// all later questions are local too, because they contain this one.
	Local bool
}

// SchemaError says what in a [Settings].Schema is wrong or not supported, and where.
type SchemaError = engine.SchemaError

func (s Settings) applyTo(r *request) {
	s.Local = s.Local || r.settings.Local
	r.settings = terms.Settings(s)
}

// SampleBy is the option that makes s choose the small model's tokens, in place of temperature and the like.
func SampleBy(s Sampler) Option { return optionFunc(func(r *request) { r.sampler = s }) }

// Best is the option that sets the minimum number of most probable tokens in a [Head]; the default is 2.
func Best(n int) Option { return optionFunc(func(r *request) { r.best = n }) }

func (r request) checkOptions() error {
	if r.best < 0 {
		return fmt.Errorf("best: %d tokens are not possible: give 0 or more", r.best)
	}
	if r.settings.Local && r.route != nil && r.route.Verify {
		return errUnverified
	}
	return nil
}

// MaxTokens is the option that limits the answer to n tokens.
func MaxTokens(n int) Option { return optionFunc(func(r *request) { r.settings.MaxTokens = n }) }

// optionFunc is an option as a function.
type optionFunc func(*request)

func (f optionFunc) applyTo(r *request) { f(r) }

// Session is one text, without the turns of a chat.
type Session struct {
	m *Model
	s *engine.Session
}

// NewSession makes an empty session. Memory for keys and values is allocated as its text grows.
func (m *Model) NewSession() *Session { return &Session{m, m.e.Session()} }

// Generate yields the tokens that follow text. Special tokens in text are recognised. Each range over the sequence
// generates again. The part of text that equals the beginning of the session's text is not computed again. An error
// ends the sequence.
func (s *Session) Generate(ctx context.Context, text string, options ...Option) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		ids, err := s.m.e.RawPrompt(text)
		if err != nil {
			yield(Token{}, err)
			return
		}
		s.GenerateTokens(ctx, ids, options...)(yield)
	}
}

// GenerateTokens is [Session.Generate] for a text given as ids.
func (s *Session) GenerateTokens(ctx context.Context, ids []int32, options ...Option) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) { s.generateTokens(ctx, ids, newRequest(options), yield) }
}

// Score yields the tokens of a text, given as ids, with their log-probabilities after the tokens before them, and with
// the top most probable tokens at each position, 0 to 20. The LogProb of the first token is NaN. The text may be as
// long as the context. No large model is asked. An error ends the sequence.
func (s *Session) Score(ctx context.Context, ids []int32, top int) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		for t, err := range s.s.Score(ctx, ids, top) {
			if !yield(Token(t), err) {
				return
			}
		}
	}
}

func (s *Session) generateTokens(ctx context.Context, ids []int32, r request, yield func(Token, error) bool) {
	var crash cloudPanic
	defer crash.rethrowPanic()
	ctx, crash.stop = context.WithCancelCause(ctx)
	defer crash.stop(nil)
	route, err := s.m.engineRoute(r, &crash)
	if err != nil {
		yield(Token{}, err)
		return
	}
	for t, err := range s.s.Routed(ctx, ids, route) {
		if errors.Is(err, errExit) {
			err = errExit // without the error of the context, which only stopped the answer
		}
		if err != nil && crash.hasPanicked() || !yield(Token(t), err) {
			return
		}
	}
}

// Stats returns what the last answer took, or has taken so far.
func (s *Session) Stats() Stats { return Stats(s.s.Summary()) }

// End returns the end token of the last answer, which is not part of it; nil if it did not end with one.
func (s *Session) End() *Token { return (*Token)(s.s.End()) }

// KVLimit is the size of keys and values of a full context, in bytes.
func (s *Session) KVLimit() int64 { return s.s.KVLimit() }

// KVTokens returns the number of tokens of the text with keys and values in memory. After an error in the middle of a
// prompt it is what was computed until then.
func (s *Session) KVTokens() int { return s.s.KVTokens() }

// Close frees the memory of the session. An answer that is being generated ends with [ErrClosed], as does every later
// call. It may be called from anywhere, also from within a loop over an answer, and more than once.
func (s *Session) Close() error { return s.s.Close() }

// Message is one turn of a chat.
type Message struct {
	Role    string     // "system", "user", "assistant", or "tool" for the result of a tool
	Content string     // may be empty if there are calls
	Thought string     // what an assistant thought before the content, without marks; a template may leave it out
	Calls   []ToolCall // of an assistant
	Local   bool       // questions that come with it are local: see [Settings].Local
}

// ToolCall is a call of a tool, as a model made it.
type ToolCall struct {
	ID        string // for programs: no template shows it
	Name      string
	Arguments []byte // JSON text of an object; other text, which models sometimes write, is given as a string
}

// templateMessages returns turns as templates read them.
func templateMessages(turns []Message) []tokenizer.Message {
	all := make([]tokenizer.Message, len(turns))
	for i, m := range turns {
		calls := make([]tokenizer.ToolCall, len(m.Calls))
		for k, c := range m.Calls {
			calls[k] = tokenizer.ToolCall{Name: c.Name, Arguments: c.Arguments}
		}
		all[i] = tokenizer.Message{Role: m.Role, Content: m.Content, Thought: m.Thought, Calls: calls}
	}
	return all
}

// ChatOptions configure the beginning of a chat, and how its answers are generated unless [Chat.Send] gets other
// options.
type ChatOptions struct {
	System   string    // the system message; "" means the model's own
	Messages []Message // turns so far; the first may be the system message
	Options  []Option  // of every answer; those of Send come after them
	Tools    []Tool    // that the model may call: see [ToolUse]

	Template []TemplateValue // for the model's chat template, such as Thinking(false)
}

// Chat is a conversation.
type Chat struct {
	s       *Session
	options []Option
	values  []TemplateValue // for the template
	tools   []Tool
	busy    sync.Mutex // of an answer, until it belongs to the conversation

	mu       sync.Mutex
	messages []Message
	ids      []int32 // of messages up to the last answer, without its end; nil: not yet known
	stats    *Stats  // of the last answer, if it had tools
}

// NewChat begins a conversation. Memory for keys and values is allocated as its text grows.
func (m *Model) NewChat(o ChatOptions) *Chat {
	messages := slices.Clone(o.Messages)
	if o.System != "" {
		messages = slices.Insert(messages, 0, Message{Role: "system", Content: o.System})
	}
	return &Chat{s: m.NewSession(), options: slices.Clone(o.Options),
		values: slices.Clone(o.Template), tools: slices.Clone(o.Tools), messages: messages}
}

// Send asks a question and yields the tokens of the answer. Each range over the sequence asks again. An error ends the
// sequence. Question and answer are then added to the conversation, even if the answer is incomplete, but not what the
// model thought before an answer without calls. After an error before the first token the conversation is as before.
func (c *Chat) Send(ctx context.Context, question string, options ...Option) iter.Seq2[Token, error] {
	asked := []Message{{Role: "user", Content: question}}
	return c.sendTurns(ctx, func() ([]Message, error) { return asked, nil }, options)
}

func (c *Chat) sendTurns(
	ctx context.Context, turns func() ([]Message, error), options []Option,
) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		if !c.busy.TryLock() {
			yield(Token{}, c.s.s.Busy())
			return
		}
		defer c.busy.Unlock()
		asked, err := turns()
		r := newRequest(slices.Concat(c.options, options))
		tools := c.tools
		if r.tools.None {
			tools = nil
		}
		var ids []int32
		if err == nil {
			ids, err = c.promptTokens(asked, tools, r)
		}
		if err != nil {
			yield(Token{}, err)
			return
		}
		r.settings.Local = r.settings.Local || c.isLocal()
		c.setStats(nil)
		if len(tools) > 0 || r.tools.mustCall() {
			c.answerWithTools(ctx, asked, ids, r, yield)
		} else {
			c.answerWithoutTools(ctx, asked, ids, r, yield)
		}
	}
}

func (c *Chat) answerWithoutTools(
	ctx context.Context, asked []Message, ids []int32, r request, yield func(Token, error) bool,
) {
	text, left, ended := slices.Clone(ids), false, false
	defer func() {
		if ended || len(text) > len(ids) {
			c.addAnswer(asked, text, Message{Content: c.s.Stats().Answer(), Local: r.settings.Local})
		}
	}()
	c.s.generateTokens(ctx, ids, r, func(t Token, err error) bool {
		if err == nil {
			text = append(text, t.ID)
		}
		left = !yield(t, err) || err != nil
		return !left
	})
	ended = !left
}

func (c *Chat) isLocal() bool {
	return slices.ContainsFunc(c.Messages(), func(m Message) bool { return m.Local })
}

// promptTokens returns the prompt of an answer. With a format and without tools the model does not think: a thought
// that the template begins would have the format.
func (c *Chat) promptTokens(asked []Message, tools []Tool, r request) ([]int32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.s.m.e.Tokenizer()
	if err != nil {
		return nil, err
	}
	values := c.values
	if r.settings.Structured() && len(tools) == 0 {
		values = append(slices.Clip(values), Thinking(false))
	}
	return t.Next(c.ids, c.chatMessages(asked), toolDefinitions(tools), templateValues(values)...)
}

func (c *Chat) chatMessages(asked []Message) []tokenizer.Message {
	return templateMessages(append(slices.Clip(c.messages), asked...))
}

// addAnswer adds turns and the answer to them. ids become the tokens of the conversation.
func (c *Chat) addAnswer(asked []Message, ids []int32, said Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids, said.Role = ids, "assistant"
	for _, m := range asked {
		m.Local = said.Local
		c.messages = append(c.messages, m)
	}
	c.messages = append(c.messages, said)
}

// CountTokens returns the number of tokens of the prompt with which [Chat.Send] would ask a question. The answer has
// the rest of [Model.Context].
func (c *Chat) CountTokens(question string) (int, error) {
	ids, err := c.promptTokens([]Message{{Role: "user", Content: question}}, c.tools, newRequest(c.options))
	return len(ids), err
}

// Messages returns the turns so far.
func (c *Chat) Messages() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.messages)
}

// Stats returns what the last answer took, or has taken so far. Of an answer with tools, Text has no calls and marks;
// until it is over, all figures are of the text or call that is being generated.
func (c *Chat) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stats != nil {
		return *c.stats
	}
	return c.s.Stats()
}

func (c *Chat) setStats(s *Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats = s
}

// Close frees the memory of the chat. An answer that is being generated ends with [ErrClosed], as does every later
// call. It may be called from anywhere, also from within a loop over an answer, and more than once.
func (c *Chat) Close() error { return c.s.Close() }
