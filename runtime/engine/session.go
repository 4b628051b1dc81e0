package engine

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen2"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// Request says what to generate after a prompt. The zero value is greedy decoding up to the end token.
type Request struct {
	MaxTokens int            // most tokens to generate; 0 means what the context holds
	Sampling  sample.Options // zero value: greedy
	IgnoreEnd bool           // go on after an end token; for benchmarks
}

// Token is one generated token.
type Token struct {
	Pos        int     // position in the whole text, prompt included
	ID         int32   // in the vocabulary
	Text       string  // the whole characters that this token completes; may be empty
	Origin     string  // who chose it: "edge", "cloud", or "edge-timeout" where the cloud was asked and failed
	Confidence float32 // that it may stand, in [0, 1]: of the router, or without one the token's probability before temperature
}

// Summary is what one call of [Session.Generate] did.
type Summary struct {
	Text         string        // all text, also what an incomplete character at the end left
	Stop         string        // why it ended: "end" token, "length", or "" while it runs and after an error
	PromptTokens int           // tokens of the prompt
	ReusedTokens int           // of these, tokens whose keys and values were still there from before
	Tokens       int           // tokens generated, the end token not counted
	RanAhead     int           // tokens whose evaluation had begun before they were asked for
	PromptTime   time.Duration // from the call until the first token was known
	DecodeTime   time.Duration // from then on
}

// Session is one text that grows: its KV cache, and the last summary. A session serves one goroutine at a time.
type Session struct {
	e       *Engine
	cache   *qwen2.Cache
	ahead   *ahead
	out     [1]backend.Output // the head of a token evaluated by itself, until the next one
	ids     []int32           // what the cache holds
	summary Summary
	routing draft.Summary
	now     func() time.Time
}

// NewSession makes an empty session of [Engine.Context] tokens.
func (e *Engine) NewSession() (*Session, error) {
	cache, err := e.newCache(e.o.Context)
	if err != nil {
		return nil, err
	}
	return &Session{e: e, cache: cache, ahead: e.newAhead(), now: time.Now}, nil
}

// Summary tells what the last call of [Session.Generate] did.
func (s *Session) Summary() Summary { return s.summary }

// KVBytes is the memory for keys and values when the context is full.
func (s *Session) KVBytes() int64 { return s.cache.Bytes() }

// KVTokens is how many tokens the cache holds: the text, and while routed decoding runs, the drafts.
func (s *Session) KVTokens() int { return s.cache.InUse() - len(s.ahead.flights) }

// Generate runs prompt and yields the tokens that follow. The part of the prompt that equals the text of the session so
// far is not run again. An error ends the sequence; so does ctx, with its cause.
func (s *Session) Generate(ctx context.Context, prompt []int32, r Request) iter.Seq2[Token, error] {
	return s.Routed(ctx, prompt, Route{Request: r})
}

// prefill brings the cache to hold prompt and returns what follows its last token.
func (s *Session) prefill(ctx context.Context, prompt []int32, want backend.Want) (*backend.Output, error) {
	if room := s.cache.Slots(); len(prompt) >= room {
		return nil, fmt.Errorf("a prompt of %d tokens leaves no room for an answer in a context of %d: %w", len(prompt), room, qwen2.ErrContext)
	}
	same := 0
	for same < len(s.ids) && same < len(prompt)-1 && s.ids[same] == prompt[same] { // the last token always runs, for its logits
		same++
	}
	s.cache.Truncate(same)
	s.ids = s.ids[:same]
	s.summary.ReusedTokens = same
	out, err := s.e.forward(ctx, s.cache, prompt[same:], want)
	if err == nil {
		s.ids = append(s.ids, prompt[same:]...)
	}
	return out, err
}
