package openai

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
	"github.com/pilotfish-ai/pilotfish/netproto/openai/request"
)

// TestLogProbForms: every log-probability can be formatted as JSON.
func TestLogProbForms(t *testing.T) {
	for p, want := range map[float64]float64{-0.5: -0.5, -9999: -9999, -1e5: -9999, math.Inf(-1): -9999} {
		assert.InDelta(t, want, logProb(p), 0)
	}
	assert.InDelta(t, -9999, logProb(math.NaN()), 0, "a token without a log-probability")
}

// TestTopForms: as many of the best tokens are returned as are requested, even if there are more.
func TestTopForms(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, nil)
	tokens := []answer.Token{{ID: 'a', Top: []answer.Candidate{{ID: 'a', LogProb: -1}, {ID: 'b', LogProb: -2}}}}
	for top := range 4 {
		r := &request.Request{Settings: answer.Settings{LogProbs: true, Top: top}}
		assert.Len(t, s.chatLogProbs(r, tokens).Content[0].Top, min(top, 2))
		assert.Len(t, s.textLogProbs(r, answer.Piece{Tokens: tokens}, new(int)).Top[0], min(top, 2))
	}
}

// TestOffsets: offsets of tokens are counted in characters.
func TestOffsets(t *testing.T) {
	s := newTestServer(t, &fakeModel{answer: func(string, answer.Settings) string { return "aü€b" }}, nil)
	answer := object(t, ask(t, s, "/v1/completions", `{"prompt":"x","logprobs":0}`).Body.Bytes())
	assert.Equal(t, []any{0., 1., 1., 2., 2., 2., 3.}, at(answer, "choices", 0, "logprobs", "text_offset"))
}
