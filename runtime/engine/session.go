package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// MostLookup is the largest [terms.Settings].Lookup.
const MostLookup = lookup.MostRows

// Token is one token of an answer.
type Token struct {
	ID         int32         // in the vocabulary
	Pos        int           // position in the whole text, prompt included
	Text       string        // the whole characters that this token completes; may be empty
	Kind       string        // what it belongs to: a [tokenizer.Kind]
	Origin     string        // which model chose it: a [draft.Origin]
	Local      int32         // the small model's token: ID, unless the large model chose another one
	Asked      bool          // the large model was asked for it, with or without an answer
	Confidence float32       // that the small model's token may stand, 0 to 1: of the router, or else its probability
	Unverified bool          // it was to be verified, but no answer came in time
	At         time.Duration // from the call until the token was known

	// With [terms.Settings].Top, of the model that chose the token: its log-probability (natural; NaN where the large
	// model did not give one), and the best tokens with theirs, best first. They are of the model's own distribution:
	// before temperature, penalties, bias and schema.
	LogProb float32
	Top     []terms.Candidate
}

// Why a text ended: the values of [Summary.Stop].
const (
	StopEnd     = "end"     // an end token
	StopLength  = "length"  // as many tokens as were asked for: [terms.Settings].MaxTokens
	StopContext = "context" // the context is full
	StopString  = "stop"    // one of [terms.Settings].Stop
)

// Summary describes one answer.
type Summary struct {
	Text        string   // the whole text, including the rest of an incomplete character at the end
	Stop        string   // why it ended: "end", "stop", "length", "context"; "" while it runs and after an error
	Stopped     string   // with "stop": the stop string that ended it
	Shortened   bool     // [terms.Settings].Complete ended a value: it may lack something, and Stop is why
	Closed      bool     // Shortened, with an end token after the value
	Ignored     []string // paths of keywords of [terms.Settings].Schema that have no effect; at most 100
	AnswerAt    int      // where the answer begins in Text, in bytes: after a thought and its marks
	Tokens      int      // of Text: tokens generated, the end token not counted
	CloudTokens int      // of these, chosen by the large model
	Timeouts    int      // of these, tokens that the small model chose as the large one did not answer in time
	Verified    bool     // the large model verified the tokens before they were shown
	Unlike      bool     // the last answers are unlike those that the router's certificate is for
	Receipt     Receipt  // what has left this device, once the answer is over
	// Spent is what the answer adds to the balance of its router's budget, once it is over; zero without a budget.
	Spent router.Answer
	// Routing has all figures of the answer, once it is over: tokens of the prompt, times, passes, drafts, questions to
	// the large model. Before that it has those of the prompt.
	Routing
}

// Answer returns the text without a thought before it.
func (s Summary) Answer() string { return s.Text[min(s.AnswerAt, len(s.Text)):] }

// Routing is the figures of an answer.
type Routing = draft.Summary

// Receipt says how much of a text has left this device for an answer: for questions to a large model, including those
// in vain, and for text sent before the first question.
type Receipt struct {
	Tokens int    // of the text, each as often as it was sent
	Bytes  int    // of the messages, before encryption; 0 for a cloud of the caller's own, which does not count them
	To     string // address of the gateway, host:port; "" where nothing was sent, or not to a gateway
}

// Plus returns what has left this device for two answers. To is the address of the second one, if it has one.
func (r Receipt) Plus(second Receipt) Receipt {
	return Receipt{r.Tokens + second.Tokens, r.Bytes + second.Bytes, cmp.Or(second.To, r.To)}
}

// PassesPerToken is the number of forward calls per token after the prompt's token, an end token included: 1 if every
// token has a call of its own, and 0 if none follows.
func (s Summary) PassesPerToken() float64 {
	tokens := s.Tokens - 1
	if s.Stop == StopEnd || s.Closed {
		tokens++
	}
	if tokens <= 0 {
		return 0
	}
	return float64(s.Passes) / float64(tokens)
}

// Session is one text that grows, with its KV cache. It generates one text at a time: another one meanwhile fails with
// [ErrBusy]. Its other methods may be called by any goroutine.
type Session struct {
	e            *Engine
	closed       atomic.Bool        // by Close
	busy         atomic.Bool        // a text is being generated; what follows belongs to it
	cache        *transformer.Cache // nil once it is closed
	batchSession *batchSession
	speculation  *speculation
	cost         lookup.Cost       // of forward calls, from all texts
	waits        draft.Waits       // for answers of the cloud, from all texts
	small        *drafter          // of the last [Route].Drafter; nil: none
	row          [1]backend.Row    // of a token evaluated by itself
	out          [1]backend.Output // its head, until the next one
	first        [1]int            // the rows that need a head: the first
	ids          []int32           // in the cache
	tight        bool              // the shortest value of the schema fits, but no end token after it
	summary      Summary
	end          *Token // that ended the answer; nil: none
	now          func() time.Time

	mu   sync.Mutex
	last Summary                 // as of the last token
	over *Token                  // end, as of the last token
	held int                     // tokens in the cache as of the last token
	stop context.CancelCauseFunc // of the text that is being generated
}

// NewSession makes an empty session of [Engine.Context] tokens.
func (e *Engine) NewSession() (*Session, error) {
	s := e.Session()
	return s, e.withFileName(context.Background(), s.ensureCache(context.Background()))
}

// Session is [Engine.NewSession], except that the first text returns its error.
func (e *Engine) Session() *Session {
	s := &Session{e: e, batchSession: newBatchSession(), now: time.Now}
	s.speculation = newSpeculation(e, &s.summary)
	return s
}

// ensureCache makes the cache, unless there is one. Its memory is allocated as the text grows.
func (s *Session) ensureCache(ctx context.Context) (err error) {
	if s.cache == nil {
		s.cache, err = s.e.newCache(ctx, s.e.o.Context)
	}
	return err
}

// Close frees the memory of the session. A text that is being generated ends with [ErrClosed], and so does every later
// one. Close may be called from anywhere, also from within a loop over [Session.Generate], and more than once. It is
// not required for a session without references.
func (s *Session) Close() error {
	s.closed.Store(true)
	s.mu.Lock()
	if s.stop != nil {
		s.stop(ErrClosed)
	}
	s.mu.Unlock()
	s.freeMemory()
	return nil
}

// freeMemory frees the memory of a closed session. If a text is being generated, the memory is freed at its end
// instead.
func (s *Session) freeMemory() {
	if !s.busy.CompareAndSwap(false, true) {
		return
	}
	defer s.busy.Store(false)
	s.cache, s.ids = nil, nil
	if s.small != nil {
		_ = s.small.s.Close() // never an error
	}
	s.row, s.out = [1]backend.Row{}, [1]backend.Output{}
}

// Busy is the error of a second text in the session before the first is over: [ErrBusy], or [ErrClosed].
func (s *Session) Busy() error {
	if s.closed.Load() {
		return ErrClosed
	}
	return ErrBusy
}

// beginText begins a text of the session, which ends with ctx, the session or the engine. The caller calls done.
func (s *Session) beginText(ctx context.Context) (bound context.Context, done func(), err error) {
	if !s.busy.CompareAndSwap(false, true) {
		return ctx, nil, s.Busy()
	}
	bound, release := s.e.bindContext(ctx)
	bound, stop := context.WithCancelCause(bound)
	s.mu.Lock()
	s.stop = stop
	s.mu.Unlock()
	done = func() {
		if s.e.batcher != nil {
			s.e.batcher.removeSession(s.batchSession)
		}
		stop(nil)
		release()
		s.mu.Lock()
		s.stop = nil
		s.mu.Unlock()
		s.busy.Store(false)
		if s.closed.Load() { // meanwhile
			s.freeMemory()
		}
	}
	if s.closed.Load() {
		done()
		return ctx, nil, ErrClosed
	}
	if err := s.ensureCache(bound); err != nil {
		done()
		return ctx, nil, err
	}
	if s.e.batcher != nil {
		s.e.batcher.addSession(s.batchSession)
	}
	return bound, done, nil
}

func (s *Session) forwardShared(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	return s.e.forwardShared(ctx, s.batchSession, kv, rows, out, want)
}

// Summary returns the summary of the last call of [Session.Routed], or of the one in progress.
func (s *Session) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// End returns the end token of the last answer, which is not part of it; nil if it did not end with one.
func (s *Session) End() *Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// KVLimit returns the memory of keys and values when the context is full.
func (s *Session) KVLimit() int64 { return s.e.kvBytes(s.e.o.Context) }

// KVTokens is the number of tokens in the cache as of the last token: text, and drafts while routed decoding runs.
func (s *Session) KVTokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// tokensInUse is the number of tokens in the cache, without those in flight.
func (s *Session) tokensInUse() int { return s.cache.InUse() - len(s.speculation.passes) }

func (s *Session) publishSummary() {
	held := s.tokensInUse()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.over, s.held = s.summary, s.end, held
}

// Generate runs prompt and yields the tokens that follow. The part of the prompt that equals the session's text is not
// run again. An error ends the sequence; so does ctx, with its cause, and [Engine.Close], with [ErrClosed].
func (s *Session) Generate(ctx context.Context, prompt []int32, r terms.Settings) iter.Seq2[Token, error] {
	return s.Routed(ctx, prompt, Route{Settings: r})
}

func (s *Session) checkPrompt(prompt []int32) error {
	if room := s.cache.Slots(); len(prompt) >= room {
		return fmt.Errorf("%w: a prompt of %d tokens leaves no room for an answer in a context of %d: "+
			"give a shorter prompt or a longer context", ErrContext, len(prompt), room)
	}
	return s.e.checkTokens("prompt", prompt)
}

func (s *Session) prefillPrompt(ctx context.Context, prompt []int32, want backend.Want) (*backend.Output, error) {
	same := min(terms.CommonPrefix(s.ids, prompt), len(prompt)-1) // the last token always runs, for its logits
	s.truncateText(resumable(s.cache.KV(), max(same, 0)))
	s.summary.ReusedTokens = len(s.ids)
	s.publishSummary()
	out := make([]backend.Output, 1)
	return &out[0], s.appendTokens(ctx, prompt[len(s.ids):], out, want)
}

func (s *Session) truncateText(tokens int) {
	s.cache.Truncate(tokens)
	s.ids = s.ids[:tokens]
}

// appendTokens runs tokens after the content of the cache, and sets out for the last of them. On an error the text has
// those that were evaluated: a prompt that is sent again goes on there.
func (s *Session) appendTokens(ctx context.Context, tokens []int32, out []backend.Output, want backend.Want) error {
	err := s.e.evaluateTokens(ctx, s.batchSession, s.cache, tokens, out, want)
	s.ids = append(s.ids, tokens[:s.cache.Len()-len(s.ids)]...)
	return err
}
