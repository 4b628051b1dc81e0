package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen2"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// readRows is how many positions have all their logits in memory at a time.
const readRows = 32

// Seen is what a model makes of the token at a position of a text, from the tokens before it.
type Seen struct {
	Pos     int     // of the token
	Choice  int32   // the most probable token
	LogProb float32 // natural logarithm of its probability
	Given   float32 // of that of the token that stands there
	Margin  float32 // p₁ - p₂ of the two most probable tokens, in [0, 1]: to the last bit what a router sees
	Entropy float32 // in nats, at least 0
	// Top are the most probable tokens, best first: with [Session.Score] only.
	Top []terms.Candidate

	// Hidden is the state after the final norm, as the output matrix sees it. It is overwritten later.
	Hidden []float32
}

// Read runs text through the model and tells see of the positions from to len(text)-1, in this order. What the session
// holds of the text already is not run again, but for those. from is at least 1: nothing comes before the first token.
// The text may be as long as the session's. An error of see ends it and is returned.
func (s *Session) Read(ctx context.Context, text []int32, from int, see func(Seen) error) error {
	return s.reading(ctx, text, from, 0, see)
}

// Score is [Session.Read] from the second token on, with so many of the most probable tokens at each position, 0 to
// [terms.MaxTop].
func (s *Session) Score(ctx context.Context, text []int32, top int, see func(Seen) error) error {
	if top < 0 || top > terms.MaxTop {
		return fmt.Errorf("%d best tokens with each token are not possible: 0 to %d are", top, terms.MaxTop)
	}
	return s.reading(ctx, text, 1, top, see)
}

// reading is a reading of a text, which nothing else of the session disturbs.
func (s *Session) reading(ctx context.Context, text []int32, from, top int, see func(Seen) error) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return s.e.named(ctx, err)
	}
	defer done()
	defer s.note()
	return s.e.named(ctx, s.read(ctx, text, from, top, see))
}

func (s *Session) read(ctx context.Context, text []int32, from, top int, see func(Seen) error) error {
	switch {
	case from < 1 || from > len(text):
		return fmt.Errorf("reading a text of %d tokens from position %d on: it must be 1 to %d",
			len(text), from, len(text))
	case len(text) > s.cache.Slots():
		return fmt.Errorf("a text of %d tokens does not fit into a context of %d: %w",
			len(text), s.cache.Slots(), qwen2.ErrContext)
	case from == len(text):
		return nil
	}
	vocab := s.e.model.Config().Vocab
	for _, id := range text {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("token %d is not in the vocabulary of %d", id, vocab)
		}
	}
	margin, err := router.New(router.Options{Policy: router.Margin})
	if err != nil {
		return err
	}
	if err := s.rewind(ctx, text[:from-1]); err != nil {
		return err
	}
	out := make([]backend.Output, min(readRows, len(text)-from))
	for pos := from; pos < len(text); {
		n := min(len(out), len(text)-pos)
		want := backend.Want{K: max(2, top), Logits: true, Hidden: true}
		if err := s.append(ctx, text[pos-1:pos-1+n], out[:n], want); err != nil {
			return err
		}
		for i := range n {
			one := seen(pos, text[pos], &out[i], margin)
			one.Top = out[i].LogProbs(top)
			if err := see(one); err != nil {
				return err
			}
			pos++
		}
	}
	return nil
}

// seen is what a head says of the token that follows, which is given.
func seen(pos int, given int32, head *backend.Output, margin *router.Router) Seen {
	return Seen{
		Pos: pos, Choice: head.Top[0].ID, LogProb: head.Top[0].Logit - head.LogSumExp,
		Given: head.Logits[given] - head.LogSumExp, Margin: margin.Confidence(pos, head),
		Entropy: float32(math.Max(0, float64(head.Entropy))), Hidden: head.Hidden,
	}
}

// rewind brings the cache to hold text and nothing else.
func (s *Session) rewind(ctx context.Context, text []int32) error {
	same := 0
	for same < min(len(s.ids), len(text)) && s.ids[same] == text[same] {
		same++
	}
	s.cache.Truncate(same)
	s.ids = s.ids[:same]
	if same == len(text) {
		return nil
	}
	return s.append(ctx, text[same:], nil, backend.Want{})
}

// append runs tokens behind what the cache holds and fills out, if there is one, for each of them.
func (s *Session) append(ctx context.Context, tokens []int32, out []backend.Output, want backend.Want) error {
	before := s.cache.Len()
	rows, err := s.cache.Extend(tokens)
	if err != nil {
		return err
	}
	for i := range out {
		want.Rows = append(want.Rows, i)
	}
	if err := s.e.share(ctx, s.member, s.cache.KV(), rows, out, want, true); err != nil {
		s.cache.Truncate(before)
		return err
	}
	s.ids = append(s.ids, tokens...)
	return nil
}

// Width is that of the model's hidden states.
func (e *Engine) Width() int { return e.model.Config().Dim }
