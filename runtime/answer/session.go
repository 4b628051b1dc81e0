package answer

import (
	"context"
	"iter"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Model is what answers need of a model. Its methods are safe for concurrent use.
type Model interface {
	Context() int
	Tokenize(text string, special bool) ([]int32, error)
	TokenBytes(id int32) ([]byte, error)
}

// Session is what answers need of a session: one text, which generates one stretch at a time.
type Session interface {
	Generate(ctx context.Context, prompt []int32, s terms.Settings) iter.Seq2[engine.Token, error]
	// Score yields the tokens of a text with their log-probabilities, and the top most probable ones.
	Score(ctx context.Context, text []int32, top int) iter.Seq2[engine.Token, error]
	Summary() engine.Summary // of the last stretch
	End() *engine.Token      // of the last stretch; nil if it did not end with an end token
}
