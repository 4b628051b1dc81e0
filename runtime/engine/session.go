package engine

import (
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
	"github.com/pilotfish-ai/pilotfish/runtime/qwen2"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// MostLookup is the largest [terms.Settings].Lookup.
const MostLookup = lookup.MostRows

// Token is one generated token.
type Token struct {
	Pos        int     // position in the whole text, prompt included
	ID         int32   // in the vocabulary
	Text       string  // the whole characters that this token completes; may be empty
	Origin     string  // who chose it: "edge", "cloud", or "edge-timeout" where the cloud was asked and failed
	Confidence float32 // that it may stand, in [0, 1]: of the router, or without one its probability before temperature
	Unverified bool    // the large model was to look at it, but did not in time
	// LogProbs are what the model that chose it says of it, before temperature, rules and schema; only with
	// [terms.Settings].Top.
	LogProbs *LogProbs
}

// Why a text ended: the values of [Summary.Stop].
const (
	StopEnd     = "end"     // an end token
	StopLength  = "length"  // as many tokens as were asked for: [terms.Settings].MaxTokens
	StopContext = "context" // the context is full
	StopString  = "stop"    // one of [terms.Settings].Stop
)

// Summary is what one call of [Session.Generate] did.
type Summary struct {
	Text         string        // all text, also what an incomplete character at the end left
	Stop         string        // why it ended: see [StopEnd]; "" while it runs and after an error
	Stopped      string        // with [StopString]: the stop string that ended it
	End          *Token        // the end token, which is not yielded; nil where none ended it
	Shortened    bool          // a value was ended by [terms.Settings].Complete: it may lack something, and Stop is why
	Ignored      []string      // paths of keywords of [terms.Settings].Schema that have no effect; at most 100
	PromptTokens int           // tokens of the prompt
	ReusedTokens int           // of these, tokens whose keys and values were still there from before
	Tokens       int           // tokens generated, the end token not counted
	Cloud        int           // of these, chosen by the cloud
	Timeouts     int           // of these, chosen by the small model as the cloud did not answer in time
	Flights      int           // tokens whose evaluation had begun before they were asked for
	Missed       int           // times that it had begun of another token than was then asked for: in vain
	Passes       int           // forward calls after the prompt
	Proposed     int           // guesses from the text that were evaluated in them: see [terms.Settings].Lookup
	Accepted     int           // of these, those that held: tokens without a call of their own
	PromptTime   time.Duration // from the call until the first token was known
	DecodeTime   time.Duration // from then on

	closed bool // Shortened, with an end token behind the value
}

// PassesPerToken is how many forward calls each token took, of those that follow the prompt's token, an end token
// included: 1 where every token has a call of its own, and 0 where none follows.
func (s Summary) PassesPerToken() float64 {
	tokens := s.Tokens - 1
	if s.Stop == StopEnd || s.closed {
		tokens++
	}
	if tokens <= 0 {
		return 0
	}
	return float64(s.Passes) / float64(tokens)
}

// Session is one text that grows: its KV cache, and the last summary. It generates one text at a time: beginning
// another one meanwhile is [ErrBusy], and harms nothing. Its other methods may be called by any goroutine.
type Session struct {
	e           *Engine
	closed      atomic.Bool  // by Close
	busy        atomic.Bool  // a text is being generated; what follows belongs to it
	cache       *qwen2.Cache // nil once it is closed
	member      *member
	speculation *speculation
	cost        lookup.Cost       // of forward calls, learnt from all texts
	waits       draft.Waits       // for answers of the cloud, alike
	row         [1]backend.Row    // of a token evaluated by itself
	out         [1]backend.Output // its head, until the next one
	first       [1]int            // says that the head of the first row is wanted
	ids         []int32           // what the cache holds
	tight       bool              // the shortest value of the schema has room, and the end token behind it has none
	told
	now func() time.Time

	mu   sync.Mutex
	last told                    // as of the last token
	kv   *qwen2.Cache            // the cache, to be asked for its memory
	stop context.CancelCauseFunc // of the text that is being generated
}

// told is what a session tells of itself.
type told struct {
	summary Summary
	routing draft.Summary
	spent   router.Answer
	cached  int // tokens in the cache
}

// NewSession makes an empty session of [Engine.Context] tokens.
func (e *Engine) NewSession() (*Session, error) {
	cache, err := e.newCache(e.o.Context)
	if err != nil {
		return nil, e.named(context.Background(), err)
	}
	return &Session{
		e: e, cache: cache, kv: cache, member: newMember(), speculation: e.newSpeculation(), now: time.Now,
	}, nil
}

// Close gives the memory of the session back when no text is being generated any more: one that is ends with
// [ErrClosed], and every later one at once. It may be called from anywhere, also from within a loop over
// [Session.Generate], and more than once. A session that nobody holds any more need not be closed.
func (s *Session) Close() error {
	s.closed.Store(true)
	s.mu.Lock()
	if s.stop != nil {
		s.stop(ErrClosed)
	}
	s.mu.Unlock()
	s.release()
	return nil
}

// release gives the memory of a closed session back, unless a text is being generated: that does so at its end.
func (s *Session) release() {
	if !s.busy.CompareAndSwap(false, true) {
		return
	}
	defer s.busy.Store(false)
	s.cache, s.ids = nil, nil
	s.row, s.out = [1]backend.Row{}, [1]backend.Output{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kv = nil
}

// begin makes what follows a text of the session, which ends with ctx, the session or the engine. The caller calls
// done.
func (s *Session) begin(ctx context.Context) (bound context.Context, done func(), err error) {
	if !s.busy.CompareAndSwap(false, true) {
		if s.closed.Load() {
			return ctx, nil, ErrClosed
		}
		return ctx, nil, ErrBusy
	}
	bound, release := s.e.bind(ctx)
	bound, stop := context.WithCancelCause(bound)
	s.mu.Lock()
	s.stop = stop
	s.mu.Unlock()
	done = func() {
		if s.e.crew != nil {
			s.e.crew.leave(s.member)
		}
		stop(nil)
		release()
		s.mu.Lock()
		s.stop = nil
		s.mu.Unlock()
		s.busy.Store(false)
		if s.closed.Load() { // meanwhile
			s.release()
		}
	}
	if s.closed.Load() {
		done()
		return ctx, nil, ErrClosed
	}
	if s.e.crew != nil {
		s.e.crew.join(s.member)
	}
	return bound, done, nil
}

// share is a forward call of the session's text, together with those of others where the device can.
func (s *Session) share(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	return s.e.share(ctx, s.member, kv, rows, out, want, false)
}

// Summary tells what the last call of [Session.Generate] did, or has done so far.
func (s *Session) Summary() Summary { return s.tell().summary }

// KVBytes is the memory that keys and values take now: it grows with the text. 0 once the session is closed.
func (s *Session) KVBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kv == nil {
		return 0
	}
	return s.kv.Bytes()
}

// KVLimit is that memory when the context is full.
func (s *Session) KVLimit() int64 { return s.e.kvBytes(s.e.o.Context) }

// KVTokens is how many tokens the cache held after the last token: the text, and while routed decoding runs, the
// drafts.
func (s *Session) KVTokens() int { return s.tell().cached }

// inUse is how many tokens the cache holds now, without those in flight.
func (s *Session) inUse() int { return s.cache.InUse() - len(s.speculation.flights) }

// tell returns what was noted last.
func (s *Session) tell() told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// note makes what the session is doing known.
func (s *Session) note() {
	s.cached = s.inUse()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = s.told
}

// Generate runs prompt and yields the tokens that follow. The part of the prompt that equals the text of the session so
// far is not run again. An error ends the sequence; so does ctx, with its cause, and [Engine.Close], with [ErrClosed].
func (s *Session) Generate(ctx context.Context, prompt []int32, r terms.Settings) iter.Seq2[Token, error] {
	return s.Routed(ctx, prompt, Route{Settings: r})
}

// prefill brings the cache to hold prompt and returns what follows its last token.
func (s *Session) prefill(ctx context.Context, prompt []int32, want backend.Want) (*backend.Output, error) {
	if room := s.cache.Slots(); len(prompt) >= room {
		return nil, fmt.Errorf("%w: a prompt of %d tokens leaves no room for an answer in a context of %d: "+
			"give a shorter prompt or a longer context", ErrContext, len(prompt), room)
	}
	vocab := s.e.model.Config().Vocab
	for i, id := range prompt {
		if id < 0 || int(id) >= vocab {
			return nil, fmt.Errorf("token %d of the prompt is %d: ids of this model are 0 to %d", i, id, vocab-1)
		}
	}
	same := 0
	// The last token always runs, for its logits.
	for same < len(s.ids) && same < len(prompt)-1 && s.ids[same] == prompt[same] {
		same++
	}
	s.cache.Truncate(same)
	s.ids = s.ids[:same]
	s.summary.ReusedTokens = same
	out, err := s.e.forward(ctx, s.member, s.cache, prompt[same:], want)
	if err == nil {
		s.ids = append(s.ids, prompt[same:]...)
	}
	return out, err
}
