package examples

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
)

// fused is a cloud that panics.
type fused struct{ why any }

func (f fused) Ask(context.Context, pilotfish.Question) (pilotfish.Answer, error) { panic(f.why) }

// TestCloudPanics: a panic of the caller's cloud continues with its value in the goroutine that ranges over the answer,
// and the session stays usable.
func TestCloudPanics(t *testing.T) {
	s := demoModel(t, demo.Small()).NewSession()
	always, err := pilotfish.NewRouter(pilotfish.RouterOptions{Policy: "always"})
	require.NoError(t, err)
	errFuse := errors.New("the fuse has gone")
	for _, why := range []any{errFuse, "the fuse has gone"} {
		func() {
			defer func() {
				got := recover()
				if e, ok := got.(error); ok {
					assert.ErrorIs(t, e, errFuse)
					return
				}
				assert.Contains(t, got, "the fuse has gone")
			}()
			for range s.Generate(t.Context(), "In the barn", pilotfish.Via(fused{why}, always),
				pilotfish.MaxTokens(8)) {
				continue
			}
			assert.Fail(t, "no panic")
		}()
		_, err = pilotfish.Text(s.Generate(t.Context(), "In the barn", pilotfish.MaxTokens(2)))
		assert.NoError(t, err)
	}
}

// TestOptionsInOrder: options of an answer override those of the chat.
func TestOptionsInOrder(t *testing.T) {
	chat := demoModel(t, demo.Small()).NewChat(
		pilotfish.ChatOptions{Options: []pilotfish.Option{pilotfish.MaxTokens(5)}})
	for tokens, options := range map[int][]pilotfish.Option{5: nil, 2: {pilotfish.MaxTokens(2)}} {
		_, err := pilotfish.Text(chat.Send(t.Context(), question, options...))
		require.NoError(t, err)
		assert.Equal(t, tokens, chat.Stats().Tokens)
	}
}

// TestUnansweredIsForgotten: a question without an answer is not part of the conversation.
func TestUnansweredIsForgotten(t *testing.T) {
	chat := demoModel(t, demo.Small()).NewChat(pilotfish.ChatOptions{})
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := pilotfish.Text(chat.Send(gone, question))
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, chat.Messages())
	_, err = pilotfish.Text(chat.Send(t.Context(), question, pilotfish.MaxTokens(3)))
	require.NoError(t, err)
	require.Len(t, chat.Messages(), 2)
	assert.Equal(t, pilotfish.Message{Role: "user", Content: question}, chat.Messages()[0])
}

// TestLogProbs: with Top, each token has its log-probability and the best tokens; a greedy token is the first of them.
func TestLogProbs(t *testing.T) {
	m := demoModel(t, demo.Small())
	for tok, err := range m.NewSession().Generate(t.Context(), "In the barn",
		pilotfish.Settings{Top: 3, MaxTokens: 4}) {
		require.NoError(t, err)
		require.Len(t, tok.Top, 3)
		assert.Equal(t, pilotfish.Candidate{ID: tok.ID, LogProb: tok.LogProb}, tok.Top[0])
		assert.LessOrEqual(t, tok.Top[1].LogProb, tok.LogProb)
		assert.Less(t, tok.LogProb, float32(1e-3))
	}
}

// seer is a router that counts along the text, and a sampler that records its choices; both look at heads.
type seer struct {
	t      *testing.T
	prompt int
	states map[int]uint64
	chosen []int32
}

func (s *seer) see(h pilotfish.Head) {
	assert.NotEmpty(s.t, h.Hidden)
	assert.GreaterOrEqual(s.t, h.Margin, 0.0)
	assert.LessOrEqual(s.t, h.Margin, 1.0)
	assert.Less(s.t, h.Best[0].LogProb, float32(1e-3))
}

func (s *seer) Decide(h pilotfish.Head) pilotfish.Decision {
	s.see(h)
	s.states[h.Pos] = h.State
	return pilotfish.Decision{Confidence: 1, State: h.State + 3}
}

func (s *seer) Pick(h pilotfish.Head) int32 {
	s.see(h)
	if n := h.Pos - s.prompt; n >= len(s.chosen) {
		s.chosen = append(s.chosen, h.Best[1].ID)
	}
	n := h.Pos - s.prompt
	assert.Equal(s.t, s.chosen[:n], append([]int32{}, h.Answer...))
	return s.chosen[n]
}

// TestHeads: a router gets the state from its last decision, a sampler gets the tokens of the answer so far, and both
// get the output of the small model.
func TestHeads(t *testing.T) {
	m, service := served(t)
	ids, err := m.TextTokens("In the barn")
	require.NoError(t, err)
	s := &seer{t: t, prompt: len(ids), states: map[int]uint64{}, chosen: []int32{}}
	route := pilotfish.Via(service, s)
	for _, err := range m.NewSession().GenerateTokens(t.Context(), ids, pilotfish.MaxTokens(6), route) {
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, len(s.states), 6)
	for n := range 6 {
		assert.EqualValues(t, 3*n, s.states[len(ids)+n])
	}
	var got []int32
	six := pilotfish.Settings{MaxTokens: 6, IgnoreEnd: true}
	for tok, err := range m.NewSession().GenerateTokens(t.Context(), ids, pilotfish.SampleBy(s), six) {
		require.NoError(t, err)
		got = append(got, tok.ID)
	}
	assert.Equal(t, s.chosen[:6], got)
}
