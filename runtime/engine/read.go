package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// readRows is the number of positions with all their logits in memory at a time.
const readRows = 32

// Seen is the output of a model for the token at a position of a text, from the tokens before it.
type Seen struct {
	Pos     int               // of the token
	Choice  int32             // the most probable token
	LogProb float32           // natural logarithm of its probability
	Given   float32           // the same of the token in the text
	Margin  float32           // p₁ - p₂ of the two most probable tokens, in [0, 1], with the bits that a router sees
	Entropy float32           // in nats, at least 0
	Top     []terms.Candidate // the most probable tokens, best first: the requested number

	// Hidden is the state after the final norm, the input of the output matrix. It is overwritten after see returns.
	Hidden []float32
}

// Read runs text through the model and calls see for the positions from to len(text)-1, in this order, with the top
// most probable tokens at each, 0 to [terms.MaxTop]. Tokens before from that are in the session's cache are not
// computed again. No token precedes the first one: at position 0, Given is NaN and the other values are zero. The text
// may be as long as the context. If see returns an error, Read stops and returns it.
func (s *Session) Read(ctx context.Context, text []int32, from, top int, see func(Seen) error) error {
	ctx, done, err := s.beginText(ctx)
	if err != nil {
		return s.e.withFileName(ctx, err)
	}
	defer done()
	defer s.publishSummary()
	return s.e.withFileName(ctx, s.readPositions(ctx, text, from, top, see))
}

// Score yields the tokens of a text with their log-probabilities after the tokens before them, and with the top most
// probable tokens at each position, 0 to [terms.MaxTop]. The LogProb of the first token is NaN. An error ends the
// sequence.
func (s *Session) Score(ctx context.Context, ids []int32, top int) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		begin := time.Now()
		t, err := s.e.Tokenizer()
		if err == nil {
			text := t.NewDecoder()
			err = s.Read(ctx, ids, 0, top, func(one Seen) error {
				id := ids[one.Pos]
				token := Token{
					ID: id, Pos: one.Pos, Text: text.Push(id), Origin: string(draft.Edge), At: time.Since(begin),
					LogProb: one.Given, Top: one.Top,
				}
				if !yield(token, nil) {
					return errEnough
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Token{}, err)
		}
	}
}

// errEnough ends a score when the caller takes no more tokens.
var errEnough = errors.New("enough")

func (s *Session) readPositions(ctx context.Context, text []int32, from, top int, see func(Seen) error) error {
	switch {
	case len(text) == 0:
		return errors.New("no tokens: a text needs at least one")
	case top < 0 || top > terms.MaxTop:
		return fmt.Errorf("%d best tokens with each token are not possible: 0 to %d are", top, terms.MaxTop)
	case from < 0 || from > len(text):
		return fmt.Errorf("reading a text of %d tokens from position %d on: it must be 0 to %d",
			len(text), from, len(text))
	case len(text) > s.cache.Slots():
		return fmt.Errorf("a text of %d tokens does not fit into a context of %d: %w",
			len(text), s.cache.Slots(), transformer.ErrContext)
	}
	if err := s.e.checkTokens("text", text); err != nil {
		return err
	}
	margin, err := router.New(router.Options{Policy: router.Margin})
	if err != nil {
		return err
	}
	if from == 0 {
		if err := see(Seen{Given: float32(math.NaN())}); err != nil {
			return err
		}
		from = 1
	}
	if from == len(text) {
		return nil
	}
	s.truncateText(terms.CommonPrefix(s.ids, text[:from-1]))
	if rest := text[len(s.ids) : from-1]; len(rest) > 0 {
		if err := s.appendTokens(ctx, rest, nil, backend.Want{}); err != nil {
			return err
		}
	}
	out := make([]backend.Output, min(readRows, len(text)-from))
	for pos := from; pos < len(text); {
		n := min(len(out), len(text)-pos)
		want := backend.Want{K: max(2, top), Logits: true, Hidden: true}
		if err := s.appendTokens(ctx, text[pos-1:pos-1+n], out[:n], want); err != nil {
			return err
		}
		for i := range n {
			head := &out[i]
			err := see(Seen{
				Pos: pos, Choice: head.Top[0].ID, LogProb: head.Top[0].Logit - head.LogSumExp,
				Given: head.Logits[text[pos]] - head.LogSumExp, Margin: margin.Confidence(pos, head),
				Entropy: float32(math.Max(0, float64(head.Entropy))), Hidden: head.Hidden, Top: head.LogProbs(top),
			})
			if err != nil {
				return err
			}
			pos++
		}
	}
	return nil
}

// Width returns the width of the model's hidden states.
func (e *Engine) Width() int { return e.model.Config().Dim }
