package pilotfish

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/ended"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Origin says who chose a token.
type Origin string

// The origins.
const (
	Edge        Origin = "edge"         // the small model
	Large       Origin = "cloud"        // the large model
	EdgeTimeout Origin = "edge-timeout" // the small model, as the large one was to be asked but did not answer in time
)

// Token is one token of an answer.
type Token struct {
	ID         int32         // in the vocabulary
	Pos        int           // position in the whole text, prompt included
	Text       string        // the whole characters that this token completes; may be empty
	Origin     Origin        // who chose it
	Confidence float32       // that the small model's token may stand, 0 to 1: of the router, or else its probability
	Unverified bool          // the large model was to look at it, but did not in time
	At         time.Duration // from the call until the token was there

	// With [Settings].Top, of the model that chose the token: its log-probability (natural; NaN where the large model
	// did not tell), and the best tokens with theirs, best first. They are of the model's own distribution: before
	// temperature, penalties, bias and schema.
	LogProb float32
	Top     []Candidate
}

// Text reads an answer to its end and returns it whole. An error comes with the text before it.
func Text(answer iter.Seq2[Token, error]) (string, error) {
	var text strings.Builder
	for t, err := range answer {
		if err != nil {
			return text.String(), err
		}
		text.WriteString(t.Text)
	}
	return text.String(), nil
}

// Option is a setting of one answer: [Settings], [Route], or what [Via], [MaxTokens] and [Watch] return.
type Option interface {
	set(r *request)
}

// request is what the options of an answer come to.
type request struct {
	settings terms.Settings
	sampler  Sampler
	best     int
	route    *Route
	watch    []func(Event)
	heads    []func(Head)
}

func newRequest(options []Option) (r request) {
	for _, o := range options {
		o.set(&r)
	}
	return r
}

// Settings say how an answer is generated: [terms.Settings] has the fields. The zero value is greedy decoding up to an
// end token.
//
// With Schema, what cannot be followed is refused with a [SchemaError], and [Stats].Ignored lists keywords without
// effect. With Local, a [Route] is left out; in a [Chat] all later questions are local too, as they come with this one,
// and settings that come later do not take it back.
type Settings terms.Settings

// SchemaError says what of a [Settings].Schema is wrong or not supported, and where.
type SchemaError = engine.SchemaError

func (s Settings) set(r *request) {
	s.Local = s.Local || r.settings.Local
	r.settings = terms.Settings(s)
}

// SampleBy is the option that s chooses the small model's tokens, in place of the temperature and what belongs to it.
func SampleBy(s Sampler) Option { return optionFunc(func(r *request) { r.sampler = s }) }

// Best is the option that a [Head] has at least n of the most probable tokens; without it 2.
func Best(n int) Option { return optionFunc(func(r *request) { r.best = n }) }

// check reports what of a request the engine does not look at and cannot be.
func (r request) check() error {
	if r.best < 0 {
		return fmt.Errorf("best: %d tokens are not possible: give 0 or more", r.best)
	}
	if r.settings.Local && r.route != nil && r.route.Verify {
		return errUnverified
	}
	return nil
}

// MaxTokens is the option of at most n tokens.
func MaxTokens(n int) Option { return optionFunc(func(r *request) { r.settings.MaxTokens = n }) }

// optionFunc is an option as a function.
type optionFunc func(*request)

func (f optionFunc) set(r *request) { f(r) }

// Stats is what one answer took.
type Stats struct {
	Text         string        // all of it, also what an incomplete character at the end left
	Stop         string        // why it ended: "end", "stop", "length", "context"; "" while it runs and after an error
	Stopped      string        // with "stop": the stop string that ended it
	End          *Token        // the end token, which is no part of the answer; nil where none ended it
	PromptTokens int           // tokens of the prompt
	ReusedTokens int           // of these, tokens that were known from before
	Shortened    bool          // a value was ended by [Settings].Complete: it may lack something, and Stop is why
	Ignored      []string      // paths of keywords of [Settings].Schema that have no effect; at most 100
	Tokens       int           // tokens generated, the end token not counted
	CloudTokens  int           // of these, chosen by the large model
	Timeouts     int           // of these, tokens that the small model chose as the large one did not answer in time
	Asks         int           // questions sent to the large model
	Hits         int           // of these, answers with a token that was already drafted
	Passes       int           // forward calls of the small model after the prompt
	BytesUp      int           // payload of the questions
	BytesDown    int           // payload of the answers
	PromptTime   time.Duration // from the call until the first token was there
	DecodeTime   time.Duration // from then on
	Hidden       time.Duration // of waiting for answers, spent on drafting that held
	Exposed      time.Duration // of waiting for answers, lost
	Err          error         // why answers of the large model did not come: the first reason; nil if all came
	Receipt      Receipt       // what has left this device, once the answer is over
}

// Receipt says what of a text has left this device for an answer: for questions to a large model, those that were in
// vain included, and for what was sent before the first of them.
type Receipt struct {
	Tokens int    // of the text, each as often as it was sent
	Bytes  int    // of the messages, before encryption; 0 for a [Cloud] of the caller's own: they are not seen
	To     string // address of the gateway, host:port; "" where nothing was sent, or not to a gateway
}

// statsOf returns what the last answer of s took.
func statsOf(s *engine.Session) Stats {
	a, r := s.Summary(), s.Routing()
	stats := Stats{
		Text: a.Text, Stop: a.Stop, Stopped: a.Stopped, Shortened: a.Shortened, Ignored: a.Ignored,
		PromptTokens: a.PromptTokens, ReusedTokens: a.ReusedTokens, Tokens: a.Tokens,
		Passes: a.Passes, PromptTime: a.PromptTime, DecodeTime: a.DecodeTime,
		CloudTokens: a.Cloud, Timeouts: a.Timeouts, Asks: r.Asks, Hits: r.Hits,
		BytesUp: r.BytesUp, BytesDown: r.BytesDown, Hidden: r.Hidden, Exposed: r.Exposed, Err: r.Cause,
	}
	if a.End != nil {
		stats.End = new(shownToken(*a.End))
	}
	return stats
}

// shownToken is a token of the engine.
func shownToken(t engine.Token) Token {
	out := Token{
		ID: t.ID, Pos: t.Pos, Text: t.Text, Origin: Origin(t.Origin), Confidence: t.Confidence,
		Unverified: t.Unverified,
	}
	if p := t.LogProbs; p != nil {
		out.LogProb, out.Top = p.Token, p.Top
	}
	return out
}

// Session is one text as it stands, without a chat's turns.
type Session struct {
	m      *Model
	busy   atomic.Bool
	mu     sync.Mutex
	s      *engine.Session // nil before the first text
	sent   Receipt         // of the last answer
	closed bool
}

// NewSession makes an empty session. Memory for keys and values is taken as its text grows.
func (m *Model) NewSession() *Session { return &Session{m: m} }

// Generate yields the tokens that follow text, with special tokens in it recognised. Each range over it begins anew.
// What text has in common with the session's text so far is not computed again. An error ends the sequence.
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
	return func(yield func(Token, error) bool) {
		if !s.busy.CompareAndSwap(false, true) {
			yield(Token{}, s.busyOrClosed())
			return
		}
		defer s.busy.Store(false)
		s.generate(ctx, ids, newRequest(options), yield)
	}
}

// Score yields the tokens of a text, given as ids, with their log-probabilities after the tokens before them, and with
// the top most probable tokens at each position, 0 to 20. The first token has none: its LogProb is NaN. The text
// may be as long as the context. No large model is asked. An error ends the sequence.
func (s *Session) Score(ctx context.Context, ids []int32, top int) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		if !s.busy.CompareAndSwap(false, true) {
			yield(Token{}, s.busyOrClosed())
			return
		}
		defer s.busy.Store(false)
		if err := s.score(ctx, ids, top, yield); err != nil && err != errEnough {
			yield(Token{}, err)
		}
	}
}

// errEnough says that somebody wants no more tokens.
var errEnough = errors.New("enough")

// score yields the tokens of a text until one is refused.
func (s *Session) score(ctx context.Context, ids []int32, top int, yield func(Token, error) bool) error {
	if len(ids) == 0 {
		return errors.New("no tokens: a text needs at least one")
	}
	begin := time.Now()
	e, err := s.open()
	if err != nil {
		return err
	}
	t, err := s.m.e.Tokenizer()
	if err != nil {
		return err
	}
	text := t.NewDecoder()
	tell := func(pos int, p float32, best []Candidate) error {
		token := Token{
			ID: ids[pos], Pos: pos, Text: text.Push(ids[pos]), Origin: Edge, At: time.Since(begin), LogProb: p,
			Top: best,
		}
		if !yield(token, nil) {
			return errEnough
		}
		return nil
	}
	if err := tell(0, float32(math.NaN()), nil); err != nil {
		return err
	}
	err = e.Score(ctx, ids, top, func(one engine.Seen) error { return tell(one.Pos, one.Given, one.Top) })
	if errors.Is(err, errEnough) {
		return errEnough
	}
	return err
}

// busyOrClosed is why a second answer cannot begin before the first is over.
func (s *Session) busyOrClosed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return ErrBusy
}

// generate yields tokens until one is refused, and the error if there is one.
func (s *Session) generate(ctx context.Context, ids []int32, r request, yield func(Token, error) bool) {
	begin := time.Now()
	e, err := s.open()
	if err != nil {
		yield(Token{}, err)
		return
	}
	var crash crash
	defer crash.raise()
	ctx, crash.stop = context.WithCancelCause(ctx)
	defer crash.stop(nil)
	s.receive(Receipt{})
	route, end, err := s.m.route(ctx, r, &crash)
	if err != nil {
		yield(Token{}, ended.By(ctx, err))
		return
	}
	defer func() {
		end()
		s.receive(r.receipt(route.Cloud))
	}()
	for t, err := range e.Routed(ctx, ids, route) {
		if err != nil {
			if errors.Is(err, errExit) {
				err = errExit // and nothing of a context, which only stopped the answer
			}
			if !crash.happened() {
				yield(Token{}, err)
			}
			return
		}
		shown := shownToken(t)
		shown.At = time.Since(begin)
		if !yield(shown, nil) {
			return
		}
	}
}

// receive notes what has left for an answer.
func (s *Session) receive(r Receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = r
}

// open returns the engine's session, made at the first call.
func (s *Session) open() (*engine.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.s == nil {
		var err error
		if s.s, err = s.m.e.NewSession(); err != nil {
			return nil, err
		}
	}
	return s.s, nil
}

// Stats tells what the last answer took, or has taken so far.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.s == nil {
		return Stats{}
	}
	stats := statsOf(s.s)
	stats.Receipt = s.sent
	return stats
}

// Close gives the memory of the session back. An answer that is being generated ends with [ErrClosed], as does every
// later call. It may be called from anywhere, also from within a loop over an answer, and more than once.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.s == nil {
		return nil
	}
	return s.s.Close()
}

// Message is one turn of a chat.
type Message struct {
	Role    string // "system", "user" or "assistant"
	Content string
	Local   bool // questions that come with it are local: see [Settings].Local
}

// ChatOptions say what a chat begins with, and how its answers are generated unless [Chat.Send] gets other options.
type ChatOptions struct {
	System   string    // the system message; "" means the model's own
	Messages []Message // turns so far, the first of which may be of the system
	Options  []Option  // of every answer; those that Send is given come after them
}

// Chat is a conversation.
type Chat struct {
	s       *Session
	options []Option

	mu       sync.Mutex
	messages []Message
	ids      []int32 // of messages up to the last answer, without its end; nil: not yet known
}

// NewChat begins a conversation. Memory for keys and values is taken as its text grows.
func (m *Model) NewChat(o ChatOptions) *Chat {
	messages := slices.Clone(o.Messages)
	if o.System != "" {
		messages = slices.Insert(messages, 0, Message{Role: "system", Content: o.System})
	}
	return &Chat{s: m.NewSession(), options: slices.Clone(o.Options), messages: messages}
}

// Send asks a question and yields the tokens of the answer. Each range over it asks anew. An error ends the sequence.
// Question and answer then belong to the conversation, as far as the answer came.
func (c *Chat) Send(ctx context.Context, question string, options ...Option) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		if !c.s.busy.CompareAndSwap(false, true) {
			yield(Token{}, c.s.busyOrClosed())
			return
		}
		defer c.s.busy.Store(false)
		ids, err := c.prompt(question)
		if err != nil {
			yield(Token{}, err)
			return
		}
		answer, r := slices.Clone(ids), newRequest(slices.Concat(c.options, options))
		r.settings.Local = r.settings.Local || c.local()
		defer func() {
			if len(answer) > len(ids) {
				c.add(question, answer, r.settings.Local)
			}
		}()
		c.s.generate(ctx, ids, r, func(t Token, err error) bool {
			if err == nil {
				answer = append(answer, t.ID)
			}
			return yield(t, err)
		})
	}
}

// local reports whether the conversation stays on this device.
func (c *Chat) local() bool {
	return slices.ContainsFunc(c.Messages(), func(m Message) bool { return m.Local })
}

// prompt returns the ids of the conversation with question as its last turn.
func (c *Chat) prompt(question string) ([]int32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := tokenizer.Message{Role: "user", Content: question}
	if c.ids != nil {
		t, err := c.s.m.e.Tokenizer()
		if err != nil {
			return nil, err
		}
		return t.Next(c.ids, asked)
	}
	var all []tokenizer.Message
	for _, m := range c.messages {
		all = append(all, tokenizer.Message{Role: m.Role, Content: m.Content})
	}
	return c.s.m.e.Chat(append(all, asked)...)
}

// add makes a question and its answer part of the conversation, which has these ids then.
func (c *Chat) add(question string, ids []int32, local bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = ids
	c.messages = append(c.messages, Message{"user", question, local}, Message{"assistant", c.s.Stats().Text, local})
}

// Messages returns the turns so far.
func (c *Chat) Messages() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.messages)
}

// Stats tells what the last answer took, or has taken so far.
func (c *Chat) Stats() Stats { return c.s.Stats() }

// Close gives the memory of the chat back. An answer that is being generated ends with [ErrClosed], as does every later
// call. It may be called from anywhere, also from within a loop over an answer, and more than once.
func (c *Chat) Close() error { return c.s.Close() }
